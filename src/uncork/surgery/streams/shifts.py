"""Layers that shift frames against each other: padding, slices and joins along time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from uncork.ir.model import Node, Source
from uncork.surgery.streams.at_once import latest
from uncork.surgery.streams.flow import Flow, Refusal
from uncork.surgery.streams.lengths import rows_of_positions
from uncork.surgery.streams.rules import streams
from uncork.surgery.streams.walk import Walk

#: The end of a slice that takes all.
_END = 2**31 - 1
_OPEN_PLACES = "cuts at places that are not constant"


@streams("Pad", how="padding at the beginning happens once, at the end never")
def _pad(walk: Walk, node: Node, given: Sequence[Flow]) -> list[Flow]:
    flow = walk.separate(given[0])
    open_pads = "has pads that are not constant"
    Refusal.when(flow.kind != "time", open_pads)
    begin, end = (walk.known_numbers(node, position, open_pads) for position in (1, 2))
    lead, axis = begin[flow.axis], flow.axis
    mode = node.operation.pad_mode  # type: ignore[union-attr]
    value = 0.0
    if mode == "constant" and len(node.inputs) > 3:
        known = walk.value(node, 3)
        if known is None:
            raise Refusal("pads by a value that is not constant")
        value = float(known.reshape(-1)[0])
    Refusal.when(
        lead > 0 and mode != "constant",
        f"pads time by mode {mode}, which needs frames that are not there yet",
        "pad by a constant",
    )
    begin[axis] = end[axis] = 0
    if any(begin) or any(end):
        bounds = [walk.writer.constant(np.array(b)) for b in (begin, end)]
        rest = [f.source for f in given[3:]]
        flow = walk.each(flow, lambda source: walk.copy(node, [source, *bounds, *rest])[0])
    flow = walk.padded(flow, lead, value) if lead > 0 else walk.sliced(flow, -lead)
    return [walk.flowing(Source(node.id, 0), flow)]


@streams("Slice", how="a shift; the frames that it leaves out at the end go on in a stream")
def _slice(walk: Walk, node: Node, given: Sequence[Flow]) -> list[Flow]:
    flow = given[0]
    starts, steps = (walk.known_numbers(node, position, _OPEN_PLACES) for position in (1, 3))
    rank = walk.writer.rank(flow.source)
    named = walk.numbers(node, 4) if len(node.inputs) > 4 else None
    axes = [axis % rank for axis in named or range(len(starts))]
    if flow.kind == "still":
        return [rows_of_positions(walk, node, given, starts, steps, axes)]
    if flow.kind == "size":
        return walk.of_sizes(node, given)
    if flow.axis not in axes:
        return walk.at_once(node, given)
    walk.separate(flow)
    at = axes.index(flow.axis)
    start = starts[at]
    stops = walk.numbers(node, 2)
    if steps[at] == 1 and start == -1 and stops is not None and stops[at] >= _END:
        return latest(walk, node, given)
    _check(walk, node, flow, start, steps[at])
    if len(axes) > 1:
        if stops is None:
            raise Refusal(_OPEN_PLACES)
        starts[at], stops[at] = 0, _END
        bounds = [walk.writer.constant(np.array(b)) for b in (starts, stops)]
        rest = [f.source for f in given[3:]]
        flow = walk.each(flow, lambda source: walk.copy(node, [source, *bounds, *rest])[0])
    return [walk.flowing(Source(node.id, 0), walk.sliced(flow, start))]


@streams("StridedSlice", how="a shift; the last frame (-1) as it is then")
def _strided(walk: Walk, node: Node, given: Sequence[Flow]) -> list[Flow]:
    flow = given[0]
    starts, steps = walk.known_numbers(node, 1, _OPEN_PLACES), walk.numbers(node, 3)
    if flow.kind == "size":
        return walk.of_sizes(node, given)
    operation = node.operation
    masks = {
        name: _mask(getattr(operation, f"{name}_mask"), len(starts))
        for name in ("begin", "end", "new_axis", "shrink_axis", "ellipsis")
    }
    if flow.kind == "still":
        Refusal.when(
            any(masks["ellipsis"] + masks["new_axis"] + masks["shrink_axis"]),
            "cuts a table by the length of the sequence, and changes its axes",
        )
        starts = [0 if m else s for s, m in zip(starts, masks["begin"], strict=True)]
        every = steps or [1] * len(starts)
        return [rows_of_positions(walk, node, given, starts, every, range(len(starts)))]
    walk.separate(flow)
    at = _position(masks, walk.writer.rank(flow.source), flow.axis)
    if at is None:
        return walk.at_once(node, given)
    start = 0 if masks["begin"][at] else starts[at]
    step = 1 if steps is None else steps[at]
    whole = not masks["new_axis"][at]
    if masks["shrink_axis"][at] and whole:
        if starts[at] == -1:
            return latest(walk, node, given)
        raise Refusal(
            "takes a frame by its place from the beginning",
            "take what it reads as output, and pick the frame there",
        )
    ends = walk.numbers(node, 2)
    if start == -1 and step == 1 and (masks["end"][at] or (ends and ends[at] >= _END)):
        return latest(walk, node, given)
    _check(walk, node, flow, start, step)
    begin, end = list(masks["begin"]), list(masks["end"])
    begin[at] = end[at] = 1
    assert operation is not None
    plain = operation.replace(begin_mask=begin, end_mask=end)
    rest = [f.source for f in given[1:]]
    moved = walk.each(flow, lambda source: walk.copy(node, [source, *rest], plain)[0])
    (axis,) = walk.time_axes(Source(node.id, 0)) or (flow.axis,)
    moved = Flow(moved.source, "time", axis, flow.shift, flow.every, moved.history)
    return [walk.flowing(Source(node.id, 0), walk.sliced(moved, start))]


def _mask(bits: Sequence[int], count: int) -> list[int]:
    return [*bits, *(0 for _ in range(count))][:count]


def _position(masks: dict[str, list[int]], rank: int, axis: int) -> int | None:
    """Which of the bounds are those of an axis; None where it is taken whole."""
    count = len(masks["begin"])
    own = sum(1 for i in range(count) if not masks["new_axis"][i] and not masks["ellipsis"][i])
    at = 0
    for i in range(count):
        if masks["ellipsis"][i]:
            at += rank - own
        elif not masks["new_axis"][i]:
            if at == axis:
                return i
            at += 1
    return None


def _check(walk: Walk, node: Node, flow: Flow, start: int, step: int) -> None:
    """Refuse slices of time that are no shift: frames go on to the sequence's end, or to some
    frames before it.
    """
    Refusal.when(
        step != 1, f"takes one frame in {step}", "use a convolution or a pooling with strides"
    )
    Refusal.when(
        start < 0, "takes the last frames: a stream has no end", "take the very last, or all"
    )
    whole = walk.spec(Source(node.id, 0)).shape
    size = whole[flow.axis].expression if len(whole) == walk.writer.rank(flow.source) else None
    left_out = None if size is None or flow.size is None else (flow.size - size).constant
    if left_out is None or left_out < start:
        raise Refusal(
            "ends at a frame of its own, whatever the length is",
            "take what it reads as output, and cut it outside",
        )


@streams("Concat", how="constant frames first are padding; not two sequences along time")
def _concat(walk: Walk, node: Node, given: Sequence[Flow]) -> list[Flow]:
    whole = Source(node.id, 0)
    axis = node.operation.axis % len(walk.spec(whole).shape)  # type: ignore[union-attr]
    times = [flow for flow in given if flow.kind == "time"]
    if all(flow.axis != axis for flow in times):
        return walk.at_once(node, given)
    Refusal.when(
        len(times) > 1, "joins two sequences along time: the second begins when the first has ended"
    )
    flow = walk.separate(times[0])
    before = given[: list(given).index(flow)]
    Refusal.when(
        any(part.kind != "still" for part in given if part is not flow),
        "joins time with what the sequence tells",
    )
    sizes = [walk.writer.spec(part.source).shape[axis].static_size for part in before]
    count = sum(size for size in sizes if size is not None)
    Refusal.when(None in sizes, "puts a number of frames before the sequence that is not known")
    if count:
        frames = walk.writer.join(axis, *(part.source for part in before))
        value = walk.writer.value(frames)
        same = value is not None and value.size and bool((value == value.flat[0]).all())
        flow = (
            walk.padded(flow, count, float(value.flat[0]))
            if same and value is not None and value.dtype.kind == "f"
            else walk.led(flow, frames, count)
        )
    return [walk.flowing(whole, flow)]
