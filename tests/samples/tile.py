"""Tile-1. The page's examples have shapes only; here they are a size smaller and filled with
numbers.
"""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import strategies as st

from tests.samples._arrays import arrays, shapes
from tests.samples._sample import Case, Refusal, Sample, Samples
from uncork.ops.tile import Tile1

PAIR = np.array([[1, 2]], np.float32)

EXAMPLES = [
    Sample(
        "as many repeats as dimensions",
        [PAIR, np.array([2, 2])],
        [np.array([[1, 2, 1, 2], [1, 2, 1, 2]], np.float32)],
    ),
    Sample(
        "more repeats than dimensions",
        [PAIR[0], np.array([2, 1, 2])],
        [np.array([[[1, 2, 1, 2]]] * 2, np.float32)],
    ),
    Sample(
        "fewer repeats than dimensions",
        [PAIR, np.array([2])],
        [np.array([[1, 2, 1, 2]], np.float32)],
    ),
    Sample("a scalar", [np.float32(3), np.array([2])], [np.array([3, 3], np.float32)]),
    Sample(
        "a scalar as it is",
        [np.float32(3), np.zeros((0,), np.int64)],
        [np.float32(3)],
        openvino="refuses no repeats",
    ),
    Sample("no times", [PAIR, np.array([0, 1])], [np.zeros((0, 2), np.float32)]),
    Sample(
        "strings",
        [np.array(["a", "日本"], object), np.array([2])],
        [np.array(["a", "日本", "a", "日本"], object)],
        openvino="not for strings",
    ),
]
REFUSALS = [
    Refusal(
        "negative",
        [PAIR, np.array([1, -2])],
        r"'repeats': expected no negative numbers, got \[1, -2\]",
    ),
    Refusal(
        "scalar repeats", [PAIR, np.int64(2)], r"'repeats': expected a 1-D tensor, got shape \[\]"
    ),
    Refusal("too much", [PAIR, np.array([2**40, 2**40])], "more than this machine's memory"),
]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    data, name = draw(arrays(draw(shapes(max_rank=3, max_side=3))))
    return Case(
        [data, np.array(draw(st.lists(st.integers(0, 3), max_size=4)), np.int64)], {}, [name]
    )


def loop(case: Case) -> list[np.ndarray]:
    data, repeats = case.inputs
    rank = max(data.ndim, len(repeats))
    sizes = [1] * (rank - data.ndim) + list(data.shape)
    times = [1] * (rank - len(repeats)) + [int(n) for n in repeats]
    output = np.empty([s * t for s, t in zip(sizes, times, strict=True)], data.dtype)
    for place in itertools.product(*map(range, output.shape)):
        output[place] = data[
            tuple(p % s for p, s in zip(place, sizes, strict=True))[rank - data.ndim :]
        ]
    return [output]


SAMPLES = [Samples(Tile1, EXAMPLES, REFUSALS, cases(), loop)]
