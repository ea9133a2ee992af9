"""Selection of element-wise kernels: of one operation, or of an expression that the compiler has
fused.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from uncork.internal_ops.fused import Fused
from uncork.kernels.elementwise.lowering import Lowered, lowered
from uncork.kernels.elementwise.spec import Expression, Member
from uncork.kernels.extents import (
    certainly,
    decline_if,
    extents,
    nanoseconds,
    product,
    same,
)
from uncork.kernels.kernel_plan import (
    In,
    KernelCall,
    KernelPlan,
    Operand,
    Out,
    Selection,
    Stages,
    whole_shares,
)
from uncork.kernels.layer import Layer
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


def loops_of(
    shape: Sequence[SizeLike], operands: Sequence[Sequence[SizeLike]], sizes: Sequence[int]
) -> tuple[Loops, list[bool]]:
    """Loops through a result of this shape, as few as can be and at least two, with operands of
    these shapes aligned at the right.

    `sizes` are bytes of an element: of the result, then of each operand. Also tells which operands
    change along the last loop.
    """
    rank = len(shape)
    aligned = [(1,) * (rank - len(s)) + tuple(s) for s in operands]
    groups: list[
        tuple[tuple[bool, ...], list[int]]
    ] = []  # dimensions along which the same operands change: one loop
    for axis, size in enumerate(shape):
        if not certainly(size, 1):
            changing = tuple(not certainly(s[axis], 1) for s in aligned)
            decline_if(
                any(c and not same(s[axis], size) for c, s in zip(changing, aligned, strict=True)),
                "whether an operand stretches is known at the call only",
            )
            if groups and groups[-1][0] == changing:
                groups[-1][1].append(axis)
            else:
                groups.append((changing, [axis]))
    # A second loop of one turn makes one kernel of what differs in the batch only.
    groups = [(tuple(True for _ in aligned), [])] * (2 - len(groups)) + groups
    counts = tuple(product(shape[axis] for axis in axes) for _, axes in groups)

    def strides(
        dims: Sequence[SizeLike], changes: Sequence[bool], size: int
    ) -> tuple[SizeLike, ...]:
        return tuple(
            product(dims[axes[-1] + 1 :]) * size if axes and c else 0
            for (_, axes), c in zip(groups, changes, strict=True)
        )

    all_strides = [strides(shape, [True] * len(groups), sizes[0])]
    all_strides += [
        strides(s, [g[0][i] for g in groups], size)
        for i, (s, size) in enumerate(zip(aligned, sizes[1:], strict=True))
    ]
    varying = [groups[-1][0][i] for i in range(len(operands))]
    return Loops(counts, tuple(all_strides)), varying


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

    Inputs are (True, number of an outside input) or (False, number of a part before it).
    """

    operation: Operation
    inputs: tuple[tuple[bool, int], ...]
    specs: tuple[TensorSpec, ...]
    output: TensorSpec


def expression(
    parts: Sequence[PendingMember], target: Target
) -> tuple[Expression, Loops, list[int]]:
    """The spec of the kernel for parts of which the last is the result, its loops, and the number
    of the outside input that each operand is. Raises KernelDeclined where there is no kernel.
    """
    shape = extents(parts[-1].output)
    operands: list[
        tuple[int, tuple[SizeLike, ...], str]
    ] = []  # outside input, shape by which it stretches, type
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
                operand = (number, dims, _stored(part.specs[position].element_type))
                if operand not in operands:
                    operands.append(operand)
                arguments.append((True, operands.index(operand)))
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
    types = tuple(operand[2] for operand in operands)
    ops = [member.op for member in members]
    decline_if(
        not target.has("f16c")
        and target.has("sse2")
        and any("f16" in name for name in (*types, *(m.result for m in members), *ops)),
        "no kernel for f16 on this machine",
    )
    sizes = [element_bytes(name) for name in (members[-1].result, *types)]
    loops, varying = loops_of(shape, [operand[1] for operand in operands], sizes)
    decline_if(len(loops.sizes) > _MOST_LOOPS, "no kernel for this broadcasting")
    widest = max(
        4 if name in ("f16", "bf16") else element_bytes(name)
        for name in (*types, *(m.result for m in members))
    )
    width, row = max(1, target.lanes * 4 // widest), loops.sizes[-1]
    while isinstance(row, int) and width > max(1, row):
        width //= 2
    spec = Expression(
        types,
        tuple(varying),
        members,
        len(loops.sizes),
        width,
        width > 1 and not isinstance(row, int),
    )
    return spec, loops, [operand[0] for operand in operands]


def _native(parts: Sequence[PendingMember], target: Target) -> Selection:
    spec, loops, sources = expression(parts, target)
    steps = sum(_COSTS.get(member.op, 1.0) for member in spec.members)
    return KernelPlan(
        spec.name,
        [_call(spec, loops, sources)],
        cost=nanoseconds(product(loops.sizes), steps / spec.lanes),
        split=lambda threads: _split(spec, loops, sources, threads),
    )


def _call(
    spec: Expression,
    loops: Loops,
    sources: Sequence[int],
    depth: int = 0,
    part: tuple[SizeLike, SizeLike] | None = None,
) -> KernelCall:
    """The kernel on all of the result, or on turns (first, number) of the loop at `depth`."""
    first, number = part or (0, loops.sizes[depth])
    begins = [first * strides[depth] for strides in loops.strides]
    operands: list[Operand] = [Out(0, begins[0])]
    operands += [In(source, begin) for source, begin in zip(sources, begins[1:], strict=True)]
    operands += [*loops.sizes[:depth], number, *loops.sizes[depth + 1 :]]
    for outer in range(spec.loops - 1):
        operands += [strides[outer] for strides in loops.strides]
    return spec, operands


def _split(spec: Expression, loops: Loops, sources: Sequence[int], threads: int) -> Stages:
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
    """The members of a fused operation with their specs."""
    parts: list[PendingMember] = []
    for member in operation.members:
        places = tuple(
            (n < len(specs), n if n < len(specs) else n - len(specs)) for n in member.arguments
        )
        given = tuple(specs[n] if outside else parts[n].output for outside, n in places)
        parts.append(
            PendingMember(member.operation, places, given, member.operation.describe(given)[0])
        )
    return parts
