"""CTCLoss-4: against the page's definition, every path of the right length tried one by one."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.samples._arrays import FLOATS, arrays
from tests.samples._sample import Case, Refusal, Sample, Samples
from uncork import storage
from uncork.ops.ctc_loss import CTCLoss4

INF = math.inf


def call(
    steps: int, labels: list[int], logit_length: int, label_length: int, classes: int = 3
) -> list[Any]:
    """One row of equal logits: every path of n steps has the probability classes ** -n."""
    padded = np.array([labels + [0] * (steps - len(labels))])
    return [
        np.zeros((1, steps, classes), "f4"),
        np.array([logit_length]),
        padded,
        np.array([label_length]),
    ]


def paths(count: int, steps: int, classes: int = 3) -> list[np.ndarray]:
    return [np.array([steps * math.log(classes) - math.log(count)], np.float32)]


HALF = np.log(np.array([[[0.5, 0.25, 0.25], [0.25, 0.25, 0.5]]], np.float32))
EXAMPLES = [
    # 0 is spelled in two steps by 00, 0-, -0
    Sample("three paths", call(2, [0], 2, 1), paths(3, 2)),
    Sample(
        "two paths without merging: 0- and -0",
        call(2, [0], 2, 1),
        paths(2, 2),
        {"ctc_merge_repeated": False},
    ),
    # .5*.25 (00) + .5*.5 (0-) + .25*.25 (-0) = 7/16
    Sample(
        "weighted paths",
        [HALF, np.array([2]), np.array([[0, 0]]), np.array([1])],
        [np.array([math.log(16 / 7)], np.float32)],
    ),
    # 0 1: 001 011 0-1 01- -01
    Sample("two labels in three steps", call(3, [0, 1], 3, 2), paths(5, 3)),
    # 0 0: only 0-0
    Sample("a repeated label needs a blank between", call(3, [0, 0], 3, 2), paths(1, 3)),
    # 00-, 0-0, -00
    Sample(
        "a repeated label without merging",
        call(3, [0, 0], 3, 2),
        paths(3, 3),
        {"ctc_merge_repeated": False},
    ),
    Sample("no path is an infinite loss", call(2, [0, 0], 2, 2), [np.array([INF], "f4")]),
    # as for the single 0: 000 00- 0-- -00 --0 -0- and no others
    Sample(
        "repeated labels collapsed",
        call(3, [0, 0, 0], 3, 3),
        paths(6, 3),
        {"preprocess_collapse_repeated": True},
    ),
    # 0 1 0 -> 0 1
    Sample("unique labels", call(3, [0, 1, 0], 3, 3), paths(5, 3), {"unique": True}),
    Sample(
        "collapsed, not unique: only 0 1 0 itself",
        call(3, [0, 1, 0], 3, 3),
        paths(1, 3),
        {"preprocess_collapse_repeated": True},
    ),
    Sample("what lies past the lengths is not read", call(5, [0, -7, 99], 2, 1), paths(3, 2)),
    Sample(
        "logits past the length may be NaN",
        [
            np.concatenate([HALF, np.full((1, 1, 3), np.nan, "f4")], axis=1),
            np.array([2]),
            np.array([[0, 0, 0]]),
            np.array([1]),
        ],
        [np.array([math.log(16 / 7)], np.float32)],
    ),
    Sample(
        "no labels: only blanks",
        call(2, [], 2, 0),
        paths(1, 2),
        openvino="OpenVINO reads past its arrays",
    ),
    Sample(
        "no labels, no steps",
        call(2, [], 0, 0),
        [np.array([0], "f4")],
        openvino="OpenVINO reads past its arrays",
    ),
    # blank 0, label 2: 22 2- -2
    Sample("another blank", [*call(2, [2], 2, 1), np.array(0)], paths(3, 2)),
    Sample(
        "integers of several types",
        [*call(2, [2], 2, 1)[:3], np.array([1], "i4"), np.int32(0)],
        paths(3, 2),
    ),
    Sample(
        "large logits",
        [np.array([[[1000.0, 0, 999]]], "f4"), np.array([1]), np.array([[0]]), np.array([1])],
        [np.array([0.3132616875], "f4")],  # ln(1 + 1/e)
        openvino="OpenVINO overflows",
    ),
    Sample(
        "the page's shapes: one class is certain",
        [
            np.eye(128, dtype="f4")[np.tile(np.arange(20), (8, 1))] * 100,
            np.full(8, 20, "i4"),
            np.tile(np.arange(20, dtype="i4"), (8, 1)),
            np.full(8, 20, "i4"),
            np.int32(120),
        ],
        [np.zeros(8, "f4")],
        atol=1e-4,
        openvino="OpenVINO overflows",
    ),
]
GOOD = call(3, [0, 1], 3, 2)


def changed(place: int, *values: Any) -> list[Any]:
    return [*GOOD[:place], np.array(values), *GOOD[place + 1 :]]


REFUSALS = [
    Refusal(
        "logit_length past the steps",
        changed(1, 4),
        r"logit_length\[0\] is 4, expected 0 to 3 \(T\)",
    ),
    Refusal("negative logit_length", changed(1, -1), r"logit_length\[0\] is -1"),
    Refusal("negative label_length", changed(3, -1), r"label_length\[0\] is -1"),
    Refusal(
        "label_length past the steps", changed(3, 4), r"label_length\[0\] is 4, expected 0 to 3"
    ),
    Refusal(
        "more labels than steps",
        changed(1, 1),
        r"label_length\[0\] is 2, expected at most logit_length",
    ),
    Refusal("no such label", changed(2, [0, 3, 0]), r"labels\[0, 1\] is 3, expected 0 to 2"),
    Refusal("negative label", changed(2, [-1, 1, 0]), r"labels\[0, 0\] is -1"),
    Refusal("64-bit label", changed(2, [0, 2**32, 0]), r"labels\[0, 1\] is 4294967296"),
    Refusal(
        "a label is blank",
        changed(2, [0, 2, 0]),
        r"labels\[0, 1\] is 2, expected a class other than blank \(2\)",
    ),
    Refusal("no such blank", [*GOOD, np.array(3)], "blank_index is 3, expected a class, 0 to 2"),
    Refusal(
        "blank in one element",
        [*GOOD, np.array([1])],
        r"'blank_index': expected a scalar, got shape \[1\]",
    ),
    Refusal(
        "labels of another width",
        changed(2, [0, 1]),
        r"'labels': expected \[N = 1, T = 3\], got \[1,2\]",
    ),
    Refusal(
        "no classes",
        [np.zeros((1, 3, 0), "f4"), *GOOD[1:]],
        "'logits': expected at least one class",
    ),
    Refusal(
        "integer logits",
        [GOOD[0].astype("i4"), *GOOD[1:]],
        "'logits' .port 0.: expected a floating-point type",
    ),
]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    rows, steps, classes = draw(st.integers(0, 2)), draw(st.integers(0, 4)), draw(st.integers(1, 3))
    data, name = draw(arrays((rows, steps, classes), FLOATS, -2, 2))
    blank = draw(st.integers(0, classes - 1))
    given = blank != classes - 1 or draw(st.booleans())
    logit_length = [draw(st.integers(0, steps)) for _ in range(rows)]
    label_length = [draw(st.integers(0, n)) if classes > 1 else 0 for n in logit_length]
    usable = [c for c in range(classes) if c != blank] or [0]
    labels = [[draw(st.sampled_from(usable)) for _ in range(steps)] for _ in range(rows)]
    dtype = draw(st.sampled_from(["i4", "i8"]))
    inputs = [
        data,
        np.array(logit_length, dtype),
        np.array(labels, dtype).reshape(rows, steps),
        np.array(label_length, dtype),
    ]
    if given:
        inputs.append(np.array(blank, dtype))
    flags = {
        n: draw(st.booleans())
        for n in ("preprocess_collapse_repeated", "ctc_merge_repeated", "unique")
    }
    return Case(inputs, flags, [name])


def loop(case: Case) -> list[np.ndarray]:
    """The page's definition: all paths S of logit_length classes whose decoding is the target."""
    logits, logit_length, labels, label_length, *blanks = (
        storage.decode(a, t) for a, t in zip(case.inputs, case.types, strict=True)
    )
    blank = int(blanks[0]) if blanks else logits.shape[2] - 1
    losses = []
    for n in range(logits.shape[0]):
        target = [int(v) for v in labels[n, : int(label_length[n])]]
        if case.attributes["preprocess_collapse_repeated"]:
            target = [key for key, _ in itertools.groupby(target)]
        if case.attributes["unique"]:
            target = list(dict.fromkeys(target))
        steps = []
        for t in range(int(logit_length[n])):
            weights = [math.exp(float(v)) for v in logits[n, t]]
            steps.append([w / math.fsum(weights) for w in weights])
        total = 0.0
        for path in itertools.product(range(logits.shape[2]), repeat=len(steps)):
            said = (
                [key for key, _ in itertools.groupby(path)]
                if case.attributes["ctc_merge_repeated"]
                else list(path)
            )
            if [c for c in said if c != blank] == target:
                total += math.prod(step[c] for step, c in zip(steps, path, strict=True))
        losses.append(-math.log(total) + 0.0 if total else INF)
    return [np.array(losses, np.float64)]


SAMPLES = [Samples(CTCLoss4, EXAMPLES, REFUSALS, cases(), loop)]
