"""Operators that move values: shapes, slices, parts put together."""

from __future__ import annotations

import numpy as np

from uncork.errors import ValidationError
from uncork.ir.model import Source
from uncork.onnx.call import Call
from uncork.onnx.graph import Graph
from uncork.onnx.registry import MICROSOFT, lowering
from uncork.types import ElementType

T = ElementType


@lowering("Reshape")
def _reshape(g: Graph, call: Call, data: Source, shape: Source) -> Source:
    zero = not call.integer("allowzero")
    return g.make("Reshape", data, shape, special_zero=zero)


@lowering("Flatten")
def _flatten(g: Graph, call: Call, data: Source) -> Source:
    return g.flatten(data, call.integer("axis", 1))


@lowering("Transpose")
def _transpose(g: Graph, call: Call, data: Source) -> Source:
    if "perm" in call.attributes:
        return g.make("Transpose", data, g.i64(call.integers("perm")))
    return g.make("Transpose", data, g.i64(list(range(g.rank(data)))[::-1]))


@lowering("Squeeze")
def _squeeze(g: Graph, call: Call, data: Source) -> Source:
    if call.version < 13:
        axes = call.integers("axes") if "axes" in call.attributes else None
        given = None if axes is None else g.i64(axes)
    else:
        given = call.optional(1)
    known = None if given is None else g.known(given)
    rank = g.spec(data).rank
    if known is None or known.size == 0 or rank is None:
        return g.make("Squeeze", data, *(() if given is None else (given,)))
    chosen = {call.place(int(axis), rank) for axis in known.reshape(-1)}
    sizes = g.sizes(data)
    wrong = [sizes[axis] for axis in chosen if sizes[axis] not in (1, None)]
    if wrong:
        raise ValidationError(f"axes {sorted(chosen)} of sizes {sizes}: expected 1, got {wrong[0]}")
    # A Squeeze of the IR keeps what turns out not to be 1, where ONNX refuses it.
    if any(sizes[axis] is None for axis in chosen):
        return g.shaped(data, *(g.dim(data, i) for i in range(rank) if i not in chosen))
    return g.make("Squeeze", data, g.i64(sorted(chosen)))


@lowering("Unsqueeze")
def _unsqueeze(g: Graph, call: Call, data: Source) -> Source:
    axes = call[1] if call.version >= 13 else g.i64(call.integers("axes"))
    return g.make("Unsqueeze", data, axes)


@lowering("Concat")
def _concat(g: Graph, call: Call) -> Source:
    return g.make("Concat", *call.tensors, axis=call.integer("axis", 1))


@lowering("Expand")
def _expand(g: Graph, call: Call, data: Source, shape: Source) -> Source:
    return g.make("Broadcast", data, shape, mode="bidirectional")


@lowering("Slice")
def _slice_by_attributes(g: Graph, call: Call, data: Source) -> Source:
    starts, ends = call.integers("starts"), call.integers("ends")
    axes = call.integers("axes", range(len(starts)))
    steps = [1] * len(starts)
    return g.make("Slice", data, *map(g.i64, (starts, ends, steps, axes)))


@lowering("Slice", since=10)
def _slice(
    g: Graph,
    call: Call,
    data: Source,
    starts: Source,
    ends: Source,
    axes: Source | None = None,
    steps: Source | None = None,
) -> Source:
    if steps is None:
        steps = _ones(g, starts)
    else:
        starts = _not_before(g, data, starts, steps, axes)
    inputs = [data, starts, ends, steps]
    return g.make("Slice", *inputs, *(() if axes is None else (axes,)))


def _not_before(
    g: Graph, data: Source, starts: Source, steps: Source, axes: Source | None
) -> Source:
    """The starts of slices: one backwards from before the first element begins at that, where the
    IR's, as Python's, is empty.
    """
    firsts, by = g.known(starts), g.known(steps)
    if by is not None and (by > 0).all():
        return starts
    if firsts is not None and (firsts >= -1 if by is None else (firsts >= -1) | (by > 0)).all():
        return starts
    if axes is None:
        axes = g.range(g.size_of(starts, 0))
    sizes = g.convert(g.gather(g.shape_of(data), axes, 0), g.type(starts))
    backwards = g.make("Less", steps, g.of_type(0, g.type(steps)))
    return g.select(backwards, g.largest(starts, g.times(sizes, -1)), starts)


def _ones(g: Graph, like: Source) -> Source:
    shape = g.spec(like).shape
    kind = g.type(like)
    if shape.is_static:
        return g.constant(np.ones(shape.static, kind.dtype), kind)
    return g.broadcast(g.like(1, like), g.shape_of(like))


@lowering("Split")
def _split(g: Graph, call: Call, data: Source, split: Source | None = None) -> tuple[Source, ...]:
    count = len(call.outputs)
    axis = call.integer("axis")
    lengths: Source | None = None
    if call.version >= 13:
        lengths = split
    elif "split" in call.attributes:
        lengths = g.i64(call.integers("split"))
    if lengths is not None:
        return g.several("VariadicSplit", data, g.i64(axis), lengths)
    if call.version >= 18:
        count = call.integer("num_outputs", count)
        ValidationError.when(
            not 0 < count <= 1 << 16, f"attribute 'num_outputs': expected 1 or more, got {count}"
        )
        size = g.sizes(data)[call.place(axis, g.rank(data))]
        if size is None or size % count:
            return _uneven(g, call, data, axis, count, size)
    return g.several("Split", data, g.i64(axis), num_splits=count)


