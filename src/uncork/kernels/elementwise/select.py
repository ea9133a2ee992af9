"""Selection of element-wise kernels: of one operation, or of an expression that the compiler has
fused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Union

from msgspec import Struct

from uncork.internal_ops.fused import Fused
from uncork.kernels.elementwise.lowering import Lowered, has_lowering, lowered
from uncork.kernels.elementwise.spec import Expression, Member
from uncork.kernels.extents import (
    certainly,
    decline_if,
    extents,
    nanoseconds,
    product,
    same,
    same_extents,
)
from uncork.kernels.kernel_plan import (
    In,
    KernelCall,
    Operand,
    Out,
    Selection,
    Stages,
    whole_shares,
)
from uncork.kernels.layer import Layer, staged
from uncork.kernels.movement.looks import Piece
from uncork.kernels.movement.nd_copy import strides
from uncork.kernels.movement.select_moved import seen_through
from uncork.kernels.runtime.target import Target
from uncork.kernels.stored_types import element_bytes
from uncork.ops import Operation
from uncork.symbolic import SizeLike
from uncork.types import ElementType, TensorSpec

#: A result is walked through by at most so many loops.
_MOST_LOOPS = 6
#: Threads share a row by runs of so many vectors.
_SHARED = 16
#: A loop is shared rather than one inside it where the largest part is larger by no more than so.
_AS_GOOD = 1.05
#: Rough cost in nanoseconds of a vector of a scalar operation; all others are one step of
#: arithmetic.
_COSTS = dict.fromkeys(
    (
        "sigmoid",
        "tanh",
        "exp",
        "log",
        "erf",
        "gelu",
        "gelu_tanh",
        "softplus",
        "mish",
        "swish",
        "elu",
        "selu",
    ),
    8.0,
)
_COSTS |= dict.fromkeys(
    ("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh"), 16.0
)
_COSTS |= dict.fromkeys(("atan2", "erf_inverse"), 32.0)
_COSTS |= dict.fromkeys(("divide_cut", "divide_down", "remainder_cut", "remainder_down"), 16.0)
_COSTS["fake_quantize"] = 6.0


class Loops(Struct, frozen=True):
    """Sizes of the loops, outermost first, and for the result and each operand the bytes from one
    turn to the next.
    """

    sizes: tuple[SizeLike, ...]
    strides: tuple[tuple[SizeLike, ...], ...]


class OutsideOperand(Struct, frozen=True):
    """An operand: the outside input that it lies in, the shape by which it stretches, its type,
    and where it lies, if it is not all of the input.
    """

    number: int
    shape: tuple[SizeLike, ...]
    element_type: str
    seen: Union[Piece, None] = None

    def is_same(self, other: OutsideOperand) -> bool:
        """Whether both are the same elements in every call."""
        seen, others = self.seen, other.seen
        if seen is None or others is None:
            alike = seen is others
        else:
            alike = same(seen.offset, others.offset) and same_extents(seen.steps, others.steps)
        kinds = self.number == other.number, self.element_type == other.element_type
        return alike and all(kinds) and same_extents(self.shape, other.shape)

    def steps(self, shape: Sequence[SizeLike]) -> list[SizeLike]:
        """Bytes from one element to the next along each axis of a result of this shape: 0 where the
        operand stretches.
        """
        own = strides(self.shape, element_bytes(self.element_type))
        if self.seen is not None:
            own = list(self.seen.steps)
        found: list[SizeLike] = [0] * (len(shape) - len(own))
        for size, step, whole in zip(self.shape, own, shape[len(found) :], strict=True):
            stretches = certainly(size, 1)
            decline_if(
                not (stretches or certainly(whole, 1) or same(size, whole)),
                "whether an operand stretches is known at the call only",
            )
            found.append(0 if stretches else step)
        return found


def loops_of(
    shape: Sequence[SizeLike], operands: Sequence[OutsideOperand], result: str
) -> tuple[Loops, list[bool]]:
    """Loops through a result of this shape and type, as few as can be and at least two, with
    operands aligned at the right. Also tells which operands change along the last loop.
    """
    steps = [strides(shape, element_bytes(result)), *(o.steps(shape) for o in operands)]
    counts: list[SizeLike] = []
    turns: list[tuple[SizeLike, ...]] = []
    for axis, size in enumerate(shape):
        if certainly(size, 1):
            continue
        own = tuple(step[axis] for step in steps)
        if counts and all(same(o, i * size) for o, i in zip(turns[-1], own, strict=True)):
            counts[-1], turns[-1] = counts[-1] * size, own
        else:
            counts.append(size)
            turns.append(own)
    varying = [True] * len(operands)
    if turns:
        varying = [not certainly(step, 0) for step in turns[-1][1:]]
        decline_if(
            any(
                v and not certainly(step, element_bytes(o.element_type))
                for v, step, o in zip(varying, turns[-1][1:], operands, strict=True)
            ),
            "an operand lies scattered along its rows",
        )
    # A second loop of one turn makes one kernel of what differs in the batch only.
    missing = max(0, 2 - len(counts))
    counts[:0], turns[:0] = [1] * missing, [(0,) * len(steps)] * missing
    return Loops(tuple(counts), tuple(zip(*turns, strict=True))), varying


def _stored(element_type: ElementType) -> str:
    """The name of the type by which values are held; a type that is only moved is held by the type
    of its carrier.
    """
    name = element_type.name
    if name in ("f32", "f64", "f16", "bf16", "boolean") or (
        element_type.is_integer and element_type.bits in (8, 16, 32, 64)
    ):
        return name
    return str({"int8": "i8", "uint8": "u8"}[element_type.dtype.name])


class PendingMember(Struct, frozen=True):
    """An operation that is to become a member of an expression, with the places its inputs come
    from, and its specs.

    Inputs are (True, number of an outside input) or (False, number of a part before it). `seen` is
    where each lies in its outside input; None: it is all of it.
    """

    operation: Operation
    inputs: tuple[tuple[bool, int], ...]
    specs: tuple[TensorSpec, ...]
    output: TensorSpec
    seen: tuple[Union[Piece, None], ...] = ()


def _among(operands: list[OutsideOperand], operand: OutsideOperand) -> int:
    """The number of an operand, which is added where it is a new one."""
    for number, known in enumerate(operands):
        if known.is_same(operand):
            return number
    operands.append(operand)
    return len(operands) - 1


def expression(
    parts: Sequence[PendingMember], target: Target
) -> tuple[Expression, Loops, list[OutsideOperand]]:
    """The spec of the kernel for parts of which the last is the result, its loops, and its
    operands. Raises KernelDeclined where there is no kernel.
    """
    shape = extents(parts[-1].output)
    operands: list[OutsideOperand] = []
    lowerings: list[tuple[Lowered, list[tuple[bool, int]]]] = []
    for part in parts:
        decline_if(
            any(spec.element_type is ElementType.string for spec in (*part.specs, part.output)),
            "no kernel for strings",
        )
        result = lowered(part.operation, part.specs, part.output)
        arguments: list[tuple[bool, int]] = []
        for position, dims in zip(result.inputs, result.shapes, strict=True):
            outside, number = part.inputs[position]
            if outside:
                spec, seen = part.specs[position], part.seen[position] if part.seen else None
                decline_if(
                    seen is not None and not same_extents(dims, extents(spec)),
                    "an operand that lies in another tensor stretches in a way of its own",
                )
                operand = OutsideOperand(number, tuple(dims), _stored(spec.element_type), seen)
                arguments.append((True, _among(operands, operand)))
            else:
                arguments.append((False, number))
        lowerings.append((result, arguments))
    members = tuple(
        Member(
            f.op,
            tuple(n if outside else len(operands) + n for outside, n in arguments),
            _stored(part.output.element_type),
            f.constants,
        )
        for part, (f, arguments) in zip(parts, lowerings, strict=True)
    )
    types = tuple(operand.element_type for operand in operands)
    loops, varying = loops_of(shape, operands, members[-1].result)
    decline_if(len(loops.sizes) > _MOST_LOOPS, "no kernel for this broadcasting")
    widest = max(
        4 if name in ("f16", "bf16") else element_bytes(name)
        for name in (*types, *(m.result for m in members))
    )
    width, row = max(1, target.lanes * 4 // widest), loops.sizes[-1]
    while isinstance(row, int) and width > max(1, row):
        width //= 2
    found = Expression(
        types,
        tuple(varying),
        members,
        len(loops.sizes),
        width,
        width > 1 and not isinstance(row, int),
    )
    return found, loops, operands


def _native(parts: Sequence[PendingMember], target: Target) -> Selection:
    spec, loops, sources = expression(parts, target)
    steps = sum(_COSTS.get(member.op, 1.0) for member in spec.members)
    cost = nanoseconds(product(loops.sizes), steps / spec.lanes)
    return staged(lambda threads: _split(spec, loops, sources, threads), cost)


def _call(
    spec: Expression,
    loops: Loops,
    sources: Sequence[OutsideOperand],
    depth: int,
    part: tuple[SizeLike, SizeLike],
) -> KernelCall:
    """The kernel on turns (first, number) of the loop at `depth`."""
    first, number = part
    begins = [first * strides[depth] for strides in loops.strides]
    operands: list[Operand] = [Out(0, begins[0])]
    for source, begin in zip(sources, begins[1:], strict=True):
        offset = 0 if source.seen is None else source.seen.offset
        operands.append(In(source.number, offset + begin))
    operands += [*loops.sizes[:depth], number, *loops.sizes[depth + 1 :]]
    for outer in range(spec.loops - 1):
        operands += [strides[outer] for strides in loops.strides]
    return spec, operands


def _split(
    spec: Expression, loops: Loops, sources: Sequence[OutsideOperand], threads: int
) -> Stages:
    """The calls of so many threads, which share the outermost loop that divides the work about as
    evenly as any other.
    """
    last = len(loops.sizes) - 1
    known = [size if isinstance(size, int) else threads for size in loops.sizes]
    blocks = [*known[:-1], -(-known[-1] // spec.lanes)]
    most = [-(-size // threads) / max(1, size) for size in blocks]
    depth = next(d for d, share in enumerate(most) if share <= _AS_GOOD * min(most))
    block = _SHARED * spec.lanes if depth == last else 1
    if known[depth] < block:
        block = 1 if spec.lanes == 1 else spec.lanes
    parts = whole_shares(loops.sizes[depth], threads, block)
    return Stages([[_call(spec, loops, sources, depth, part) for part in parts]], 0)


def select_elementwise(layer: Layer) -> Selection:
    operation, inputs, outputs, target = layer.operation, layer.inputs, layer.outputs, layer.target
    specs = tuple(spec for spec in inputs if spec is not None)
    decline_if(len(specs) < len(inputs), "no kernel for inputs that are left out")
    return _native(
        [PendingMember(operation, tuple((True, i) for i in range(len(specs))), specs, outputs[0])],
        target,
    )


def select_fused(layer: Layer) -> Selection:
    operation, inputs, target = layer.of(Fused), layer.inputs, layer.target
    specs = [spec for spec in inputs if spec is not None]
    return _native(parts_of(operation, specs), target)


def parts_of(operation: Fused, specs: Sequence[TensorSpec]) -> list[PendingMember]:
    """The members of a fused operation with their specs. Members that move an outside input are
    none: the others read it where it lies. Raises KernelDeclined where they cannot.
    """
    parts: list[PendingMember] = []
    known = [_Known((True, number), spec) for number, spec in enumerate(specs)]
    for member in operation.members:
        given = [known[n] for n in member.arguments]
        own = tuple(one.spec for one in given)
        outputs = member.operation.describe(own)
        if has_lowering(member.operation):
            (output,) = outputs
            places, seen = tuple(one.place for one in given), tuple(one.seen for one in given)
            parts.append(PendingMember(member.operation, places, own, output, seen))
            known.append(_Known((False, len(parts) - 1), output))
            continue
        for number, output in enumerate(outputs):
            lies = seen_through(member.operation, own, outputs, number)
            is_input = given[0].place[0] and given[0].seen is None
            decline_if(lies is None or not is_input, "a move takes no part of an input")
            known.append(_Known(given[0].place, output, lies))
    return parts


class _Known(Struct, frozen=True):
    """What members of a fused operation may read."""

    place: tuple[bool, int]
    spec: TensorSpec
    seen: Union[Piece, None] = None
