"""Broadcast-1, -3. The pages' examples have shapes only and are filled with numbers here."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import strategies as st

from tests.samples._arrays import arrays, shapes
from tests.samples._sample import Case, Refusal, Sample, Samples
from uncork.ops.broadcast import Broadcast1, Broadcast3

COLUMN = np.array([[[1.0]], [[2.0]]], np.float32)  # [2, 1, 1]
NUMPY = {"mode": "numpy"}
EXPLICIT = {"mode": "explicit"}
BOTH = {"mode": "bidirectional"}


def filled(*shape: int) -> np.ndarray:
    """[a, 2, b, c] holding the number of the second axis plus 1."""
    return np.array([[[[k + 1.0] * shape[3]] * shape[2] for k in range(2)]] * shape[0], np.float32)


EXAMPLES = [
    Sample("page example 1: numpy", [COLUMN, np.array([1, 2, 3, 3])], [filled(1, 2, 3, 3)], NUMPY),
    Sample(
        "page example 2: explicit",
        [np.array([1, 2], np.float32), np.array([1, 2, 3, 3]), np.array([1])],
        [filled(1, 2, 3, 3)],
        EXPLICIT,
    ),
    Sample(
        "page example 3: explicit, two axes",
        [np.array([[1, 2], [3, 4]], np.float32), np.array([1, 2, 2, 3]), np.array([1, 2])],
        [np.array([[[[1] * 3, [2] * 3], [[3] * 3, [4] * 3]]], np.float32)],
        EXPLICIT,
    ),
    Sample("a scalar", [np.float32(7), np.array([2, 1])], [np.array([[7], [7]], np.float32)]),
    Sample(
        "a scalar to a scalar",
        [np.float32(7), np.zeros((0,), np.int64)],
        [np.float32(7)],
        openvino="cannot read an empty constant",
    ),
    Sample(
        "to nothing",
        [np.ones((1, 2), np.float32), np.array([0, 2])],
        [np.zeros((0, 2), np.float32)],
    ),
    Sample(
        "explicit: a scalar",
        [np.float32(7), np.array([2]), np.zeros((0,), np.int64)],
        [np.array([7, 7], np.float32)],
        EXPLICIT,
    ),
    Sample(
        "explicit: 1 stretches",
        [np.ones((1, 2), np.int32), np.array([3, 2]), np.array([0, 1])],
        [np.ones((3, 2), np.int32)],
        EXPLICIT,
    ),
    Sample(
        "strings",
        [np.array([["a"], ["日本"]], object), np.array([2, 2])],
        [np.array([["a", "a"], ["日本", "日本"]], object)],
        openvino="not for strings",
    ),
    Sample(
        "a third input that is not asked for",
        [np.array([5]), np.array([2]), np.zeros((1,), np.uint8)],
        [np.array([5, 5])],
        openvino="refuses it in version 3",
    ),
]
EXAMPLES_3 = [
    Sample(
        "page example 4: bidirectional",
        [COLUMN, np.array([1, 1, 3, 3])],
        [filled(1, 2, 3, 3)],
        BOTH,
    ),
    Sample(
        "bidirectional: the target is shorter",
        [COLUMN, np.array([3])],
        [np.array([[[1] * 3], [[2] * 3]], np.float32)],
        BOTH,
    ),
    Sample(
        "bidirectional: an empty target",
        [COLUMN, np.zeros((0,), np.int64)],
        [COLUMN],
        BOTH,
        openvino="refuses it",
    ),
]
REFUSALS = [
    Refusal(
        "negative size",
        [COLUMN, np.array([2, -1, 1])],
        r"'target_shape': expected no negative sizes, got \[2, -1, 1\]",
    ),
    Refusal(
        "rank",
        [COLUMN, np.array([2, 1])],
        r"data \[2,1,1\] has more dimensions than target_shape \[2, 1\]",
    ),
    Refusal(
        "does not stretch",
        [COLUMN, np.array([1, 1, 3])],
        r"data \[2,1,1\] does not stretch to target_shape \[1, 1, 3\] at axis 0",
    ),
    Refusal(
        "no mapping",
        [COLUMN, np.array([2, 1, 1])],
        "mode explicit needs the input 'axes_mapping'",
        EXPLICIT,
    ),
    Refusal(
        "short mapping",
        [COLUMN, np.array([2, 1, 1]), np.array([0])],
        r"an axis for each dimension of data \[2,1,1\]",
        EXPLICIT,
    ),
    Refusal(
        "falling",
        [COLUMN, np.array([2, 1, 1]), np.array([0, 2, 1])],
        r"rising axes within 0..2, got \[0, 2, 1\]",
        EXPLICIT,
    ),
    Refusal(
        "outside",
        [COLUMN, np.array([2, 1, 1]), np.array([0, 1, 3])],
        r"rising axes within 0..2, got \[0, 1, 3\]",
        EXPLICIT,
    ),
    Refusal(
        "explicit size",
        [COLUMN, np.array([3, 1, 1]), np.array([0, 1, 2])],
        r"does not stretch to target_shape \[3, 1, 1\] at axis 0",
        EXPLICIT,
    ),
    Refusal(
        "scalar target",
        [COLUMN, np.int64(1)],
        r"'target_shape': expected a 1-D tensor, got shape \[\]",
    ),
]
REFUSALS_3 = [
    Refusal(
        "bidirectional",
        [COLUMN, np.array([3, 1, 1])],
        r"numpy broadcasting, got 'data' \[2,1,1\], 'target_shape' \[3,1,1\]",
        BOTH,
    ),
]


@st.composite
def cases(draw: st.DrawFn, modes: list[str]) -> Case:
    mode = draw(st.sampled_from(modes))
    target = draw(shapes(max_side=3))
    rank = draw(st.integers(0, len(target)))
    axes = (
        sorted(draw(st.permutations(range(len(target))))[:rank])
        if mode in ("explicit", "none")
        else range(len(target) - rank, len(target))
    )
    shape = tuple(1 if draw(st.booleans()) else target[a] for a in axes)
    data, name = draw(arrays(shape))
    wanted = [1 if mode == "bidirectional" and draw(st.booleans()) else s for s in target]
    if mode == "bidirectional":
        wanted = wanted[draw(st.integers(0, len(wanted))) :]
    more = [np.array(axes, np.int32)] if mode in ("explicit", "none") else []
    return Case([data, np.array(wanted, np.int64), *more], {"mode": mode}, [name])


def loop(case: Case) -> list[np.ndarray]:
    """Each element of the output comes from the element of data at the mapped axes, where a 1
    stands for every place.
    """
    data, target = case.inputs[0], [int(n) for n in case.inputs[1]]
    axes = (
        [int(a) for a in case.inputs[2]]
        if case.attributes["mode"] in ("explicit", "none")
        else None
    )
    if case.attributes["mode"] == "bidirectional":
        target = [1] * (data.ndim - len(target)) + target
        lead = len(target) - data.ndim
        target = target[:lead] + [
            t if s == 1 else s for s, t in zip(data.shape, target[lead:], strict=True)
        ]
    if axes is None:
        axes = list(range(len(target) - data.ndim, len(target)))
    output = np.empty(target, data.dtype)
    for place in itertools.product(*map(range, target)):
        output[place] = data[
            tuple(
                0 if size == 1 else place[axis] for size, axis in zip(data.shape, axes, strict=True)
            )
        ]
    return [output]


SAMPLES = [
    Samples(
        Broadcast3,
        EXAMPLES + EXAMPLES_3,
        REFUSALS + REFUSALS_3,
        cases(["numpy", "explicit", "bidirectional"]),
        loop,
    ),
    Samples(Broadcast1, EXAMPLES, REFUSALS, cases(["numpy", "explicit", "none"]), loop),
]
