"""Select-1."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import strategies as st

from tests.samples._arrays import arrays, shapes
from tests.samples._sample import Case, Refusal, Sample, Samples
from uncork.ops.select import Select1

MASK = np.array([[False, False], [True, False], [True, True]])
THEN = np.array([[-1, 0], [1, 2], [3, 4]], np.float32)
ELSE = np.array([[11, 10], [9, 8], [7, 6]], np.float32)
PICKED = np.array([[11, 10], [1, 8], [3, 4]], np.float32)

EXAMPLES = [
    Sample("page example", [MASK, THEN, ELSE], [PICKED]),
    Sample("without broadcasting", [MASK, THEN, ELSE], [PICKED], {"auto_broadcast": "none"}),
    Sample(
        "all three stretch",
        [np.array([[True], [False]]), np.array([1, 2, 3]), np.int64(0)],
        [np.array([[1, 2, 3], [0, 0, 0]])],
    ),
    Sample(
        "cond stretches",
        [np.array([True, False]), THEN, ELSE],
        [np.array([[-1, 10], [1, 8], [3, 6]], np.float32)],
    ),
    Sample(
        "pdpd stretches to then",
        [np.array([True, False]), THEN, np.array([[5, 6]], np.float32)],
        [np.array([[-1, 6], [1, 6], [3, 6]], np.float32)],
        {"auto_broadcast": "pdpd"},
    ),
    Sample(
        "pdpd from an axis",
        [np.array([True, False, True]), THEN, np.array([7, 8, 9], np.float32)],
        [np.array([[-1, 0], [8, 8], [3, 4]], np.float32)],
        {"auto_broadcast": "pdpd", "auto_broadcast_axis": 0},
        openvino="not on the CPU",
    ),
    Sample(
        "the other side's NaN does not matter",
        [np.array([True, False]), np.array([1, np.nan]), np.array([np.nan, 2.0])],
        [np.array([1.0, 2.0])],
    ),
    Sample(
        "strings",
        [np.array([True, False]), np.array(["a", "b"], object), np.array("日本", object)],
        [np.array(["a", "日本"], object)],
        openvino="not for strings",
    ),
    Sample(
        "64-bit integers",
        [np.array([True, False]), np.array([2**62 + 1, 0]), np.int64(-(2**62) - 1)],
        [np.array([2**62 + 1, -(2**62) - 1])],
        openvino="narrows to 32 bits",
    ),
]
REFUSALS = [
    Refusal(
        "shapes",
        [MASK, THEN, ELSE[:2]],
        r"numpy broadcasting, got 'then' \[3,2\], 'else' \[2,2\], 'cond' \[3,2\]",
    ),
    Refusal(
        "no broadcasting",
        [MASK, THEN, ELSE[:1]],
        "no broadcasting, got",
        {"auto_broadcast": "none"},
    ),
    Refusal(
        "pdpd does not stretch then",
        [MASK, THEN[:1], ELSE],
        "pdpd broadcasting to 'then'",
        {"auto_broadcast": "pdpd"},
    ),
    Refusal(
        "cond of another type",
        [MASK.astype(np.uint8), THEN, ELSE],
        "'cond' .port 0.: expected boolean, got u8",
    ),
    Refusal("types", [MASK, THEN, ELSE.astype(np.float64)], "expected f32 as 'then' has, got f64"),
]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    mode = draw(st.sampled_from(["numpy", "none", "pdpd"]))
    target = draw(shapes(max_side=3))
    own = []
    for position in range(3):
        keeps = mode == "none" or (mode == "pdpd" and position == 1)
        shape = target if keeps else tuple(1 if draw(st.booleans()) else s for s in target)
        own.append(shape if keeps else shape[draw(st.integers(0, len(shape))) :])
    name = draw(arrays(()))[1]
    mask, then, other = (
        draw(arrays(s, (t,)))[0] for s, t in zip(own, ("boolean", name, name), strict=True)
    )
    return Case([mask, then, other], {"auto_broadcast": mode}, [None, name, name])


def loop(case: Case) -> list[np.ndarray]:
    rank = max(a.ndim for a in case.inputs)
    padded = [(1,) * (rank - a.ndim) + a.shape for a in case.inputs]
    shape = [next((s for s in sizes if s != 1), 1) for sizes in zip(*padded, strict=True)]
    output = np.empty(shape, case.inputs[1].dtype)
    for place in itertools.product(*map(range, shape)):
        mask, then, other = (
            a[tuple(0 if s == 1 else p for p, s in zip(place, sizes, strict=True))[rank - a.ndim :]]
            for a, sizes in zip(case.inputs, padded, strict=True)
        )
        output[place] = then if mask else other
    return [output]


SAMPLES = [Samples(Select1, EXAMPLES, REFUSALS, cases(), loop)]
