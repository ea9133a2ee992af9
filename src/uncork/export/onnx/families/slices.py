"""Slice, StridedSlice, Reverse, Roll, Pad and their like: regions of a tensor and places moved
along axes.
"""

from __future__ import annotations

import numpy as np

from uncork.export.onnx.families.shapes import numbers
from uncork.export.onnx.graph import I64, Graph, Tensor
from uncork.export.onnx.registry import lowers
from uncork.ops._operation import Operation
from uncork.ops.pad import Pad12
from uncork.ops.reverse import Reverse1
from uncork.ops.reverse_sequence import ReverseSequence1
from uncork.ops.roll import Roll7
from uncork.ops.strided_slice import StridedSlice1

_FAR = 2**62


@lowers("Slice")
def slice_(
    g: Graph,
    op: Operation,
    data: Tensor,
    start: Tensor,
    stop: Tensor,
    step: Tensor,
    axes: Tensor | None,
) -> Tensor:
    """ONNX's Slice."""
    wide = [g.vector(t) for t in (start, stop)]
    wide[1] = _none_before(g, data, wide, step, axes)
    if axes is None:
        return g.op("Slice", data, *wide, None, g.vector(step), shape=g.outputs[0].shape)
    return g.op("Slice", data, *wide, g.vector(axes), g.vector(step), shape=g.outputs[0].shape)


def _none_before(
    g: Graph, data: Tensor, bounds: list[Tensor], step: Tensor, axes: Tensor | None
) -> Tensor:
    """The stops of slices. A slice backwards from before the first element is empty, where ONNX
    begins at the first element.
    """
    start, stop = bounds
    steps, firsts = step.known(), start.known()
    if (
        steps is None
        or all(s > 0 for s in steps)
        or (firsts is not None and all(f >= 0 or s > 0 for f, s in zip(firsts, steps, strict=True)))
    ):
        return stop
    along = list(range(len(steps))) if axes is None else numbers(g, axes, "axes")
    sizes = g.concat([g.dim(data, a) for a in along])
    before = g.op("Less", start, g.op("Neg", sizes))
    backwards = g.op("Less", g.vector(step), g.constant(0, I64))
    return g.op("Where", g.op("And", before, backwards), g.constant(_FAR, I64), stop)


@lowers("StridedSlice")
def strided_slice(
    g: Graph, op: StridedSlice1, data: Tensor, begin: Tensor, end: Tensor, stride: Tensor | None
) -> Tensor:
    """ONNX's Slice, then Squeeze of the shrunken axes and Unsqueeze of the new ones."""
    count = begin.shape[0].static_size if begin.rank == 1 else None
    if count is None:
        g.refuse("the number of the bounds is not known")
    starts, stops, steps, axes = [], [], [], []
    shrunk, new = [], []
    strides = [1] * count if stride is None else stride.known()
    position = 0
    for kind, i, axis in op.steps(count, g.rank(data)):
        if kind == "new":
            new.append(position)
        position += kind != "shrink"
        if kind not in ("slice", "shrink"):
            continue
        if strides is None:
            g.refuse("the strides are computed as the model runs")
        axes.append(axis)
        by = 1 if kind == "shrink" else strides[i]
        steps.append(by)
        first, last = (_element(g, t, i) for t in (begin, end))
        if kind == "shrink":
            shrunk.append(axis)
            first = 0 if _set(op.begin_mask, i) else first
            last = _after(g, first)
        else:
            first = (0 if by > 0 else _FAR) if _set(op.begin_mask, i) else first
            last = (_FAR if by > 0 else -_FAR) if _set(op.end_mask, i) else last
            first = _not_before(g, data, axis, first) if by < 0 else first
        starts.append(first)
        stops.append(last)
    result = data
    if axes:
        result = g.op("Slice", data, _vector(g, starts), _vector(g, stops), axes, steps)
        if not shrunk and not new:
            return result
    squeezed = g.op("Squeeze", result, shrunk) if shrunk else result
    return g.op("Unsqueeze", squeezed, new, shape=g.outputs[0].shape) if new else squeezed


