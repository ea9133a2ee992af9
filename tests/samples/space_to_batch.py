"""SpaceToBatch-2, BatchToSpace-2. The pages' examples have shapes only."""

from __future__ import annotations

import itertools
import math

import numpy as np
from hypothesis import strategies as st

from tests.samples._arrays import arrays, shapes
from tests.samples._sample import Case, Refusal, Sample, Samples
from uncork.ops.space_to_batch import BatchToSpace2, SpaceToBatch2

LINE = np.array([[1, 2, 3, 4]], np.float32)
IMAGE = np.arange(1, 17, dtype=np.float32).reshape(1, 4, 4)
CORNERS = np.array(
    [[[1, 3], [9, 11]], [[2, 4], [10, 12]], [[5, 7], [13, 15]], [[6, 8], [14, 16]]], np.float32
)


def numbers(*lists: list[int]) -> list[np.ndarray]:
    return [np.array(n, np.int64) for n in lists]


FORWARD = [
    Sample(
        "a line", [LINE, *numbers([1, 2], [0, 0], [0, 0])], [np.array([[1, 3], [2, 4]], np.float32)]
    ),
    Sample("an image", [IMAGE, *numbers([1, 2, 2], [0, 0, 0], [0, 0, 0])], [CORNERS]),
    Sample(
        "pads",
        [LINE[:, :3], *numbers([1, 2], [0, 1], [0, 2])],
        [np.array([[0, 2, 0], [1, 3, 0]], np.float32)],
    ),
    Sample(
        "two images interleave",
        [np.array([[1, 2], [3, 4]], np.int32), *numbers([1, 2], [0, 0], [0, 0])],
        [np.array([[1], [3], [2], [4]], np.int32)],
    ),
    Sample(
        "page example: shape",
        [
            np.zeros((2, 6, 10, 3, 3), np.float32),
            *numbers([1, 2, 4, 3, 1], [0, 0, 1, 0, 0], [0, 0, 1, 0, 0]),
        ],
        [np.zeros((48, 3, 3, 1, 3), np.float32)],
    ),
    Sample(
        "strings",
        [np.array([["a", "日本"]], object), *numbers([1, 3], [0, 1], [0, 0])],
        [np.array([[""], ["a"], ["日本"]], object)],
        openvino="not for strings",
    ),
]
FORWARD_REFUSALS = [
    Refusal(
        "block does not divide",
        [LINE, *numbers([1, 3], [0, 0], [0, 1])],
        "divide the padded size 5 of axis 1",
    ),
    Refusal(
        "block 0",
        [LINE, *numbers([1, 0], [0, 0], [0, 0])],
        r"'block_shape': expected numbers of at least 1, got \[1, 0\]",
    ),
    Refusal(
        "batch block",
        [LINE, *numbers([2, 2], [0, 0], [0, 0])],
        r"'block_shape': expected 1 for the batch dimension, got \[2, 2\]",
    ),
    Refusal(
        "negative pad",
        [LINE, *numbers([1, 1], [0, -1], [0, 0])],
        r"'pads_begin': expected numbers of at least 0, got \[0, -1\]",
    ),
    Refusal(
        "batch pad",
        [LINE, *numbers([1, 1], [0, 0], [1, 0])],
        r"'pads_end': expected 0 for the batch dimension, got \[1, 0\]",
    ),
    Refusal(
        "length",
        [LINE, *numbers([1], [0, 0], [0, 0])],
        r"'block_shape': expected a number for each dimension of data \[1,4\]",
    ),
    Refusal("rank", [LINE[0], *numbers([1], [0], [0])], r"at least 2 dimensions, got shape \[4\]"),
]
BACKWARD = [
    Sample(
        "a line", [np.array([[1, 3], [2, 4]], np.float32), *numbers([1, 2], [0, 0], [0, 0])], [LINE]
    ),
    Sample("an image", [CORNERS, *numbers([1, 2, 2], [0, 0, 0], [0, 0, 0])], [IMAGE]),
    Sample("crops", [CORNERS, *numbers([1, 2, 2], [0, 1, 0], [0, 0, 2])], [IMAGE[:, 1:, :2]]),
    Sample(
        "page example 1",
        [np.arange(20.0).reshape(10, 2), *numbers([1, 5], [0, 2], [0, 0])],
        [np.array([[8.0, 12, 16, 1, 5, 9, 13, 17], [10, 14, 18, 3, 7, 11, 15, 19]])],
    ),
    Sample(
        "page example 2: shape",
        [
            np.zeros((48, 3, 3, 1, 3), np.float32),
            *numbers([1, 2, 4, 3, 1], [0, 0, 1, 0, 0], [0, 0, 1, 0, 0]),
        ],
        [np.zeros((2, 6, 10, 3, 3), np.float32)],
    ),
]
BACKWARD_REFUSALS = [
    Refusal(
        "batch",
        [np.zeros((3, 2)), *numbers([1, 2], [0, 0], [0, 0])],
        r"product divides the batch 3, got block_shape \[1, 2\]",
    ),
    Refusal(
        "crops",
        [np.zeros((2, 2)), *numbers([1, 2], [0, 3], [0, 2])],
        "crops of at most 4 along axis 1, got 3 and 2",
    ),
    Refusal(
        "negative crop",
        [np.zeros((2, 2)), *numbers([1, 2], [0, 0], [0, -1])],
        r"'crops_end': expected numbers of at least 0",
    ),
    Refusal(
        "rank", [np.zeros(2), *numbers([1], [0], [0])], r"at least 2 dimensions, got shape \[2\]"
    ),
]


