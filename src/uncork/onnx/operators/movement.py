"""Operators that move values: shapes, slices, parts put together."""

from __future__ import annotations

import numpy as np

from uncork.errors import ValidationError
from uncork.ir.model import Source
from uncork.onnx.call import Call
from uncork.onnx.registry import MICROSOFT, lowering
from uncork.types import ElementType

T = ElementType


@lowering("Reshape")
def _reshape(call: Call) -> Source:
    zero = not call.integer("allowzero")
    return call.graph.make("Reshape", call[0], call[1], special_zero=zero)


@lowering("Flatten")
def _flatten(call: Call) -> Source:
    return call.graph.flatten(call[0], call.integer("axis", 1))


@lowering("Transpose")
def _transpose(call: Call) -> Source:
    graph, data = call.graph, call[0]
    if "perm" in call.attributes:
        return graph.make("Transpose", data, graph.i64(call.integers("perm")))
    return graph.make("Transpose", data, graph.i64(list(range(graph.rank(data)))[::-1]))


@lowering("Squeeze")
def _squeeze(call: Call) -> Source:
    graph, data = call.graph, call[0]
    if call.version < 13:
        axes = call.integers("axes") if "axes" in call.attributes else None
        given = None if axes is None else graph.i64(axes)
    else:
        given = call.optional(1)
    known = None if given is None else graph.known(given)
    rank = graph.spec(data).rank
    if known is None or known.size == 0 or rank is None:
        return graph.make("Squeeze", data, *(() if given is None else (given,)))
    chosen = {call.place(int(axis), rank) for axis in known.reshape(-1)}
    sizes = graph.sizes(data)
    wrong = [sizes[axis] for axis in chosen if sizes[axis] not in (1, None)]
    if wrong:
        raise ValidationError(f"axes {sorted(chosen)} of sizes {sizes}: expected 1, got {wrong[0]}")
    # A Squeeze of the IR keeps what turns out not to be 1, where ONNX refuses it.
    if any(sizes[axis] is None for axis in chosen):
        return graph.shaped(data, *(graph.dim(data, i) for i in range(rank) if i not in chosen))
    return graph.make("Squeeze", data, graph.i64(sorted(chosen)))


@lowering("Unsqueeze")
def _unsqueeze(call: Call) -> Source:
    axes = call[1] if call.version >= 13 else call.graph.i64(call.integers("axes"))
    return call.graph.make("Unsqueeze", call[0], axes)


@lowering("Concat")
def _concat(call: Call) -> Source:
    return call.graph.make("Concat", *call.tensors, axis=call.integer("axis", 1))


@lowering("Expand")
def _expand(call: Call) -> Source:
    return call.graph.make("Broadcast", call[0], call[1], mode="bidirectional")


@lowering("Tile")
def _tile(call: Call) -> Source:
    return call.graph.make("Tile", call[0], call[1])


@lowering("Slice")
def _slice_by_attributes(call: Call) -> Source:
    graph = call.graph
    starts, ends = call.integers("starts"), call.integers("ends")
    axes = call.integers("axes", range(len(starts)))
    steps = [1] * len(starts)
    return graph.make("Slice", call[0], *map(graph.i64, (starts, ends, steps, axes)))


@lowering("Slice", since=10)
def _slice(call: Call) -> Source:
    graph = call.graph
    axes, steps = call.optional(3), call.optional(4)
    if steps is None:
        steps = _ones(call, call[1])
    inputs = [call[0], call[1], call[2], steps]
    return graph.make("Slice", *inputs, *(() if axes is None else (axes,)))


def _ones(call: Call, like: Source) -> Source:
    graph = call.graph
    shape = graph.spec(like).shape
    kind = graph.type(like)
    if shape.is_static:
        return graph.constant(np.ones(shape.static, kind.dtype), kind)
    return graph.broadcast(graph.like(1, like), graph.shape_of(like))


@lowering("Split")
def _split(call: Call) -> tuple[Source, ...]:
    graph, data, count = call.graph, call[0], len(call.outputs)
    axis = call.integer("axis")
    lengths: Source | None = None
    if call.version >= 13:
        lengths = call.optional(1)
    elif "split" in call.attributes:
        lengths = graph.i64(call.integers("split"))
    if lengths is not None:
        return graph.several("VariadicSplit", data, graph.i64(axis), lengths)
    if call.version >= 18:
        count = call.integer("num_outputs", count)
        ValidationError.when(
            not 0 < count <= 1 << 16, f"attribute 'num_outputs': expected 1 or more, got {count}"
        )
        size = graph.sizes(data)[call.place(axis, graph.rank(data))]
        if size is None or size % count:
            return _uneven(call, data, axis, count, size)
    return graph.several("Split", data, graph.i64(axis), num_splits=count)


