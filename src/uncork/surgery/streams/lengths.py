"""Layers that count frames: positions 0, 1, 2, .. of a sequence, and tables read by them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from uncork.ir.model import Node, Source
from uncork.surgery.streams.flow import Flow, Refusal
from uncork.surgery.streams.rules import streams
from uncork.surgery.streams.walk import Walk
from uncork.symbolic import Size


@streams("ShapeOf", how="at once: the sizes of the call's frames")
def _shape_of(walk: Walk, node: Node, given: Sequence[Flow]) -> list[Flow]:
    raise Refusal("asks for the shape of what is no sequence")


@streams("Range", how="keeps how many frames there were: positions go on")
def _range(walk: Walk, node: Node, given: Sequence[Flow]) -> list[Flow]:
    """Places from 0, or any number, to the length of the sequence and what is added to it."""
    Refusal.when(
        any(flow.kind == "time" for flow in given), "counts to a number that the sequence tells"
    )
    start, step = walk.numbers(node, 0), walk.numbers(node, 2)
    if start is None or step != [1]:
        raise Refusal("counts frames from a place that is not constant, or in steps")
    output = walk.spec(Source(node.id, 0))
    axes = walk.time_axes(Source(node.id, 0))
    Refusal.when(axes != [0], "counts by the length of the sequence, and not to it")
    places = positions(walk, given[1], start[0], output.shape[0].as_size())
    kind = str(output.element_type)
    return [
        walk.each(
            places,
            lambda s: (
                s if kind == "i32" else walk.writer.add("Convert", 1, s, destination_type=kind)
            ),
        )
    ]


def positions(walk: Walk, size: Flow, start: int, whole: Size) -> Flow:
    """The places of the frames, i32 from `start` on, of a sequence of a size."""
    writer = walk.writer
    like = next(
        (
            flow
            for flow in walk.flows.values()
            if flow.kind == "time"
            and flow.size == whole
            and not flow.joined
            and flow.shift == size.shift
        ),
        None,
    )
    if like is None:
        raise Refusal("counts frames of a sequence that is not there")
    count, after, _ = writer.counter(like, start + like.shift)
    one = writer.constant(np.int32(1))
    source = writer.add(
        "Range", 4, writer.number(count), writer.number(after), one, output_type="i32"
    )
    if like.shift < 0:
        # Before the first frame there are no places: those would be found from a table's end.
        source = writer.add("Maximum", 1, source, writer.constant(np.int32(start)))
    history = None
    if like.shift > 0:
        history = writer.constant(np.arange(start, start + like.shift, dtype=np.int32))
    return Flow(
        source, "time", 0, like.shift, like.every, history, like.size, Size.of(1), joined=False
    )


def rows_of_positions(
    walk: Walk,
    node: Node,
    given: Sequence[Flow],
    starts: Sequence[int],
    steps: Sequence[int],
    axes: Sequence[int],
) -> Flow:
    """The rows of a table for the frames: what `table[:length]` gives the whole sequence."""
    whole = Source(node.id, 0)
    found = walk.time_axes(whole)
    size = next(flow for flow in given if flow.kind == "size")
    Refusal.when(
        len(found) != 1 or len(walk.spec(whole).shape) != walk.writer.rank(given[0].source),
        "cuts a table by the length of the sequence",
    )
    axis = found[0]
    table = given[0].source
    for position, start, step in zip(axes, starts, steps, strict=True):
        Refusal.when(
            step != 1 or start < 0,
            "cuts a table by the length of the sequence, in steps or from its end",
        )
        if position != axis:
            length = walk.spec(whole).shape[position].static_size
            if length is None:
                raise Refusal("cuts a table by sizes that are not constant")
            table = walk.writer.cut(table, position, start, start + length)
    start = dict(zip(axes, starts, strict=True))[axis]
    places = positions(walk, size, start, walk.spec(whole).shape[axis].as_size())
    number = walk.writer.constant(np.int64(axis))

    def rows(source: Source) -> Source:
        return walk.writer.add("Gather", 8, table, source, number, batch_dims=0)

    moved = walk.each(places, rows)
    return walk.flowing(
        whole, Flow(moved.source, "time", axis, moved.shift, moved.every, moved.history)
    )
