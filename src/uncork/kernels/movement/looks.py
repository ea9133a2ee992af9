"""What a move looks at: for each axis of its result the axis of the data along which it goes, and
what of that it takes. Moves of moves are looks at what lies further behind.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Union, cast

from msgspec import Struct

from uncork.kernels.extents import certainly, extents, same, total
from uncork.kernels.kernel_spec import writer_of
from uncork.kernels.movement.nd_copy import Copy, Loop, strides
from uncork.ops import Operation
from uncork.ops._common.indices import normalised_axis
from uncork.ops.transpose import order_of
from uncork.symbolic import SizeLike
from uncork.types import TensorSpec

Specs = Sequence[TensorSpec]


class Along(Struct, frozen=True):
    """An axis of a result: the axis of the data (None: a new one), how many places of it, the first
    of them, and the step to the next.
    """

    axis: Union[int, None]
    count: SizeLike
    begin: SizeLike = 0
    by: int = 1


class Look(Struct, frozen=True):
    """What a move looks at: its axes, and the one place of each axis that it leaves out."""

    axes: tuple[Along, ...]
    places: tuple[tuple[int, SizeLike], ...] = ()


class Piece(Struct, frozen=True):
    """A box of a tensor that lies in an input: where the box begins and how long it is along each
    axis, the bytes before its first element in the input, and from one element to the next.
    """

    source: int
    begins: tuple[SizeLike, ...]
    counts: tuple[SizeLike, ...]
    offset: SizeLike
    steps: tuple[SizeLike, ...]


class Stretch(Struct, frozen=True):
    """A part of an axis of the result: its length and its place, and the place in the data where it
    begins and the step there.
    """

    count: SizeLike
    target: SizeLike
    source: SizeLike
    by: int = 1


class Unclear(Exception):
    """Only the call knows which pieces a look meets."""


#: What moves look at, by functions of these modules.
_LOOKS: Mapping[str, str] = {
    "Gather": "select_slices:gather_look",
    "Slice": "select_slices:slice_look",
    "Split": "looks:split_look",
    "StridedSlice": "select_slices:strided_slice_look",
    "Transpose": "looks:transpose_look",
    "VariadicSplit": "looks:split_look",
}


def look_of(operation: Operation, inputs: Specs, outputs: Specs, number: int) -> Look | None:
    """What a move looks at for one of its outputs; None where its other inputs do not tell
    enough.
    """
    look: Look | None = writer_of(f"{__package__}.{_LOOKS[operation.type_name]}")(
        operation, inputs, outputs, number
    )
    return look


def look_copies(operation: Operation, inputs: Specs, outputs: Specs) -> list[Copy] | None:
    """The copies of what a move looks at."""
    shape, element = extents(inputs[0]), inputs[0].element_type.dtype.itemsize
    copies: list[Copy] = []
    for number, spec in enumerate(outputs):
        look = look_of(operation, inputs, outputs, number)
        if look is None:
            return None
        (piece,) = looked_at(look, shape, [whole(0, shape, element)])
        copies.append(copied(piece, extents(spec), element, number))
    return copies


def transpose_look(operation: Operation, inputs: Specs, outputs: Specs, number: int) -> Look | None:
    """What Transpose looks at: all of each axis."""
    order, result = inputs[1].value, extents(outputs[0])
    if order is None:
        return None
    return Look(tuple(map(Along, order_of(order, len(result)), result)))


def split_look(operation: Operation, inputs: Specs, outputs: Specs, number: int) -> Look | None:
    """What a part of Split or VariadicSplit looks at."""
    axis = inputs[1].value
    # Lengths that are values of the call may not add up; of sizes the inference has demanded it.
    if axis is None or any(spec.value is None and not spec.has_all_elements for spec in inputs[2:]):
        return None
    result = extents(outputs[number])
    along = normalised_axis(operation, int(axis.reshape(-1)[0]), len(result))
    begin = total(extents(spec)[along] for spec in outputs[:number])
    return Look(
        tuple(Along(n, count, begin if n == along else 0) for n, count in enumerate(result))
    )


def copied(piece: Piece, result: Sequence[SizeLike], element: int, number: int = 0) -> Copy:
    """The copy of a piece into its place in a result."""
    target = strides(result, element)
    loops = tuple(map(Loop, piece.counts, piece.steps, target))
    place = total(begin * step for begin, step in zip(piece.begins, target, strict=True))
    return Copy(piece.source, number, piece.offset, place, loops, element)


def parts(
    chosen: Iterable[Sequence[Stretch]],
    shape: Sequence[SizeLike],
    result: Sequence[SizeLike],
    element: int,
) -> list[Copy]:
    """The copies of the parts of a result that have the chosen stretch of each axis."""
    found: list[Copy] = []
    for stretches in chosen:
        axes = list(zip(stretches, strides(shape, element), strict=True))
        begins, counts = (s.target for s in stretches), (s.count for s in stretches)
        offset, steps = total(s.source * step for s, step in axes), (s.by * n for s, n in axes)
        piece = Piece(0, tuple(begins), tuple(counts), offset, tuple(steps))
        found.append(copied(piece, result, element))
    return found


def whole(source: int, shape: Sequence[SizeLike], element: int) -> Piece:
    """An input as one piece."""
    return Piece(source, (0,) * len(shape), tuple(shape), 0, tuple(strides(shape, element)))


def beside(parts: Iterable[tuple[Sequence[Piece], Sequence[SizeLike]]], axis: int) -> list[Piece]:
    """The pieces of tensors, each with its shape, that lie beside each other along an axis."""
    found: list[Piece] = []
    begin: SizeLike = 0
    for pieces, shape in parts:
        for piece in pieces:
            begins = list(piece.begins)
            begins[axis] = begins[axis] + begin
            found.append(
                Piece(piece.source, tuple(begins), piece.counts, piece.offset, piece.steps)
            )
        begin = begin + shape[axis]
    return found


def looked_at(look: Look, shape: Sequence[SizeLike], pieces: Iterable[Piece]) -> list[Piece]:
    """The pieces of a look at a tensor of this shape, which consists of pieces. Raises Unclear
    where only the call knows them.
    """
    left_out = [Along(axis, 1, place) for axis, place in look.places]
    found = []
    for piece in pieces:
        met = [_met(along, shape, piece) for along in (*look.axes, *left_out)]
        if not any(each.is_empty for each in met):
            kept = met[: len(look.axes)]
            found.append(
                Piece(
                    piece.source,
                    tuple(each.begin for each in kept),
                    tuple(each.count for each in kept),
                    piece.offset + total(each.offset for each in met),
                    tuple(each.step for each in kept),
                )
            )
    return found


class _Met(Struct, frozen=True):
    """What a look along an axis meets of a piece: where in the result, how much, the bytes to its
    first element and from one to the next.
    """

    begin: SizeLike
    count: SizeLike
    offset: SizeLike = 0
    step: SizeLike = 0
    is_empty: bool = False


def _met(along: Along, shape: Sequence[SizeLike], piece: Piece) -> _Met:
    if along.axis is None:
        return _Met(0, along.count)
    size, step = shape[along.axis], piece.steps[along.axis]
    low, length = piece.begins[along.axis], piece.counts[along.axis]
    if certainly(low, 0) and same(length, size):
        return _Met(0, along.count, along.begin * step, along.by * step)
    if along.by == 1 and certainly(along.begin, 0) and same(along.count, size):
        return _Met(low, length, 0, step)
    numbers = (low, length, along.begin, along.count)
    if not all(isinstance(each, int) for each in numbers):
        raise Unclear
    low, length, begin, count = cast("tuple[int, int, int, int]", numbers)
    # The numbers of places before the piece, and of those before its end, as the look goes.
    before, until = low - begin, low + length - begin
    if along.by < 0:
        before, until = begin - low - length + 1, begin - low + 1
    first, behind = (min(max(-(-n // abs(along.by)), 0), count) for n in (before, until))
    offset = (begin + first * along.by - low) * step
    return _Met(first, behind - first, offset, along.by * step, behind <= first)
