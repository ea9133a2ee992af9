"""Layers that move whole frames: other axes, other shapes of a frame."""

from __future__ import annotations

from collections.abc import Sequence

from uncork.ir.model import Node, Source
from uncork.surgery.streams.flow import Flow, Refusal
from uncork.surgery.streams.rules import stream_at_once, streams
from uncork.surgery.streams.walk import Walk, product
from uncork.symbolic import Size

stream_at_once(("Squeeze", "Unsqueeze", "Transpose"))


@streams("Reshape", how="at once, where it keeps frames whole")
def _reshape(walk: Walk, node: Node, given: Sequence[Flow]) -> list[Flow]:
    """Time moves to another axis only as a whole: what lies within a frame stays within it."""
    flow, whole = given[0], Source(node.id, 0)
    Refusal.when(flow.kind != "time", "makes a shape of values of the sequence")
    axes = walk.time_axes(whole)
    if len(axes) == 1:
        shape = walk.spec(whole).shape
        behind = product(shape[axes[0] + 1 :])
        if not _fits(flow, shape[axes[0]].as_size(), behind):
            raise Refusal(
                f"lays {walk.spec(node.inputs[0]).shape} out as {shape}, which mixes frames",
                "transpose before it so that time keeps its place",
            )
    return walk.at_once(node, given)


def _fits(flow: Flow, size: Size, behind: Size) -> bool:
    """Whether an axis of this size, with so many elements behind it, has whole frames in it."""
    if flow.size is None or flow.within is None:
        return False
    if size == flow.size:
        return behind == flow.within
    inner = flow.within.over(behind)
    return inner is not None and size.over(flow.size * inner) is not None


@streams("Broadcast", how="at once; the same for each frame, where it makes the frames")
def _broadcast(walk: Walk, node: Node, given: Sequence[Flow]) -> list[Flow]:
    Refusal.when(given[0].kind != "time", "makes a shape of values of the sequence")
    return walk.at_once(node, given)


@streams("Tile", how="at once; not along time")
def _tile(walk: Walk, node: Node, given: Sequence[Flow]) -> list[Flow]:
    flow, repeats = given[0], walk.numbers(node, 1)
    if flow.kind == "time":
        rank = walk.writer.rank(flow.source)
        axis = flow.axis - rank  # repeats may be longer or shorter than the shape
        if repeats is None or (len(repeats) >= -axis and repeats[axis] != 1):
            raise Refusal("repeats the sequence", "a stream has no end to begin again from")
    return walk.at_once(node, given)