def _set(mask: tuple[int, ...], i: int) -> bool:
    return i < len(mask) and bool(mask[i])


def _element(g: Graph, vector: Tensor, i: int) -> int | Tensor:
    """One bound: a number, or a tensor of one element."""
    known = vector.known()
    if known is not None:
        return known[i]
    if vector.elements is not None and isinstance(element := vector.elements[i], int):
        return element
    return g.op("Slice", g.cast(vector, I64), [i], [i + 1], shape=[1])


def _after(g: Graph, first: int | Tensor) -> int | Tensor:
    """The end of a slice of one element; for a start of -1 it lies past the last element."""
    if isinstance(first, int):
        return _FAR if first == -1 else first + 1
    following = g.op("Add", first, g.constant(np.array([1])))
    return g.op(
        "Where",
        g.op("Equal", first, g.constant(np.array([-1]))),
        g.constant(np.array([_FAR])),
        following,
    )


def _not_before(g: Graph, data: Tensor, axis: int, first: int | Tensor) -> int | Tensor:
    """The start of a slice backwards; before the first element it is the first element."""
    if isinstance(first, int) and (first >= 0 or data.shape[axis].low >= -first):
        return first
    start = first if isinstance(first, Tensor) else g.constant(np.array([first]))
    return g.op("Max", start, g.op("Neg", g.dim(data, axis)))


def _vector(g: Graph, elements: list[int | Tensor]) -> Tensor:
    return g.concat([e if isinstance(e, Tensor) else [e] for e in elements])


@lowers("Reverse")
def reverse(g: Graph, op: Reverse1, data: Tensor, axis: Tensor) -> Tensor:
    """Slices with a step of -1."""
    named = numbers(g, axis, "axis")
    rank = g.rank(data)
    axes = (
        [i for i, bit in enumerate(named) if bit]
        if op.mode == "mask"
        else sorted({a % rank for a in named})
    )
    if not axes:
        return data
    count = len(axes)
    return g.op("Slice", data, [-1] * count, [-_FAR] * count, axes, [-1] * count, shape=data.shape)


@lowers("ReverseSequence")
def reverse_sequence(g: Graph, op: ReverseSequence1, data: Tensor, lengths: Tensor) -> Tensor:
    """ONNX's ReverseSequence, which has the two axes in front."""
    rank = g.rank(data)
    batch, along = op.batch_axis % rank, op.seq_axis % rank
    order = [along, batch, *(i for i in range(rank) if i not in (along, batch))]
    front = g.transpose(data, order)
    turned = g.op(
        "ReverseSequence", front, g.cast(lengths, I64), batch_axis=1, time_axis=0, shape=front.shape
    )
    return g.transpose(turned, [order.index(i) for i in range(rank)])


@lowers("Roll")
def roll(g: Graph, op: Roll7, data: Tensor, shift: Tensor, axes: Tensor) -> Tensor:
    """Two slices exchanged, axis by axis."""
    named, moves = axes.known(), shift.known()
    if named is None:
        return _rolled_along(g, data, shift, axes)
    if moves is None:
        return _rolled_by(g, data, shift, named)
    if len(moves) == 1:
        moves = moves * max(1, len(named))
    if not named:
        return data
    rank = g.rank(data)
    total: dict[int, int] = {}
    for axis, move in zip(named, moves, strict=True):
        total[axis % rank] = total.get(axis % rank, 0) + move
    for axis, move in total.items():
        data = _rolled(g, data, axis, move)
    return data


def _rolled_along(g: Graph, data: Tensor, shift: Tensor, axes: Tensor) -> Tensor:
    """The data rolled along axes that the model computes, by 0 along all others."""
    rank = g.rank(data)
    named = g.op("Mod", g.vector(axes), g.constant(rank, I64))
    for axis in range(rank):
        size = g.op("Max", g.dim(data, axis), [1])
        within = g.op("Mod", g.vector(shift), size)
        hit = g.op("Equal", named, g.constant(axis, I64))
        move = g.op("ReduceSum", g.op("Where", hit, within, g.constant(0, I64)), shape=[1])
        data = _turned(g, data, axis, move)
    return data


