"""SpaceToDepth-1, DepthToSpace-1. The pages' examples have shapes only; here they have half the
channels' numbers and values.
"""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import strategies as st

from tests.samples._arrays import arrays, shapes
from tests.samples._sample import Case, Refusal, Sample, Samples
from uncork.ops.space_to_depth import DepthToSpace1, SpaceToDepth1

IMAGE = np.array([[[[1, 2], [3, 4]], [[5, 6], [7, 8]]]], np.float32)  # [1, 2, 2, 2]
BLOCKS = {"mode": "blocks_first", "block_size": 2}
DEPTH = {"mode": "depth_first", "block_size": 2}


def column(*values: int) -> np.ndarray:
    return np.array(values, np.float32).reshape(1, -1, 1, 1)


FORWARD = [
    Sample("blocks first", [IMAGE], [column(1, 5, 2, 6, 3, 7, 4, 8)], BLOCKS),
    Sample("depth first", [IMAGE], [column(1, 2, 3, 4, 5, 6, 7, 8)], DEPTH),
    Sample(
        "page example: shape",
        [np.zeros((5, 7, 4, 6), np.float32)],
        [np.zeros((5, 28, 2, 3), np.float32)],
        BLOCKS,
    ),
    Sample(
        "one spatial dimension",
        [np.array([[[1, 2, 3, 4]]])],
        [np.array([[[1, 3], [2, 4]]])],
        BLOCKS,
        openvino="narrows to 32 bits",
    ),
    Sample("blocks of 1", [IMAGE], [IMAGE], {"mode": "depth_first"}),
]
FORWARD_REFUSALS = [
    Refusal("rank", [IMAGE[0, 0]], r"at least 3 dimensions, got shape \[2,2\]", BLOCKS),
    Refusal(
        "no multiple",
        [IMAGE[..., :1]],
        r"spatial dimensions that are multiples of 2, got data \[1,2,2,1\]",
        BLOCKS,
    ),
    Refusal(
        "block size",
        [IMAGE],
        "'block_size': expected at least 1, got 0",
        {"mode": "blocks_first", "block_size": 0},
    ),
    Refusal("no mode", [IMAGE], "attribute 'mode' is missing"),
]
BACKWARD = [
    Sample("blocks first", [column(1, 5, 2, 6, 3, 7, 4, 8)], [IMAGE], BLOCKS),
    Sample("depth first", [column(1, 2, 3, 4, 5, 6, 7, 8)], [IMAGE], DEPTH),
    Sample(
        "page example: shape",
        [np.zeros((5, 28, 2, 3), np.float32)],
        [np.zeros((5, 7, 4, 6), np.float32)],
        BLOCKS,
    ),
]
BACKWARD_REFUSALS = [
    Refusal("rank", [IMAGE[0, 0]], r"at least 3 dimensions, got shape \[2,2\]", BLOCKS),
    Refusal(
        "no multiple", [IMAGE], r"channels that are multiples of 4, got data \[1,2,2,2\]", DEPTH
    ),
]


@st.composite
def cases(draw: st.DrawFn, forward: bool) -> Case:
    batch, depth, *sizes = draw(shapes(min_rank=3, max_rank=5, max_side=2))
    block = draw(st.integers(1, 2 if len(sizes) > 1 else 3))
    shape = (
        (batch, depth, *(s * block for s in sizes))
        if forward
        else (batch, depth * block ** len(sizes), *sizes)
    )
    data, name = draw(arrays(shape))
    return Case(
        [data],
        {"mode": draw(st.sampled_from(["blocks_first", "depth_first"])), "block_size": block},
        [name],
    )


def loop(case: Case, forward: bool) -> list[np.ndarray]:
    """Pairs each place of the wide image with its place in the deep one."""
    data, block = case.inputs[0], case.attributes["block_size"]
    count = data.ndim - 2
    times = block**count
    batch, channels, *sizes = data.shape
    depth = channels if forward else channels // times
    wide = (batch, depth, *(sizes if forward else [s * block for s in sizes]))
    deep = (batch, depth * times, *([s // block for s in sizes] if forward else sizes))
    output = np.empty(deep if forward else wide, data.dtype)
    for n, c, *spatial in itertools.product(*map(range, wide)):
        within = 0
        for s in spatial:
            within = within * block + s % block
        channel = (
            within * depth + c if case.attributes["mode"] == "blocks_first" else c * times + within
        )
        place = (n, channel, *(s // block for s in spatial))
        if forward:
            output[place] = data[(n, c, *spatial)]
        else:
            output[(n, c, *spatial)] = data[place]
    return [output]


SAMPLES = [
    Samples(SpaceToDepth1, FORWARD, FORWARD_REFUSALS, cases(True), lambda c: loop(c, True)),
    Samples(DepthToSpace1, BACKWARD, BACKWARD_REFUSALS, cases(False), lambda c: loop(c, False)),
]
