"""Squeeze-1, -15, Unsqueeze-1. The pages' examples have shapes only."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import strategies as st

from tests.samples._arrays import arrays, shapes
from tests.samples._sample import Case, Refusal, Sample, Samples
from uncork.ops.squeeze import Squeeze1, Squeeze15, Unsqueeze1

THIN = np.arange(6, dtype=np.float32).reshape(1, 3, 1, 2)
FLAT = np.arange(6, dtype=np.float32).reshape(3, 2)
SKIP = {"allow_axis_skip": True}

SQUEEZED = [
    Sample("page example 1", [THIN, np.array([0, 2])], [FLAT]),
    Sample("page example 2: to a scalar", [np.array([5], np.int32), np.array([0])], [np.int32(5)]),
    Sample("no axes", [THIN], [FLAT]),
    Sample(
        "empty axes",
        [THIN, np.zeros((0,), np.int64)],
        [FLAT],
        openvino="cannot read an empty constant",
    ),
    Sample("a scalar axis from the end", [THIN, np.int32(-2)], [FLAT.reshape(1, 3, 2)]),
    Sample(
        "strings",
        [np.array([["a", "日本"]], object), np.array([0])],
        [np.array(["a", "日本"], object)],
    ),
    Sample(
        "an empty dimension stays", [np.zeros((1, 0), np.float32)], [np.zeros((0,), np.float32)]
    ),
    Sample("an axis named twice", [THIN, np.array([0, -4])], [FLAT.reshape(3, 1, 2)]),
]
SKIPPED = [
    Sample("an axis that is not 1 stays", [THIN, np.array([1, 2])], [FLAT.reshape(1, 3, 2)], SKIP)
]
SQUEEZE_REFUSALS = [
    Refusal("axis", [THIN, np.array([4])], r"axes 4 is outside -4\.\.3 for rank 4"),
    Refusal(
        "shape of axes",
        [THIN, np.array([[0]])],
        r"'axes': expected a scalar or a 1-D tensor, got shape \[1,1\]",
    ),
    Refusal(
        "strict: not 1",
        [THIN, np.array([1])],
        r"axis 1 is not of size 1: data \[1,3,1,2\]",
        strict=True,
    ),
    Refusal("strict: twice", [THIN, np.array([0, 0])], r"\[0, 0\] name an axis twice", strict=True),
]
UNSQUEEZED = [
    Sample("page example", [FLAT, np.array([0, 3])], [FLAT.reshape(1, 3, 2, 1)]),
    Sample("a scalar axis", [np.float32(3), np.int64(0)], [np.array([3], np.float32)]),
    Sample("from the end", [FLAT, np.array([-1, 1], np.int32)], [FLAT.reshape(3, 1, 2, 1)]),
    Sample("strings", [np.array(["a"], object), np.array([0])], [np.array([["a"]], object)]),
    Sample("no axes", [FLAT, np.zeros((0,), np.int64)], [FLAT], openvino="refuses it"),
]
UNSQUEEZE_REFUSALS = [
    Refusal("axis", [FLAT, np.array([3])], r"axes 3 is outside -3\.\.2 for rank 3"),
    Refusal("twice", [FLAT, np.array([0, -4])], r"'axes': \[0, -4\] name an axis twice"),
    Refusal(
        "shape of axes",
        [FLAT, np.array([[0]])],
        r"'axes': expected a scalar or a 1-D tensor, got shape \[1,1\]",
    ),
]


@st.composite
def squeezes(draw: st.DrawFn, attributes: list[dict[str, object]]) -> Case:
    shape = tuple(1 if draw(st.booleans()) else s for s in draw(shapes(max_side=3)))
    chosen = draw(st.sampled_from(attributes))
    usable = [i for i, s in enumerate(shape) if s == 1 or chosen == SKIP]
    axes = draw(st.lists(st.sampled_from(usable), unique=True)) if usable else []
    axes = [a - len(shape) if draw(st.booleans()) else a for a in axes]
    data, name = draw(arrays(shape))
    more = [np.array(axes, np.int64)] if axes or draw(st.booleans()) else []
    return Case([data, *more], chosen, [name])


def squeezed(case: Case) -> list[np.ndarray]:
    """Every element moves to the place without the indices of the axes that go."""
    data = case.inputs[0]
    axes = [int(a) for a in case.inputs[1]] if len(case.inputs) > 1 else []
    axes = [a + data.ndim if a < 0 else a for a in axes] or list(range(data.ndim))
    kept = [i for i in range(data.ndim) if i not in axes or data.shape[i] != 1]
    output = np.empty([data.shape[i] for i in kept], data.dtype)
    for place in itertools.product(*map(range, data.shape)):
        output[tuple(place[i] for i in kept)] = data[place]
    return [output]


@st.composite
def unsqueezes(draw: st.DrawFn) -> Case:
    shape = draw(shapes(max_rank=3))
    count = draw(st.integers(0, 3))
    rank = len(shape) + count
    axes = draw(st.permutations(range(rank)))[:count]
    axes = [a - rank if draw(st.booleans()) else a for a in axes]
    data, name = draw(arrays(shape))
    given = np.array(axes, draw(st.sampled_from(["i4", "i8"])))
    return Case(
        [data, given.reshape(()) if count == 1 and draw(st.booleans()) else given], {}, [name]
    )


def unsqueezed(case: Case) -> list[np.ndarray]:
    data, axes = case.inputs
    rank = data.ndim + axes.size
    new = {(int(a) + rank) % rank for a in axes.reshape(-1)}
    old = [i for i in range(rank) if i not in new]
    shape = [1] * rank
    for i, size in zip(old, data.shape, strict=True):
        shape[i] = size
    output = np.empty(shape, data.dtype)
    for place in itertools.product(*map(range, shape)):
        output[place] = data[tuple(place[i] for i in old)]
    return [output]


SAMPLES = [
    Samples(Squeeze1, SQUEEZED, SQUEEZE_REFUSALS, squeezes([{}]), squeezed),
    Samples(Squeeze15, SQUEEZED + SKIPPED, SQUEEZE_REFUSALS, squeezes([{}, SKIP]), squeezed),
    Samples(Unsqueeze1, UNSQUEEZED, UNSQUEEZE_REFUSALS, unsqueezes(), unsqueezed),
]