def _rolled_by(g: Graph, data: Tensor, shift: Tensor, axes: list[int]) -> Tensor:
    """The data rolled by shifts that the model computes."""
    moves, single = g.vector(shift), shift.shape.size == 1
    for position, axis in enumerate(axes):
        move = moves if single else g.slice(moves, position, position + 1, 0)
        data = _turned(g, data, axis, move)
    return data


def _turned(g: Graph, data: Tensor, axis: int, move: Tensor) -> Tensor:
    """The data rolled along one axis by a shift that is a vector of one element."""
    size = g.dim(data, axis)
    places = g.op("Range", g.constant(0, I64), g.scalar(size), g.constant(1, I64))
    cells = g.op("Mod", g.op("Sub", places, move), g.op("Max", size, [1]))
    return g.op("Gather", data, cells, axis=axis, shape=data.shape)


def _rolled(g: Graph, data: Tensor, axis: int, move: int) -> Tensor:
    size = data.shape[axis].static_size
    if size == 0 or (size and move % size == 0):
        return data
    if size:
        cut = g.constant(np.array([size - move % size]))
    else:
        length = g.op("Max", g.dim(data, axis), g.constant(np.array([1])))
        cut = g.op("Sub", length, g.op("Mod", g.constant(np.array([move])), length))
    tail = g.op("Slice", data, cut, [_FAR], [axis])
    head = g.op("Slice", data, [0], cut, [axis])
    return g.op("Concat", tail, head, axis=axis, shape=data.shape)


@lowers("Pad")
def pad(
    g: Graph, op: Pad12, data: Tensor, begins: Tensor, ends: Tensor, value: Tensor | None
) -> Tensor:
    """ONNX's Pad, which has no mode symmetric: there the mirrored parts are sliced and joined, axis
    by axis.
    """
    if data.rank == 0:
        return data
    if op.pad_mode == "symmetric":
        return _symmetric(g, data, numbers(g, begins, "pads_begin"), numbers(g, ends, "pads_end"))
    pads = g.concat([g.vector(begins), g.vector(ends)])
    fill = value if op.pad_mode == "constant" else None
    known = pads.known()
    if known is not None and op.pad_mode in ("reflect", "edge") and min(known, default=0) < 0:
        data, pads = _cropped(g, data, known), g.constant(np.maximum(known, 0))
    return g.op("Pad", data, pads, fill, mode=op.pad_mode, shape=g.outputs[0].shape)


def _cropped(g: Graph, data: Tensor, pads: list[int]) -> Tensor:
    """The data cropped by the negative pads."""
    half = len(pads) // 2
    if any(min(b, e) < 0 < max(b, e) for b, e in zip(pads[:half], pads[half:], strict=True)):
        g.refuse("a pad that takes away beside one that mirrors")
    starts = [max(0, -p) for p in pads[:half]]
    stops = [p if p < 0 else _FAR for p in pads[half:]]
    return g.op("Slice", data, starts, stops, list(range(half)))


def _symmetric(g: Graph, data: Tensor, begins: list[int], ends: list[int]) -> Tensor:
    for axis, (begin, end) in enumerate(zip(begins, ends, strict=True)):
        parts = [data]
        if begin > 0:
            parts.insert(0, g.op("Slice", data, [begin - 1], [-_FAR], [axis], [-1]))
        if end > 0:
            parts.append(g.op("Slice", data, [-1], [-end - 1], [axis], [-1]))
        joined = g.op("Concat", *parts, axis=axis) if len(parts) > 1 else data
        if begin < 0 or end < 0:
            stop = end if end < 0 else _FAR
            joined = g.op("Slice", joined, [max(0, -begin)], [stop], [axis])
        data = joined
    return data
