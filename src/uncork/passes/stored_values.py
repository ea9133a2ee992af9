"""`Stored`: the small numbers of a constant that a tensor of floats is made of, whatever stands
between the two.

    Const (8 bits or fewer, f16, bf16) -> Subtract (in whole numbers) -> Convert, or Gather of a
        small table -> Subtract (zero points) and Multiply (scales), as many as there are

with Reshape, Squeeze, Unsqueeze, Transpose and Convert anywhere, as NNCF, GPTQ's and AWQ's
converters and people write it. No shapes are matched: every tensor on the way is described by the
axes of the constant, which a Reshape splits or joins and a Transpose orders, and whatever is
subtracted or multiplied is carried back to these axes. What varies along which of them says what
groups are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from weakref import WeakKeyDictionary, ref

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from uncork.internal_ops.bit_planes import BIT_PLANES
from uncork.internal_ops.codes import Change, Codes, laid_once
from uncork.internal_ops.compressed_linear import CompressedMatrix
from uncork.internal_ops.decompression import POWERS, Step, numbers_of
from uncork.ir.model import Model, Node, Source
from uncork.ops import Operation
from uncork.ops.arithmetic import Add, Multiply, Subtract
from uncork.ops.convert import Convert1
from uncork.ops.gather import Gather
from uncork.ops.parameter import Const
from uncork.ops.reshape import Reshape1
from uncork.ops.squeeze import Squeeze1, Unsqueeze1
from uncork.ops.transpose import Transpose1, order_of
from uncork.passes.known_values import computed_value, is_known, known_value
from uncork.passes.match_parts import gathered_axis
from uncork.storage import code_book, decode
from uncork.types import Array, ElementType

RESHAPES = (Reshape1, Squeeze1, Unsqueeze1)
_COMPUTED = (ElementType.f16, ElementType.f32)
_WIDE = frozenset({ElementType.f16, ElementType.bf16})
_EIGHT_BITS = frozenset({ElementType.i8, ElementType.u8, ElementType.f8e4m3, ElementType.f8e5m2})
#: Floats whose codes number a table.
_BY_TABLE = frozenset({ElementType.nf4, ElementType.f4e2m1, ElementType.f8e8m0})
#: Whole numbers that are held in more bits than they have.
_HELD_AS = {
    ElementType.u1: ElementType.u4,
    ElementType.u2: ElementType.u4,
    ElementType.u3: ElementType.u4,
    ElementType.u6: ElementType.u8,
}
_FOUR_BITS = frozenset({ElementType.i4, ElementType.u4})
#: The codes of a table of up to so many numbers. That of codes of 16 bits has no more than those
#: that codes number.
_CODES_OF_BOOKS = {16: ElementType.u4, 256: ElementType.u8, 65536: ElementType.u16}
_BOOK, _LONGEST = min(_CODES_OF_BOOKS), max(_CODES_OF_BOOKS)
#: Codes of four bits that are loaded at once: columns are whole ones, or the codes are held in
#: bytes.
_PER_WORD = 8
#: No column is a multiple of so many: codes of four bits are held in bytes.
_IN_BYTES = 1 << 63


def _held_as(element_type: ElementType) -> ElementType:
    return _HELD_AS.get(element_type, element_type)


class Stored:
    """What a tensor is made of: codes, what each step does with them, and where they are in it.

    `sizes` are axes of the constant, in its order; `dims` are the dimensions of the tensor, each as
    the axes that it is made of, by number; those of size 1 are nowhere.
    """

    def __init__(self, constant: Const, rounds: bool = True) -> None:
        #: Whether steps in f16 round to it; else they are in f32.
        self.rounds = rounds
        shape = constant.shape.static
        self.element_type = constant.element_type
        self.codes = Codes.of(constant)
        #: The constant whose codes these are, as it has them.
        self.constant: Const | None = constant
        self.sizes: dict[int, int] = dict(enumerate(shape))
        self.order = list(self.sizes)
        self.dims = [[axis] if size > 1 else [] for axis, size in enumerate(shape)]
        #: The number of each code, where a table says it.
        self.numbers: Array | None = None
        #: The type that is computed in; None while there are codes only.
        self.computed = ElementType.f16 if self.element_type is ElementType.f16 else None
        #: Zero points and scales, in the order in which they are taken, with an axis for each of
        #: the constant's.
        self.steps: list[Step] = []

    # ---- moves

    def reshape(self, shape: Sequence[int]) -> None:
        """Give the tensor another shape, of as many numbers."""
        waiting = [axis for dim in self.dims for axis in dim]
        dims: list[list[int]] = []
        for left in shape:
            dim: list[int] = []
            while left > 1:
                size = self.sizes[waiting[0]]
                if left % size == 0:
                    dim.append(waiting.pop(0))
                    left //= size
                elif size % left == 0:
                    first, waiting[0] = self._split(waiting[0], left)
                    dim.append(first)
                    left = 1
                else:
                    waiting[:2] = [self._join(*waiting[:2])]
            dims.append(dim)
        self.dims = dims

    def transpose(self, order: Sequence[int]) -> None:
        self.dims = [self.dims[axis] for axis in order]

    def _split(self, axis: int, size: int) -> tuple[int, int]:
        """Two axes in place of one, the first of this size."""
        place = self.order.index(axis)
        first, second = max(self.sizes) + 1, max(self.sizes) + 2
        self.order[place : place + 1] = [first, second]
        self.sizes |= {first: size, second: self.sizes[axis] // size}

        for number, step in enumerate(self.steps):
            shape = list(step.operand.shape)
            pieces = [1, 1] if shape[place] == 1 else [size, self.sizes[second]]
            operand = step.operand.reshape([*shape[:place], *pieces, *shape[place + 1 :]])
            self.steps[number] = replace(step, operand=operand)
        return first, second

    def _join(self, first: int, second: int) -> int:
        """One axis in place of two, which the tensor has one after the other: the codes are laid so
        if they lie otherwise, and what varies along one of the two does so along both.
        """
        place = self.order.index(first)
        wanted = [axis for axis in self.order if axis != second]
        wanted.insert(wanted.index(first) + 1, second)
        if wanted != self.order:
            turned = [self.order.index(axis) for axis in wanted]
            lying, laid = ([a for a in axes if self.sizes[a] > 1] for axes in (self.order, wanted))
            if lying != laid:
                self._hold(self._laid(self._shape, turned, _held_as(self.element_type)))
            for number, step in enumerate(self.steps):
                self.steps[number] = replace(step, operand=step.operand.transpose(turned))
            self.order, place = wanted, wanted.index(first)
        sizes, joined = [self.sizes[first], self.sizes[second]], max(self.sizes) + 1
        for number, step in enumerate(self.steps):
            shape = list(step.operand.shape)
            if shape[place : place + 2] != [1, 1]:
                shape[place : place + 2] = sizes
            operand = np.broadcast_to(step.operand, shape)
            shape[place : place + 2] = [math.prod(shape[place : place + 2])]
            self.steps[number] = replace(step, operand=operand.reshape(shape))
        self.order[place : place + 2] = [joined]
        self.sizes[joined] = math.prod(sizes)
        return joined

    # ---- steps

    def carried(self, operand: Array) -> Array | None:
        """An operand of the tensor, with one axis for each of the constant's; None where it makes
        the tensor larger.
        """
        if operand.ndim > len(self.dims):
            return None
        shape = (1,) * (len(self.dims) - operand.ndim) + operand.shape
        pieces: list[int] = []
        axes: list[int] = []
        for size, dim in zip(shape, self.dims, strict=True):
            sizes = [self.sizes[axis] for axis in dim]
            if size not in (1, math.prod(sizes)):
                return None
            pieces += sizes if size > 1 else [1] * len(dim)
            axes += dim
        places = sorted(range(len(axes)), key=lambda i: self.order.index(axes[i]))
        turned = operand.reshape(pieces).transpose(places)
        sizes_of = {axes[i]: pieces[i] for i in places}
        result: Array = turned.reshape([sizes_of.get(axis, 1) for axis in self.order])
        return result

    def convert(self, to: ElementType) -> bool:
        """Convert the tensor; False where more than the type of its numbers would change."""
        before = self.element_type
        if self.computed is not None:
            if to is self.computed:
                return True
            if self.computed is not ElementType.f16 or to is not ElementType.f32:
                return False
            self.computed = to
            return True
        if to in _COMPUTED:
            if before is ElementType.bf16 and to is not ElementType.f32:
                return False
            self.computed = to
            if before in _BY_TABLE:
                self.numbers = code_book(before)
            if self.numbers is not None:
                wanted = np.float16 if to is ElementType.f16 else np.float32
                with np.errstate(over="ignore"):
                    self.numbers = self.numbers.astype(wanted).astype(np.float32)
            return True
        # whole numbers in more bits
        wider = before.is_integer and to.is_integer and before.bits < to.bits
        wider = wider and (before in _UNSIGNED or to not in _UNSIGNED) and self.numbers is None
        return to is before or wider

    def look_up(self, table: Array, element_type: ElementType) -> bool:
        """The numbers of a table in place of the codes, which number them."""
        if self.computed is not None or self.numbers is not None:
            return False
        if table.ndim != 1 or len(table) > _LONGEST or not self._number_all(len(table)):
            return False
        room, held = next(found for found in _CODES_OF_BOOKS.items() if len(table) <= found[0])
        self.numbers = np.zeros(len(table) if room == _LONGEST else room, np.float32)
        self.numbers[: len(table)] = decode(table, element_type)
        if self.element_type is not held:
            self._hold(self._laid(self._shape, held=held))
        if element_type in _COMPUTED:
            self.computed = element_type
        return True

    def _number_all(self, count: int) -> bool:
        """Whether each code numbers one of so many. Those whose bits say so stay packed."""
        unsigned = self.element_type in _UNSIGNED
        if unsigned and 1 << self.element_type.bits <= count:
            return True
        low, high = self._range()
        return low >= 0 and high < count

    def subtract(self, operand: Array, element_type: ElementType) -> bool:
        """Subtract zero points: of codes in whole numbers, which gives other codes, or after."""
        carried = self.carried(operand)
        if carried is None:
            return False
        if self.computed is not None:
            self._take(carried, subtracts=True)
        else:
            if element_type not in (ElementType.i8, ElementType.u8) or self.numbers is not None:
                return False
            kind = element_type.dtype
            points = carried.astype(kind)

            def subtracted(codes: Array, place: tuple[slice, ...]) -> Array:
                some = tuple(
                    slice(None) if size == 1 else part
                    for size, part in zip(points.shape, place, strict=True)
                )
                return np.asarray(codes.astype(kind) - points[some])

            low, high = self._range(subtracted)
            held = element_type
            for small, least in ((ElementType.i4, -8), (ElementType.u4, 0)):
                if low >= least and high < least + 16:
                    held = small
            self._hold(self.codes.laid(self._shape, None, held, subtracted))
        return True

    def _range(self, change: Change | None = None) -> tuple[int, int]:
        """The smallest and the largest of the codes, or of what becomes of them."""
        ends: list[int] = []
        for place, codes in self.codes.parts(self._shape):
            changed = codes if change is None else change(codes, place)
            ends += int(changed.min()), int(changed.max())
        return min(ends), max(ends)

    def multiply(self, operand: Array) -> bool:
        """Multiply by scales."""
        carried = self.carried(operand)
        if carried is None or self.computed is None:
            return False
        self._take(carried, subtracts=False)
        return True

    def _take(self, operand: Array, subtracts: bool) -> None:
        rounds = self.rounds and self.computed is ElementType.f16
        self.steps.append(Step(operand, subtracts, rounds))

    def _is_whole(self, step: Step) -> bool:
        """Whether zero points are taken off codes without rounding in f16."""
        points = step.operand
        whole = self.element_type.is_integer and self.numbers is None
        return whole and bool(((np.abs(points) <= 1024) & (points == np.rint(points))).all())

    def _few_steps(self) -> list[Step]:
        """The steps, with the product of scales that follow each other in the place of those,
        unless something is rounded in between.
        """
        found: list[Step] = []
        for step in self.steps:
            before = found[-1] if found else step
            if found and not (before.subtracts or step.subtracts or before.rounds):
                operand = numbers_of(before.operand) * numbers_of(step.operand)
                found[-1] = replace(step, operand=operand)
            else:
                found.append(step)
        return found

    # ---- codes

    @property
    def _shape(self) -> list[int]:
        """The sizes of the axes in which the codes lie."""
        return [self.sizes[axis] for axis in self.order]

    def _laid(
        self,
        sizes: Sequence[int],
        order: Sequence[int] | None = None,
        held: ElementType | None = None,
    ) -> Codes:
        """The codes laid anew."""
        if self.constant is None:
            return self.codes.laid(sizes, order, held)
        return laid_once(self.constant, sizes, order, held)

    def _hold(self, codes: Codes) -> None:
        self.constant, self.codes, self.element_type = None, codes, codes.element_type

    def matrix(self, transposed: bool) -> CompressedMatrix | None:
        """The tensor as the second matrix of a product, or a stack of such; None where it is none
        that is stored.
        """
        if len(self.dims) < 2:
            return None
        columns, inner = self.dims[-2:] if transposed else self.dims[:-3:-1]
        matrices = [axis for dim in self.dims[:-2] for axis in dim]
        found = self._runs([*matrices, *columns], inner, self._few_steps(), _PER_WORD, True)
        if found is None:
            return None
        return replace(found, stack=math.prod(self.sizes[axis] for axis in matrices))

    def columns(self, lead: int) -> CompressedMatrix | None:
        """The tensor as columns, one for each place along so many first axes, of codes of whole
        bytes; None where it is none that is stored.
        """
        if len(self.dims) < lead:
            return None
        before, behind = (
            [axis for dim in part for axis in dim] for part in (self.dims[:lead], self.dims[lead:])
        )
        return self._runs(before, behind, self._few_steps(), _IN_BYTES)

    def table(self, planes: bool = False) -> CompressedMatrix | None:
        """The tensor as a table, whose rows are along the first axis and exactly the numbers that
        the layers make, of codes in bit planes if they may lie so; None where it is none that is
        stored.
        """
        if not self.dims:
            return None
        inner = [axis for dim in self.dims[1:] for axis in dim]
        found = self._runs(self.dims[0], inner, self.steps, 1, planes)
        if found is None or found.axes == (0, 1, 2):
            return found
        # Rows lie one after the other.
        packed = None if found.packed is None else found.shape
        return replace(found, codes=found.in_columns(), axes=(0, 1, 2), packed=packed)

    def _runs(
        self,
        columns: list[int],
        inner: list[int],
        steps: list[Step],
        whole: int,
        planes: bool = False,
    ) -> CompressedMatrix | None:
        """The tensor as columns of groups, a column of 4-bit codes being a multiple of `whole`; of
        codes in bit planes if they may lie so, and take fewer bytes.
        """
        if self.computed is not ElementType.f32:
            return None
        varies = [
            any(step.operand.shape[self.order.index(axis)] > 1 for step in steps) for axis in inner
        ]
        lead = max((i + 1 for i, varied in enumerate(varies) if varied), default=0)
        blocks = (columns, inner[:lead], inner[lead:])
        shape = tuple(math.prod(self.sizes[axis] for axis in block) for block in blocks)
        short = self.numbers is not None and len(self.numbers) == _BOOK
        element_type = ElementType.u4 if short else self.element_type
        held = _held_as(element_type)
        planes = planes and self._fits_planes(blocks, shape)
        if held in _FOUR_BITS and shape[1] * shape[2] % whole:
            held = ElementType.i8 if held is ElementType.i4 else ElementType.u8
        numbered = self.numbers is not None and held is ElementType.u16
        if not numbered and held not in _FOUR_BITS | _EIGHT_BITS | _WIDE:
            return None
        if not planes:
            codes, axes, packed = self._lying(blocks, shape, held)
        else:
            held, axes, packed = self.element_type, (0, 1, 2), shape
            codes = self._in_planes(shape[0], shape[1] * shape[2])
        numbers = self.numbers
        if held is ElementType.f8e4m3 and _has_nan(codes):
            held, numbers = ElementType.u8, code_book(held)
        # The first ones take the places that kernels in whole numbers know, if they are rounded
        # alike.
        zero = steps[0] if steps and steps[0].subtracts else None
        left = steps[1:] if zero else steps
        scale = left[0] if left and not left[0].subtracts else None
        if zero and scale and zero.rounds != scale.rounds and not self._is_whole(zero):
            scale = None
        later = [
            replace(step, operand=self._of_groups(step, blocks[:2]))
            for step in (left[1:] if scale else left)
        ]
        zero_points, scales = (
            None if step is None else self._of_groups(step, blocks[:2]) for step in (zero, scale)
        )
        last = scale or zero
        half = last is not None and last.rounds
        return CompressedMatrix(
            *(held, codes, axes, zero_points, scales, half, packed, numbers),
            later=tuple(later),
            planes=planes,
        )

    def _fits_planes(self, blocks: Sequence[Sequence[int]], shape: tuple[int, ...]) -> bool:
        """Whether the codes of columns are bits that kernels read, and follow each other."""
        form = BIT_PLANES.get(self.element_type)
        if form is None or self.numbers is not None or self.constant is None:
            return False
        inner = shape[1] * shape[2]
        places = [self.order.index(axis) for block in blocks for axis in block]
        return places == sorted(places) and inner % _PER_WORD == 0 and form.spares(inner)

    def _in_planes(self, columns: int, inner: int) -> Array:
        """The codes of columns in bit planes."""
        if self.constant is None:
            return self.codes.in_planes(columns, inner).array
        return laid_once(self.constant, [columns, inner], planes=True).array

    def _of_groups(self, step: Step, blocks: Sequence[Sequence[int]]) -> Array:
        """The operand of a step as [columns or 1, groups or 1]."""
        operand = step.operand
        places = [[self.order.index(axis) for axis in block] for block in blocks]
        rest = [i for i in range(operand.ndim) if i not in places[0] and i not in places[1]]
        turned = operand.transpose([*places[0], *places[1], *rest])
        sizes: list[int] = []
        for block in blocks:
            whole = [self.sizes[axis] for axis in block]
            first = len(sizes)
            given = turned.shape[first : first + len(block)]
            sizes += whole if any(size > 1 for size in given) else [1] * len(block)
        shape = [math.prod(sizes[: len(blocks[0])]), math.prod(sizes[len(blocks[0]) :])]
        spread = np.broadcast_to(turned, [*sizes, *(1 for _ in rest)])
        if turned.dtype == POWERS:
            return np.ascontiguousarray(spread).reshape(shape)
        narrow = (np.uint8, np.float16) if step.subtracts else (np.float16,)
        return _narrowed(np.ascontiguousarray(spread).reshape(shape), *narrow)

    def _lying(
        self, blocks: Sequence[Sequence[int]], shape: tuple[int, ...], held: ElementType
    ) -> tuple[Array, tuple[int, int, int], tuple[int, ...] | None]:
        """The codes, the order of columns, groups and places in which they lie, and their shape
        where they are packed: as they are stored where that is such an order, else in the order of
        columns.
        """
        places = [[self.order.index(axis) for axis in block] for block in blocks]
        there = sorted(range(3), key=lambda block: places[block][:1] or [-1])
        empty = [block for block in there if not places[block]]
        there = [block for block in there if places[block]]
        for block in sorted(empty):  # which lies anywhere: in the order of columns, if others do
            there.insert(block, block)
        flat = [place for block in there for place in places[block]]
        packs = held in _FOUR_BITS
        if flat == sorted(flat):
            sizes = tuple(shape[block] for block in there)
            axes = there.index(0), there.index(1), there.index(2)
            codes = self.codes
            if codes.packed != packs or codes.element_type.bits != held.bits:
                codes = self._laid(sizes, held=held)
        else:
            rest = [i for i in range(len(self.order)) if i not in flat]
            turned = [*places[0], *places[1], *places[2], *rest]
            codes, axes, sizes = self._laid(self._shape, turned, held), (0, 1, 2), shape
        if packs:
            return codes.array, axes, sizes
        return codes.array.reshape(sizes), axes, None


_UNSIGNED = frozenset(
    ElementType.parse(name) for name in ("u1", "u2", "u3", "u4", "u6", "u8", "u16", "u32", "u64")
)


def stored_values(
    model: Model, source: Source, after: Sequence[Node] = (), rounds: bool = True
) -> Stored | None:
    """What a tensor is made of; None where that is not what is described above.

    `after` are layers that change the type only, of rows of the tensor that somebody takes. Where
    nobody wants what steps in f16 round, it does not count.
    """
    path = steps_from_constant(model, source)
    if path is None:
        return None
    constant = path.pop().operation
    assert isinstance(constant, Const)
    kind = constant.element_type  # integers of more bits may number a table
    kept = kind.bits <= 8 or kind in _WIDE or kind.is_integer
    if not path or not kept or constant.element_type is ElementType.boolean or not constant.count:
        return None
    stored = Stored(constant, rounds)
    if not all(_step(model, node, stored) for node in reversed(path)):
        return None
    converts = [node for node in after if isinstance(node.operation, Convert1)]
    return stored if all(_step(model, node, stored) for node in converts) else None


def steps_from_constant(model: Model, source: Source) -> list[Node] | None:
    """The layers that a tensor comes of, the last one first, down to a constant; None where there
    are others than steps on the way.
    """
    path = [model.by_id[source.node]]
    while not isinstance(path[-1].operation, Const):
        node = path[-1]
        position = _data(model, node)
        if position is None or not node.outputs[0].spec.shape.is_static:
            return None
        path.append(model.by_id[node.inputs[position].node])
    return path


def _data(model: Model, node: Node) -> int | None:
    """The input that codes come by; None of a layer that is no step."""
    operation = node.operation
    if isinstance(operation, (Convert1, Transpose1, Subtract, *RESHAPES)):
        return 0
    if isinstance(operation, Gather):
        return 1
    if isinstance(operation, (Add, Multiply)):
        counts = [model.spec(given).shape for given in node.inputs]
        if not all(shape.is_static for shape in counts):
            return None
        first, second = (math.prod(shape.static) for shape in counts)
        # Of as many numbers the constant is what scales, as codes are converted before.
        scales = isinstance(model.by_id[node.inputs[0].node].operation, Const)
        return 1 if first < second or (first == second and scales) else 0
    return None


def _step(model: Model, node: Node, stored: Stored) -> bool:
    """Take one step; False where it is none that is understood."""
    operation, spec = node.operation, node.outputs[0].spec
    if isinstance(operation, Convert1):
        return stored.convert(spec.element_type)
    if isinstance(operation, RESHAPES):
        stored.reshape(spec.shape.static)
        return True
    position = _data(model, node)
    assert position is not None
    if isinstance(operation, Transpose1):
        order = known_value(model, node.inputs[1])
        if order is not None:
            stored.transpose(order_of(order, len(stored.dims)))
        return order is not None
    if isinstance(operation, Gather):
        table = computed_value(model, node.inputs[0])
        if table is None or gathered_axis(model, node) != 0:
            return False
        return stored.look_up(table, model.spec(node.inputs[0]).element_type)
    if getattr(operation, "auto_broadcast", "numpy") != "numpy":
        return False
    if isinstance(operation, Multiply):
        powers = _powers(model, node.inputs[1 - position])
        if powers is not None:
            return stored.multiply(powers)
    operand = _operand(model, node.inputs[1 - position])
    if operand is None:
        return False
    if isinstance(operation, Subtract):
        return stored.subtract(operand, spec.element_type)
    numbers = decode(operand, spec.element_type)
    if isinstance(operation, Multiply):
        return stored.multiply(numbers)
    return stored.computed is not None and stored.subtract(-numbers, spec.element_type)


#: Operands that layers computed, as long as somebody has them: a product and a look-up of one
#: matrix have the same.
_COMPUTED_OF: WeakKeyDictionary[Operation, ref[Array]] = WeakKeyDictionary()


def _operand(model: Model, source: Source) -> Array | None:
    """The value of an operand that is a constant or is computed of such; None of any other."""
    operation = model.by_id[source.node].operation
    if operation is None or is_known(model, source):
        return computed_value(model, source)
    before = _COMPUTED_OF.get(operation)
    value = None if before is None else before()
    if value is None:
        value = computed_value(model, source)
        if value is not None:
            _COMPUTED_OF[operation] = ref(value)
    return value


def _powers(model: Model, source: Source) -> Array | None:
    """A constant of f8e8m0 that becomes this tensor, as it lies in the file; None where there is
    none, or a number that a type on the way does not have.
    """
    node, exponents = model.by_id[source.node], _IN_F32
    while isinstance(node.operation, (Convert1, *RESHAPES)):
        kind = node.outputs[0].spec.element_type
        if kind is ElementType.f16:
            exponents = _IN_F16
        elif kind is not ElementType.f32 and kind is not ElementType.f8e8m0:
            return None
        node = model.by_id[node.inputs[0].node]
    constant, shape = node.operation, model.spec(source).shape
    if not isinstance(constant, Const) or constant.element_type is not ElementType.f8e8m0:
        return None
    codes = constant.value
    if not codes.size or codes.min() < exponents[0] or codes.max() > exponents[1]:
        return None
    return np.ascontiguousarray(codes).view(POWERS).reshape(shape.static)


#: The least and the largest exponent of powers of 2 that f16 has; of those that are normal in f32,
#: and are so by the factors that kernels have for them.
_IN_F16, _IN_F32 = (127 - 24, 127 + 15), (1, 127 + 100)
#: Values that are looked at together.
_PART = 1 << 16


def _narrowed(operand: Array, *dtypes: npt.DTypeLike) -> Array:
    """An operand as the first of these types that holds its numbers, else as f32: a fifth of the
    bytes of 4-bit weights in groups of 64 are operands.
    """
    for dtype in dtypes:
        held = operand if operand.dtype == dtype else _as(operand, dtype)
        if held is not None:
            return held
    return operand.astype(np.float32, copy=False)


def _as(operand: Array, dtype: npt.DTypeLike) -> Array | None:
    """An operand as this type; None where that changes a number."""
    narrow = np.empty(operand.shape, dtype)
    given, into = operand.reshape(-1), narrow.reshape(-1)
    with np.errstate(all="ignore"):
        for start in range(0, len(given), _PART):
            part = given[start : start + _PART].astype(np.float32)
            into[start : start + _PART] = part
            wide = into[start : start + _PART].astype(np.float32)
            if (wide.view(np.uint32) != part.view(np.uint32)).any():
                return None
    return narrow


def _has_nan(codes: Array) -> bool:
    """Whether any code of f8e4m3 is NaN, which the arithmetic of the other codes does not make."""
    flat = codes.reshape(-1)
    starts = range(0, len(flat), _PART)
    return any(bool(((flat[i : i + _PART] & 0x7F) == 0x7F).any()) for i in starts)
