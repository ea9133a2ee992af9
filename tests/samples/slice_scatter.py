"""SliceScatter-15. The numbered examples are those of the page."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import strategies as st

from tests.samples._arrays import arrays
from tests.samples._sample import Case, Refusal, Sample, Samples
from tests.samples.slice import cases as slice_cases
from tests.samples.slice import chosen
from uncork.ops.slice_scatter import SliceScatter15

TABLE = np.arange(10, dtype=np.float32).reshape(2, 5)


def bounds(*numbers: list[int]) -> list[np.ndarray]:
    return [np.array(n, np.int32) for n in numbers]


EXAMPLES = [
    Sample(
        "page example 1",
        [TABLE, np.array([[10, 20, 30, 40, 50]], np.float32), *bounds([0], [1], [1], [0])],
        [np.array([[10, 20, 30, 40, 50], [5, 6, 7, 8, 9]], np.float32)],
    ),
    Sample(
        "page example 2: every second, bounds beyond",
        [TABLE, np.array([[10, 20, 30], [40, 50, 60]], np.float32), *bounds([-25], [25], [2], [1])],
        [np.array([[10, 1, 20, 3, 30], [40, 6, 50, 8, 60]], np.float32)],
    ),
    Sample(
        "page example 3: two axes",
        [
            np.arange(15.0).reshape(3, 5),
            np.array([[50.0, 60], [70, 80]]),
            *bounds([0, 1], [3, 5], [2, 2]),
        ],
        [np.array([[0.0, 50, 2, 60, 4], [5, 6, 7, 8, 9], [10, 70, 12, 80, 14]])],
    ),
    Sample(
        "backwards",
        [np.arange(3), np.array([7, 8]), *bounds([2], [0], [-1])],
        [np.array([0, 8, 7])],
    ),
    Sample(
        "an empty slice",
        [np.arange(3), np.zeros((0,), np.int64), *bounds([2], [2], [1])],
        [np.arange(3)],
        openvino="refuses it",
    ),
    Sample(
        "strings",
        [np.array(["a", "b"], object), np.array(["日本"], object), *bounds([1], [2], [1])],
        [np.array(["a", "日本"], object)],
        openvino="not for strings",
    ),
]
REFUSALS = [
    Refusal(
        "updates",
        [TABLE, TABLE, *bounds([0], [1], [1])],
        r"'updates': expected the shape of the slice \[1,5\], got \[2,5\]",
    ),
    Refusal(
        "no broadcasting",
        [TABLE, TABLE[:, :1], *bounds([0], [2], [1])],
        r"expected the shape of the slice \[2,5\], got \[2,1\]",
    ),
    Refusal("step 0", [TABLE, TABLE, *bounds([0], [1], [0])], "expected steps other than 0"),
    Refusal("lengths", [TABLE, TABLE, *bounds([0, 0], [1], [1])], "of one length"),
    Refusal("axis", [TABLE, TABLE, *bounds([0], [1], [1], [2])], r"axes 2 is outside -2\.\.1"),
    Refusal(
        "too many",
        [TABLE[0], TABLE[0], *bounds([0, 0], [1, 1], [1, 1])],
        "at most one slice for each dimension",
    ),
    Refusal(
        "scalar data",
        [np.float32(1), np.float32(1), *[np.zeros((0,), np.int64)] * 3],
        "at least one dimension, got a scalar",
    ),
]


def visited(case: Case) -> list[list[int]]:
    """For each axis the places that the slice visits."""
    data, numbers = (
        case.inputs[0],
        case.inputs[-4:] if len(case.inputs) % 2 == 0 else case.inputs[-3:],
    )
    axes = [int(a) for a in numbers[3]] if len(numbers) > 3 else range(len(numbers[0]))
    places = [list(range(s)) for s in data.shape]
    for axis, each in zip(axes, zip(*numbers[:3], strict=True), strict=True):
        places[axis] = chosen(data.shape[axis], *map(int, each))
    return places


@st.composite
def cases(draw: st.DrawFn) -> Case:
    whole = draw(slice_cases())
    data, *numbers = whole.inputs
    name = whole.types[0].name
    places = visited(Case([data, data, *numbers], {}, [name, name]))
    updates, _ = draw(arrays(tuple(map(len, places)), (name,)))
    return Case([data, updates, *numbers], {}, [name, name])


def loop(case: Case) -> list[np.ndarray]:
    data, updates = case.inputs[:2]
    places = visited(case)
    output = data.copy()
    for place in itertools.product(*map(range, updates.shape)):
        output[tuple(v[p] for v, p in zip(places, place, strict=True))] = updates[place]
    return [output]


SAMPLES = [Samples(SliceScatter15, EXAMPLES, REFUSALS, cases(), loop)]
