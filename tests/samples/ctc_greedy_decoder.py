"""CTCGreedyDecoder-1 and CTCGreedyDecoderSeqLen-6. The sequence ABB*B*B is the example of the
second page.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.samples._arrays import FLOATS, arrays
from tests.samples._sample import Case, Refusal, Sample, Samples
from uncork import storage
from uncork.ops.ctc_greedy_decoder import CTCGreedyDecoder1, CTCGreedyDecoderSeqLen6
from uncork.types import ElementType

A, B, BLANK = 0, 1, 2


def logits(*rows: list[int], classes: int = 3) -> np.ndarray:
    """[N, T, C] where the most probable class of each step is the one given."""
    return np.array(
        [[[2.5 if c == best else -1.0 for c in range(classes)] for best in row] for row in rows],
        np.float32,
    )


def i32(*values: Any) -> np.ndarray:
    return np.array(values, np.int32)


ABB = [A, B, B, BLANK, B, BLANK, B]
I64 = {"classes_index_type": ElementType.i64, "sequence_length_type": ElementType.i64}
LENGTHS = [
    Sample("page: repeats merged", [logits(ABB), i32(7)], [i32([A, B, B, B, -1, -1, -1]), i32(4)]),
    Sample(
        "page: repeats kept",
        [logits(ABB), i32(7)],
        [i32([A, B, B, B, B, -1, -1]), i32(5)],
        {"merge_repeated": False},
    ),
    Sample(
        "steps past a row's length are not read",
        [logits(ABB, ABB), i32(3, 5)],
        [i32([A, B] + [-1] * 5, [A, B, B] + [-1] * 4), i32(2, 3)],
    ),
    Sample(
        "padding of NaN",
        [np.concatenate([logits(ABB), np.full((1, 1, 3), np.nan, "f4")], axis=1), i32(7)],
        [i32([A, B, B, B, -1, -1, -1, -1]), i32(4)],
    ),
    Sample("length 0", [logits(ABB), i32(0)], [np.full((1, 7), -1, "i4"), i32(0)]),
    Sample("only blanks", [logits([BLANK] * 3), i32(3)], [i32([-1, -1, -1]), i32(0)]),
    # The sequence is B, 2 between blanks A.
    Sample(
        "another blank", [logits(ABB), i32(7), np.int32(A)], [i32([B, 2, B, 2, B, -1, -1]), i32(5)]
    ),
    Sample(
        "blank in one element",
        [logits(ABB), i32(7), i32(A)],
        [i32([B, 2, B, 2, B, -1, -1]), i32(5)],
    ),
    Sample(
        "blank of another integer type",
        [logits(ABB), np.array([7]), np.int32(A)],
        [i32([B, 2, B, 2, B, -1, -1]), i32(5)],
    ),
    Sample(
        "the first of equal classes", [np.zeros((1, 2, 3), "f4"), i32(2)], [i32([A, -1]), i32(1)]
    ),
    Sample(
        "64-bit outputs",
        [logits(ABB), np.array([7])],
        [np.array([[A, B, B, B, -1, -1, -1]]), np.array([4])],
        I64,
    ),
    Sample(
        "outputs of two types",
        [logits(ABB), np.array([7])],
        [np.array([[A, B, B, B, -1, -1, -1]]), i32(4)],
        {"classes_index_type": ElementType.i64},
    ),
    Sample(
        "no rows",
        [np.zeros((0, 3, 2), "f4"), np.zeros(0, "i4")],
        [np.zeros((0, 3), "i4"), np.zeros(0, "i4")],
    ),
    Sample(
        "the page's shapes",
        [np.eye(128, dtype="f4")[np.tile(np.arange(20), (8, 1))], np.full(8, 20), np.array(120)],
        [np.tile(np.arange(20), (8, 1)), np.full(8, 20)],
        I64,
    ),
]
LENGTH_REFUSALS = [
    Refusal(
        "length past the steps",
        [logits(ABB), i32(8)],
        r"sequence_length\[0\] is 8, expected 0 to 7 \(T\)",
    ),
    Refusal("negative length", [logits(ABB, ABB), i32(1, -1)], r"sequence_length\[1\] is -1"),
    Refusal(
        "blank past the classes",
        [logits(ABB), i32(7), np.int32(3)],
        "blank_index is 3, expected a class, 0 to 2",
    ),
    Refusal(
        "negative blank",
        [logits(ABB), i32(7), i32(-1)],
        r"blank_index\[0\] is -1, expected a class, 0 to 2",
    ),
    Refusal(
        "two blanks",
        [logits(ABB), i32(7), i32(1, 2)],
        r"'blank_index': expected a scalar or one element, got shape \[2\]",
    ),
    Refusal(
        "no classes",
        [np.zeros((1, 2, 0), "f4"), i32(2)],
        r"'data': expected at least one class, got \[1,2,0\]",
    ),
    Refusal(
        "lengths of another batch",
        [logits(ABB), i32(7, 7)],
        r"'sequence_length': expected \[N = 1\], got \[2\]",
    ),
    Refusal(
        "rank 2",
        [logits(ABB)[0], i32(7)],
        r"'data': expected \[N = \?, T = \?, C = \?\], got \[7,3\]",
    ),
    Refusal(
        "unsigned lengths",
        [logits(ABB), np.array([7], "u4")],
        "'sequence_length' .port 1.: expected one of i64, i32, got u32",
    ),
    Refusal(
        "output type",
        [logits(ABB), i32(7)],
        "'classes_index_type': expected i32 or i64, got f32",
        {"classes_index_type": ElementType.f32},
    ),
    Refusal(
        "length type",
        [logits(ABB), i32(7)],
        "'sequence_length_type': expected i32 or i64, got u8",
        {"sequence_length_type": ElementType.u8},
    ),
]


def masked(data: np.ndarray, *mask: list[float]) -> list[np.ndarray]:
    """[T, N, C] and [T, N]."""
    return [data.swapaxes(0, 1).copy(), np.array(mask, np.float32).T.copy()]


def column(*rows: list[float], dtype: Any = np.float32) -> np.ndarray:
    return np.array(rows, dtype)[..., None, None]


MASKS = [
    Sample("repeats merged", masked(logits(ABB), [1] * 7), [column([A, B, B, B, -1, -1, -1])]),
    Sample(
        "repeats kept",
        masked(logits(ABB), [1] * 7),
        [column([A, B, B, B, B, -1, -1])],
        {"ctc_merge_repeated": False},
    ),
    Sample(
        "two lengths",
        masked(logits(ABB, ABB), [1] * 3 + [0] * 4, [0] * 7),
        [column([A, B] + [-1] * 5, [-1] * 7)],
    ),
    Sample(
        "nothing counts after the first 0",
        masked(logits(ABB), [1, 1, 0, 1, 1, 1, 1]),
        [column([A, B] + [-1] * 5)],
    ),
    Sample(
        "f64",
        [a.astype("f8") for a in masked(logits(ABB), [1] * 7)],
        [column([A, B, B, B, -1, -1, -1], dtype="f8")],
    ),
    Sample(
        "the page's shapes",
        [np.eye(128, dtype="f4")[np.tile(np.arange(20)[:, None], (1, 8))], np.ones((20, 8), "f4")],
        [np.tile(np.arange(20, dtype="f4"), (8, 1))[..., None, None]],
    ),
]
MASK_REFUSALS = [
    Refusal(
        "strict: 1 after a 0",
        masked(logits(ABB), [1, 1, 0, 1, 1, 1, 1]),
        r"sequence_mask\[3, 0\] is 1.0, expected 1 up to",
        strict=True,
    ),
    Refusal(
        "strict: a mask of 2",
        masked(logits(ABB), [1, 2, 1, 0, 0, 0, 0]),
        r"sequence_mask\[1, 0\] is 2.0",
        strict=True,
    ),
    Refusal(
        "mask of another batch",
        [masked(logits(ABB))[0], np.ones((7, 2), "f4")],
        r"'sequence_mask': expected \[T = 7, N = 1\], got \[7,2\]",
    ),
    Refusal(
        "integer mask",
        [masked(logits(ABB))[0], np.ones((7, 1), "i4")],
        "'sequence_mask' .port 1.: expected a floating-point type",
    ),
    Refusal(
        "no classes",
        [np.zeros((2, 1, 0), "f4"), np.ones((2, 1), "f4")],
        "'data': expected at least one class",
    ),
]


def decoded(steps: list[list[float]], blank: int, merge: bool) -> list[int]:
    path, before = [], -1
    for values in steps:
        best = 0
        for c, value in enumerate(values):
            if value > values[best]:
                best = c
        if best != blank and not (merge and best == before):
            path.append(best)
        before = best
    return path


@st.composite
def cases(draw: st.DrawFn, masks: bool) -> Case:
    rows, steps, classes = draw(st.integers(0, 3)), draw(st.integers(0, 5)), draw(st.integers(1, 3))
    lengths = [draw(st.integers(0, steps)) for _ in range(rows)]
    if masks:
        data, name = draw(arrays((steps, rows, classes), FLOATS, -1, 1))
        mask = np.array([[float(t < n) for n in lengths] for t in range(steps)]).reshape(
            steps, rows
        )
        return Case(
            [data, storage.encode(mask, ElementType.parse(name))],
            {"ctc_merge_repeated": draw(st.booleans())},
            [name, name],
        )
    data, name = draw(arrays((rows, steps, classes), FLOATS, -1, 1))
    inputs: list[Any] = [data, np.array(lengths, draw(st.sampled_from(["i4", "i8"])))]
    if draw(st.booleans()):
        inputs.append(
            np.array(draw(st.integers(0, classes - 1)), draw(st.sampled_from(["i4", "i8"])))
        )
    kinds = st.sampled_from([ElementType.i32, ElementType.i64])
    return Case(
        inputs,
        {
            "merge_repeated": draw(st.booleans()),
            "classes_index_type": draw(kinds),
            "sequence_length_type": draw(kinds),
        },
        [name],
    )


def loop_masks(case: Case) -> list[np.ndarray]:
    data, mask = (storage.decode(a, t) for a, t in zip(case.inputs, case.types, strict=True))
    steps, rows, classes = data.shape
    output = np.full((rows, steps, 1, 1), -1.0)
    for n in range(rows):
        length = 0
        while length < steps and mask[length, n]:
            length += 1
        for place, value in enumerate(
            decoded(data[:length, n].tolist(), classes - 1, case.attributes["ctc_merge_repeated"])
        ):
            output[n, place, 0, 0] = value
    return [output.astype(data.dtype)]


def loop_lengths(case: Case) -> list[np.ndarray]:
    data, lengths, *blanks = (
        storage.decode(a, t) for a, t in zip(case.inputs, case.types, strict=True)
    )
    rows, steps, classes = data.shape
    blank = int(blanks[0]) if blanks else classes - 1
    output = np.full((rows, steps), -1, case.attributes["classes_index_type"].dtype)
    counts = np.zeros(rows, case.attributes["sequence_length_type"].dtype)
    for n in range(rows):
        path = decoded(
            data[n, : int(lengths[n])].tolist(), blank, case.attributes["merge_repeated"]
        )
        counts[n] = len(path)
        for place, value in enumerate(path):
            output[n, place] = value
    return [output, counts]


SAMPLES = [
    Samples(CTCGreedyDecoder1, MASKS, MASK_REFUSALS, cases(True), loop_masks),
    Samples(CTCGreedyDecoderSeqLen6, LENGTHS, LENGTH_REFUSALS, cases(False), loop_lengths),
]