def _uneven(
    g: Graph, call: Call, data: Source, axis: int, count: int, size: int | None
) -> tuple[Source, ...]:
    """Parts of equal size but for the last one, which is smaller."""
    if size is not None:
        part = -(-size // count)
        lengths: list[int] = []
        for _ in range(count):
            lengths.append(min(part, size - sum(lengths)))
        return g.split(data, lengths, axis)
    whole = g.size_of(data, call.place(axis, g.rank(data)))
    each = g.over(g.plus(whole, count - 1), count)
    parts = [
        g.make(
            "Slice",
            data,
            g.times(each, i),
            g.times(each, i + 1),
            g.i64([1]),
            g.i64([axis]),
        )
        for i in range(count)
    ]
    return tuple(parts)


@lowering("Shape")
def _shape(g: Graph, call: Call, data: Source) -> Source:
    shape = g.shape_of(data)
    start, end = call.integer("start"), call.get("end")
    if start == 0 and end is None:
        return shape
    stop = 1 << 40 if end is None else int(end)
    rank = g.spec(data).rank
    if rank is not None:
        start, stop, _ = slice(start, stop).indices(rank)
    return g.slice(shape, start, max(start, stop) if rank is not None else stop, 0)


@lowering("Size")
def _size(g: Graph, call: Call, data: Source) -> Source:
    return g.reduce("ReduceProd", g.shape_of(data), [0], keep=False)


@lowering("DepthToSpace", "SpaceToDepth")
def _depth_to_space(g: Graph, call: Call, data: Source) -> Source:
    mode = {"DCR": "blocks_first", "CRD": "depth_first"}[call.one_of("mode", "DCR", "DCR", "CRD")]
    return g.make(call.op_type, data, block_size=call.integer("blocksize"), mode=mode)


@lowering("ReverseSequence")
def _reverse_sequence(g: Graph, call: Call, data: Source, sequence_lens: Source) -> Source:
    return g.make(
        "ReverseSequence",
        data,
        sequence_lens,
        batch_axis=call.integer("batch_axis", 1),
        seq_axis=call.integer("time_axis", 0),
    )


# ---- pads


@lowering("Pad")
def _pad_by_attributes(g: Graph, call: Call, data: Source) -> Source:
    value = g.like(call.number("value"), data)
    return _padded(g, call, data, call.integers("pads"), value)


@lowering("Pad", since=11)
def _pad(g: Graph, call: Call, data: Source) -> Source:
    value = call.optional(2)
    if value is not None and g.spec(value).rank != 0:
        value = g.reshape(value, [])
    if value is None:
        value = blank(g, data)
    mode = _mode(call)
    if call.version >= 18 and call.has(3):
        begins, ends = _spread_pads(g, call, data)
    else:
        begins, ends = g.several("Split", call[1], g.i64(0), num_splits=2)
    if mode == "wrap":
        return _wrapped(g, data, begins, ends)
    return g.make("Pad", data, begins, ends, value, pad_mode=mode)


def _spread_pads(g: Graph, call: Call, data: Source) -> tuple[Source, Source]:
    """Pads of some axes as those of all, with zeros between them."""
    rank = g.rank(data)
    axes = g.make("FloorMod", g.convert(call[3], T.i64), g.i64(rank))
    zeros = g.i64([0] * rank)
    begins, ends = (
        g.scatter(zeros, axes, part, 0)
        for part in g.several("Split", call[1], g.i64(0), num_splits=2)
    )
    return begins, ends


def blank(g: Graph, like: Source) -> Source:
    """Nothing, as a scalar of the type of a tensor."""
    kind = g.type(like)
    if kind is T.string:
        return g.constant(np.array("", object), kind)
    if kind is T.boolean:
        return g.constant(np.array(False), kind)
    return g.constant(np.zeros((), kind.dtype), kind)


def _mode(call: Call) -> str:
    return call.one_of("mode", "constant", "constant", "reflect", "edge", "wrap")


def _padded(g: Graph, call: Call, data: Source, pads: list[int], value: Source) -> Source:
    mode = _mode(call)
    ValidationError.when(len(pads) % 2, f"expected two pads for each axis, got {len(pads)}")
    half = len(pads) // 2
    begins, ends = g.i64(pads[:half]), g.i64(pads[half:])
    return g.make("Pad", data, begins, ends, value, pad_mode=mode)


def _wrapped(g: Graph, data: Source, begins: Source, ends: Source) -> Source:
    """The data as they go on when they are laid side by side, without what pads below 0 remove."""
    for axis in range(g.rank(data)):
        begin, end = (g.gather(pads, [axis], 0) for pads in (begins, ends))
        if all((v := g.known(p)) is not None and not v.any() for p in (begin, end)):
            continue
        whole = g.size_of(data, axis)
        first, behind = (g.make("Minimum", pad, g.i64(0)) for pad in (begin, end))
        size = g.plus(whole, g.plus(first, behind))
        count = g.plus(whole, g.plus(begin, end))
        before = g.minus(begin, first)
        places = g.make("FloorMod", g.minus(g.range(count), before), size)
        data = g.gather(data, g.minus(places, first), axis)
    return data


@lowering("Trilu")
@lowering("Trilu", domain=MICROSOFT)
def _trilu(g: Graph, call: Call, data: Source, k: Source | None = None) -> Source:
    rank = g.rank(data)
    ValidationError.when(rank < 2, f"expected a matrix, got rank {rank}")
    rows = g.unsqueeze(g.range(g.size_of(data, rank - 2)), 1)
    columns = g.unsqueeze(g.range(g.size_of(data, rank - 1)), 0)
    if k is not None:
        rows = g.plus(rows, g.reshape(g.convert(k, T.i64), []))
    name = "GreaterEqual" if call.integer("upper", 1) else "LessEqual"
    return g.select(g.make(name, columns, rows), data, blank(g, data))
