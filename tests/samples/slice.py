"""Slice-8. The numbered examples are those of the page."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import strategies as st

from tests.samples._arrays import arrays, shapes
from tests.samples._sample import Case, Refusal, Sample, Samples
from uncork.ops.slice import Slice8

TEN = np.arange(10)
TABLE = np.arange(10).reshape(2, 5)


def one(
    name: str,
    start: int,
    stop: int,
    step: int,
    expected: list[int],
    axes: bool = True,
    openvino: str = "",
) -> Sample:
    bounds = [np.array([n]) for n in (start, stop, step)] + ([np.array([0])] if axes else [])
    return Sample(name, [TEN, *bounds], [np.array(expected, np.int64)], openvino=openvino)


EXAMPLES = [
    one("page example 1", 1, 8, 1, [1, 2, 3, 4, 5, 6, 7]),
    one("page example 2: axes by default", 1, 8, 1, [1, 2, 3, 4, 5, 6, 7], axes=False),
    one("page example 3: step 2", 1, 8, 2, [1, 3, 5, 7]),
    one("page example 4: bounds beyond the dimension", -100, 100, 1, list(range(10))),
    one("page example 5: backwards, all", 9, -11, -1, list(range(9, -1, -1))),
    one("page example 6: backwards, to 0", 9, 0, -1, list(range(9, 0, -1))),
    one("page example 7: backwards, to -10", 9, -10, -1, list(range(9, 0, -1))),
    one("page example 8: backwards by 2", 9, -11, -2, [9, 7, 5, 3, 1]),
    one("page example 9: backwards, bounds beyond", 100, -100, -1, list(range(9, -1, -1))),
    Sample(
        "page example 10: two axes",
        [TABLE, *map(np.array, ([0, 1], [2, 4], [1, 2], [0, 1]))],
        [np.array([[1, 3], [6, 8]])],
    ),
    Sample(
        "page example 12: last axes whole",
        [TABLE.reshape(2, 1, 5), *map(np.array, ([0, 0], [1, 9], [1, 1]))],
        [TABLE[:1].reshape(1, 1, 5)],
    ),
    one("largest and least integers", 2**63 - 1, -(2**63), -3, [9, 6, 3, 0]),
    Sample(
        "bounds of different types",
        [TEN, np.array([7]), np.array([9], np.int8), np.array([1], np.int32)],
        [np.array([7, 8])],
    ),
    one("nothing", 4, 4, 1, []),
    one(
        "backwards from before the start",
        -20,
        -30,
        -1,
        [],
        openvino="takes the first element, as Python does not",
    ),
    Sample(
        "axes from the end, unsorted",
        [TABLE, *map(np.array, ([1, 1], [2, 2], [1, 1], [-1, -2]))],
        [np.array([[6]])],
    ),
    Sample(
        "no axes",
        [TABLE, *[np.zeros((0,), np.int64)] * 4],
        [TABLE],
        openvino="cannot read an empty constant",
    ),
    Sample(
        "strings",
        [np.array(["a", "", "日本"], object), *map(np.array, ([-1], [-4], [-2]))],
        [np.array(["日本", "a"], object)],
        openvino="not for strings",
    ),
]
REFUSALS = [
    Refusal(
        "step 0",
        [TEN, *map(np.array, ([0], [1], [0]))],
        r"'step': expected steps other than 0, got \[0\]",
    ),
    Refusal(
        "lengths",
        [TEN, *map(np.array, ([0, 0], [1], [1]))],
        r"of one length, got 'start' \[2\], 'stop' \[1\], 'step' \[1\]",
    ),
    Refusal(
        "length of axes",
        [TEN, *map(np.array, ([0], [1], [1], [0, 0]))],
        r"of one length, got .* 'axes' \[2\]",
    ),
    Refusal(
        "too many",
        [TEN, *map(np.array, ([0, 0], [1, 1], [1, 1]))],
        r"at most one slice for each dimension of data \[10\], got 2",
    ),
    Refusal(
        "axis", [TEN, *map(np.array, ([0], [1], [1], [1]))], r"axes 1 is outside -1\.\.0 for rank 1"
    ),
    Refusal(
        "axis twice",
        [TABLE, *map(np.array, ([0, 0], [1, 1], [1, 1], [1, -1]))],
        r"'axes': \[1, -1\] name an axis twice",
    ),
    Refusal(
        "scalar data",
        [np.int64(1), *[np.zeros((0,), np.int64)] * 3],
        "'data': expected at least one dimension, got a scalar",
    ),
    Refusal(
        "scalar start",
        [TEN, np.int64(0), np.array([1]), np.array([1])],
        r"'start': expected a 1-D tensor, got shape \[\]",
    ),
]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    shape = draw(shapes(min_rank=1, max_side=5))
    count = draw(st.integers(0, len(shape)))
    axes = draw(st.permutations(range(len(shape))))[:count]
    with_axes = draw(st.booleans())
    kind = draw(st.sampled_from(["i1", "i4", "i8"]))
    numbers = [np.array([draw(st.integers(-7, 7)) for _ in range(count)], kind) for _ in range(2)]
    numbers.append(
        np.array([draw(st.sampled_from([-3, -2, -1, 1, 2, 3])) for _ in range(count)], kind)
    )
    data, name = draw(arrays(shape))
    more = (
        [np.array([a - len(shape) if draw(st.booleans()) else a for a in axes], np.int64)]
        if with_axes
        else []
    )
    return Case([data, *numbers, *more], {}, [name])


def chosen(size: int, start: int, stop: int, step: int) -> list[int]:
    """The places that a slice visits: one by one, from the clamped start, while the stop is
    ahead.
    """
    start, stop = (n + size if n < 0 else n for n in (start, stop))
    if step > 0:
        start, stop = max(start, 0), min(stop, size)
    else:
        start, stop = min(start, size - 1), max(stop, -1)
    visited = []
    while start < stop if step > 0 else start > stop:
        visited.append(start)
        start += step
    return visited


def loop(case: Case) -> list[np.ndarray]:
    data, start, stop, step = case.inputs[:4]
    axes = [int(a) for a in case.inputs[4]] if len(case.inputs) > 4 else list(range(len(start)))
    visited = [list(range(s)) for s in data.shape]
    for axis, bounds in zip(axes, zip(start, stop, step, strict=True), strict=True):
        visited[axis] = chosen(data.shape[axis], *map(int, bounds))
    output = np.empty([len(v) for v in visited], data.dtype)
    for place in itertools.product(*map(range, output.shape)):
        output[place] = data[tuple(v[p] for v, p in zip(visited, place, strict=True))]
    return [output]


SAMPLES = [Samples(Slice8, EXAMPLES, REFUSALS, cases(), loop)]