def _uneven(
    call: Call, data: Source, axis: int, count: int, size: int | None
) -> tuple[Source, ...]:
    """Parts of equal size but for the last one, which is smaller."""
    graph = call.graph
    if size is not None:
        part = -(-size // count)
        lengths: list[int] = []
        for _ in range(count):
            lengths.append(min(part, size - sum(lengths)))
        return graph.split(data, lengths, axis)
    whole = graph.size_of(data, call.place(axis, graph.rank(data)))
    each = graph.over(graph.plus(whole, count - 1), count)
    parts = [
        graph.make(
            "Slice",
            data,
            graph.times(each, i),
            graph.times(each, i + 1),
            graph.i64([1]),
            graph.i64([axis]),
        )
        for i in range(count)
    ]
    return tuple(parts)


@lowering("Shape")
def _shape(call: Call) -> Source:
    graph = call.graph
    shape = graph.shape_of(call[0])
    start, end = call.integer("start"), call.get("end")
    if start == 0 and end is None:
        return shape
    stop = 1 << 40 if end is None else int(end)
    rank = graph.spec(call[0]).rank
    if rank is not None:
        start, stop, _ = slice(start, stop).indices(rank)
    return graph.slice(shape, start, max(start, stop) if rank is not None else stop, 0)


@lowering("Size")
def _size(call: Call) -> Source:
    return call.graph.reduce("ReduceProd", call.graph.shape_of(call[0]), [0], keep=False)


@lowering("DepthToSpace", "SpaceToDepth")
def _depth_to_space(call: Call) -> Source:
    mode = {"DCR": "blocks_first", "CRD": "depth_first"}[call.one_of("mode", "DCR", "DCR", "CRD")]
    return call.graph.make(call.op_type, call[0], block_size=call.integer("blocksize"), mode=mode)


@lowering("ReverseSequence")
def _reverse_sequence(call: Call) -> Source:
    return call.graph.make(
        "ReverseSequence",
        call[0],
        call[1],
        batch_axis=call.integer("batch_axis", 1),
        seq_axis=call.integer("time_axis", 0),
    )


# ---- pads


@lowering("Pad")
def _pad_by_attributes(call: Call) -> Source:
    graph, data = call.graph, call[0]
    value = graph.like(call.number("value"), data)
    return _padded(call, data, call.integers("pads"), value)


@lowering("Pad", since=11)
def _pad(call: Call) -> Source:
    graph, data = call.graph, call[0]
    value = call.optional(2)
    if value is not None and graph.spec(value).rank != 0:
        value = graph.reshape(value, [])
    if value is None:
        value = blank(call, data)
    mode = _mode(call)
    if call.version >= 18 and call.has(3):
        begins, ends = _spread_pads(call, data)
    else:
        begins, ends = graph.several("Split", call[1], graph.i64(0), num_splits=2)
    if mode == "wrap":
        return _wrapped(call, data, begins, ends)
    return graph.make("Pad", data, begins, ends, value, pad_mode=mode)


def _spread_pads(call: Call, data: Source) -> tuple[Source, Source]:
    """Pads of some axes as those of all, with zeros between them."""
    graph, rank = call.graph, call.graph.rank(data)
    axes = graph.make("FloorMod", graph.convert(call[3], T.i64), graph.i64(rank))
    zeros = graph.i64([0] * rank)
    begins, ends = (
        graph.make(
            "ScatterElementsUpdate",
            zeros,
            axes,
            part,
            graph.i64(0),
            reduction="none",
            use_init_val=True,
        )
        for part in graph.several("Split", call[1], graph.i64(0), num_splits=2)
    )
    return begins, ends


def blank(call: Call, like: Source) -> Source:
    """Nothing, as a scalar of the type of a tensor."""
    kind = call.graph.type(like)
    if kind is T.string:
        return call.graph.constant(np.array("", object), kind)
    if kind is T.boolean:
        return call.graph.constant(np.array(False), kind)
    return call.graph.constant(np.zeros((), kind.dtype), kind)


def _mode(call: Call) -> str:
    return call.one_of("mode", "constant", "constant", "reflect", "edge", "wrap")


def _padded(call: Call, data: Source, pads: list[int], value: Source) -> Source:
    graph, mode = call.graph, _mode(call)
    ValidationError.when(len(pads) % 2, f"expected two pads for each axis, got {len(pads)}")
    half = len(pads) // 2
    begins, ends = graph.i64(pads[:half]), graph.i64(pads[half:])
    return graph.make("Pad", data, begins, ends, value, pad_mode=mode)


def _wrapped(call: Call, data: Source, begins: Source, ends: Source) -> Source:
    """The data as they go on when they are laid side by side."""
    graph = call.graph
    for axis in range(graph.rank(data)):
        begin, end = (graph.gather(pads, [axis], 0) for pads in (begins, ends))
        if all((v := graph.known(p)) is not None and not v.any() for p in (begin, end)):
            continue
        size = graph.size_of(data, axis)
        count = graph.plus(size, graph.plus(begin, end))
        places = graph.make("FloorMod", graph.minus(graph.range(count), begin), size)
        data = graph.gather(data, places, axis)
    return data


@lowering("Trilu")
@lowering("Trilu", domain=MICROSOFT)
def _trilu(call: Call) -> Source:
    graph, data = call.graph, call[0]
    rank = graph.rank(data)
    ValidationError.when(rank < 2, f"expected a matrix, got rank {rank}")
    rows = graph.unsqueeze(graph.range(graph.size_of(data, rank - 2)), 1)
    columns = graph.unsqueeze(graph.range(graph.size_of(data, rank - 1)), 0)
    k = call.optional(1)
    if k is not None:
        rows = graph.plus(rows, graph.reshape(graph.convert(k, T.i64), []))
    name = "GreaterEqual" if call.integer("upper", 1) else "LessEqual"
    return graph.select(graph.make(name, columns, rows), data, blank(call, data))