@st.composite
def cases(draw: st.DrawFn, forward: bool) -> Case:
    inner = draw(shapes(min_rank=1, max_rank=3, max_side=3))
    blocks = [draw(st.integers(1, 3)) for _ in inner]
    batch = draw(st.integers(0, 2))
    whole = [s * b for s, b in zip(inner, blocks, strict=True)]
    first = [draw(st.integers(0, n)) for n in whole]
    last = [draw(st.integers(0, n - f)) for n, f in zip(whole, first, strict=True)]
    shape = (
        (batch, *(n - f - e for n, f, e in zip(whole, first, last, strict=True)))
        if forward
        else (batch * math.prod(blocks), *inner)
    )
    data, name = draw(arrays(shape))
    return Case([data, *numbers([1, *blocks], [0, *first], [0, *last])], {}, [name])


def pair(place: tuple[int, ...], blocks: list[int], batch: int) -> tuple[int, ...]:
    """The place in the padded image of a place in the batch of blocks."""
    rest, n = divmod(place[0], batch)
    within = []
    for block in reversed(blocks):
        rest, b = divmod(rest, block)
        within.append(b)
    return (
        n,
        *(s * block + b for s, block, b in zip(place[1:], blocks, reversed(within), strict=True)),
    )


def forward(case: Case) -> list[np.ndarray]:
    data, block_shape, begin, end = case.inputs
    blocks = [int(b) for b in block_shape[1:]]
    sizes = [
        (s + int(b) + int(e)) // block
        for s, b, e, block in zip(data.shape[1:], begin[1:], end[1:], blocks, strict=True)
    ]
    output = np.full([data.shape[0] * math.prod(blocks), *sizes], case.zero, data.dtype)
    for place in itertools.product(*map(range, output.shape)):
        source = tuple(
            p - int(b) for p, b in zip(pair(place, blocks, data.shape[0]), begin, strict=True)
        )
        if all(0 <= p < s for p, s in zip(source, data.shape, strict=True)):
            output[place] = data[source]
    return [output]


def backward(case: Case) -> list[np.ndarray]:
    data, block_shape, begin, end = case.inputs
    blocks = [int(b) for b in block_shape[1:]]
    batch = data.shape[0] // math.prod(blocks)
    sizes = [
        s * block - int(b) - int(e)
        for s, b, e, block in zip(data.shape[1:], begin[1:], end[1:], blocks, strict=True)
    ]
    output = np.empty([batch, *sizes], data.dtype)
    for place in itertools.product(*map(range, data.shape)):
        target = tuple(p - int(b) for p, b in zip(pair(place, blocks, batch), begin, strict=True))
        if all(0 <= p < s for p, s in zip(target, output.shape, strict=True)):
            output[target] = data[place]
    return [output]


SAMPLES = [
    Samples(SpaceToBatch2, FORWARD, FORWARD_REFUSALS, cases(True), forward),
    Samples(BatchToSpace2, BACKWARD, BACKWARD_REFUSALS, cases(False), backward),
]
