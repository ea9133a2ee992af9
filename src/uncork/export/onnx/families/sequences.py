"""Decoding of sequences: the greedy path of CTC, and beams followed back."""

from __future__ import annotations

import numpy as np

from uncork.export.onnx.graph import I64, Graph, Tensor
from uncork.export.onnx.registry import lowers
from uncork.ops._operation import Operation
from uncork.ops.ctc_greedy_decoder import CTCGreedyDecoder1, CTCGreedyDecoderSeqLen6
from uncork.types import ElementType

T = ElementType
ONE = np.ones(1, np.int64)


@lowers("CTCGreedyDecoder")
def decoder(g: Graph, op: CTCGreedyDecoder1, data: Tensor, mask: Tensor) -> Tensor:
    """Steps before the first 0 of the mask count; the blank is the last class."""
    seen = g.op("CumSum", g.cast(g.op("Equal", mask, g.number(0, mask)), I64), g.constant(0, I64))
    present = g.op("Transpose", g.op("Equal", seen, g.constant(0, I64)), perm=[1, 0])
    best = g.op("Transpose", g.op("ArgMax", data, axis=2, keepdims=0), perm=[1, 0])
    blank = g.op("Sub", g.scalar(g.dim(data, 2)), g.constant(1, I64))
    rows, _ = _path(g, best, present, blank, op.ctc_merge_repeated)
    return g.op("Unsqueeze", g.cast(rows, data.type), [2, 3], shape=g.outputs[0].shape)


@lowers("CTCGreedyDecoderSeqLen")
def decoder_with_lengths(
    g: Graph, op: CTCGreedyDecoderSeqLen6, data: Tensor, lengths: Tensor, blank: Tensor | None
) -> list[Tensor]:
    """The first steps of each row count."""
    best = g.op("ArgMax", data, axis=2, keepdims=0)
    steps = g.op("Range", g.constant(0, I64), g.scalar(g.dim(data, 1)), g.constant(1, I64))
    present = g.op("Less", steps, g.op("Unsqueeze", g.cast(lengths, I64), [1]))
    last = g.op("Sub", g.scalar(g.dim(data, 2)), g.constant(1, I64))
    none = last if blank is None else g.scalar(g.cast(blank, I64))
    rows, counts = _path(g, best, present, none, op.merge_repeated)
    return [g.cast(rows, op.classes_index_type), g.cast(counts, op.sequence_length_type)]


def _path(
    g: Graph, best: Tensor, present: Tensor, blank: Tensor, merge: bool
) -> tuple[Tensor, Tensor]:
    """The classes [N, T] that stay, moved to the front of rows of -1, and how many they are."""
    kept = g.op("And", present, g.op("Not", g.op("Equal", best, blank)))
    if merge:
        before = g.op("Pad", g.op("Slice", best, [0], [-1], [1]), [0, 1, 0, 0], g.constant(-1, I64))
        kept = g.op("And", kept, g.op("Not", g.op("Equal", best, before)))
    ones = g.cast(kept, I64)
    place = g.op("Sub", g.op("CumSum", ones, g.constant(1, I64)), g.constant(1, I64))
    width = g.op("Shape", best, start=1, end=2, type=I64)
    # What does not stay goes to one more column, which is cut off.
    place = g.op("Where", kept, place, width)
    room = g.concat(
        [g.op("Shape", best, start=0, end=1, type=I64), g.op("Add", width, g.constant(ONE))]
    )
    blank_rows = g.op("Expand", g.constant(-1, I64), room)
    rows = g.op("Slice", g.op("ScatterElements", blank_rows, place, best, axis=1), [0], [-1], [1])
    return rows, g.op("ReduceSum", ones, [1], keepdims=0)


@lowers("GatherTree")
def gather_tree(
    g: Graph, op: Operation, ids: Tensor, parents: Tensor, lengths: Tensor, end: Tensor
) -> Tensor:
    """Step by step from the last one, of rows that are that long."""
    steps = ids.shape[0].static_size if ids.rank == 3 else None
    if steps is None:
        g.refuse("the number of steps is not known")
    wide = g.cast(lengths, I64)
    beam = g.op("Range", g.constant(0, I64), g.scalar(g.dim(ids, 2)), g.constant(1, I64))
    beam = g.op("Expand", beam, g.dims(ids, 1, 3))
    first = beam
    found: list[Tensor] = []
    for t in reversed(range(steps)):
        live = g.op("Unsqueeze", g.op("Greater", wide, g.constant(t, I64)), [1])
        row = g.op("Gather", ids, g.constant(np.array(t)), axis=0)
        found.insert(0, g.op("Where", live, g.op("GatherElements", row, beam, axis=1), end))
        up = g.cast(g.op("Gather", parents, g.constant(np.array(t)), axis=0), I64)
        beam = g.op("Where", live, g.op("GatherElements", up, beam, axis=1), first)
    path = g.op("Concat", *(g.op("Unsqueeze", f, [0]) for f in found), axis=0)
    ended = g.op("CumSum", g.cast(g.op("Equal", path, end), I64), g.constant(0, I64))
    return g.op("Where", g.op("Greater", ended, g.constant(0, I64)), end, path)
