"""ReverseSequence-1. The page's example has shapes only."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import strategies as st

from tests.samples._arrays import arrays, integer_arrays, shapes
from tests.samples._sample import Case, Refusal, Sample, Samples
from uncork.ops.reverse_sequence import ReverseSequence1

DATA = np.array([[1, 2, 3], [4, 5, 6]], np.float32)

EXAMPLES = [
    Sample(
        "the axes by default",
        [DATA, np.array([2, 3], np.int32)],
        [np.array([[2, 1, 3], [6, 5, 4]], np.float32)],
    ),
    Sample(
        "axes the other way",
        [DATA, np.array([1, 2, 1])],
        [np.array([[1, 5, 3], [4, 2, 6]], np.float32)],
        {"batch_axis": 1, "seq_axis": -2},
    ),
    Sample(
        "float lengths",
        [DATA, np.array([1, 2], np.float32)],
        [np.array([[1, 2, 3], [5, 4, 6]], np.float32)],
    ),
    Sample("a length of 0", [DATA, np.array([0, 1])], [DATA]),
    Sample(
        "strings",
        [np.array([["a", "日本"]], object), np.array([2])],
        [np.array([["日本", "a"]], object)],
        openvino="not for strings",
    ),
]
REFUSALS = [
    Refusal(
        "too long",
        [DATA, np.array([1, 4])],
        r"seq_lengths\[1\] is 4, expected a whole number of 1 to 3",
    ),
    Refusal(
        "negative",
        [DATA, np.array([-1, 1])],
        r"seq_lengths\[0\] is -1, expected a whole number of 1 to 3",
    ),
    Refusal(
        "a fraction",
        [DATA, np.array([1, 1.5])],
        r"seq_lengths\[1\] is 1.5, expected a whole number",
    ),
    Refusal(
        "NaN", [DATA, np.array([1, np.nan])], r"seq_lengths\[1\] is nan, expected a whole number"
    ),
    Refusal(
        "strict: 0",
        [DATA, np.array([0, 1])],
        r"seq_lengths\[0\] is 0, expected a whole number of 1 to 3",
        strict=True,
    ),
    Refusal(
        "number of lengths",
        [DATA, np.array([1])],
        r"expected 2 lengths \(batch_axis of data \[2,3\]\), got shape \[1\]",
    ),
    Refusal(
        "scalar length",
        [DATA, np.int64(1)],
        r"'seq_lengths': expected a 1-D tensor, got shape \[\]",
    ),
    Refusal("rank", [DATA[0], np.array([1])], r"at least 2 dimensions, got shape \[3\]"),
    Refusal(
        "one axis",
        [DATA, np.array([1, 1])],
        "batch_axis 1 and seq_axis -1 are the same axis",
        {"batch_axis": 1, "seq_axis": -1},
    ),
    Refusal(
        "batch_axis",
        [DATA, np.array([1, 1])],
        r"batch_axis 2 is outside -2\.\.1",
        {"batch_axis": 2},
    ),
    Refusal(
        "seq_axis", [DATA, np.array([1, 1])], r"seq_axis -3 is outside -2\.\.1", {"seq_axis": -3}
    ),
]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    shape = draw(shapes(min_rank=2))
    batch, sequence = draw(st.permutations(range(len(shape))))[:2]
    lengths = draw(integer_arrays((shape[batch],), 0, shape[sequence], ("i4", "i8", "u1", "f4")))
    data, name = draw(arrays(shape))
    return Case([data, lengths], {"batch_axis": batch, "seq_axis": sequence - len(shape)}, [name])


def loop(case: Case) -> list[np.ndarray]:
    data, lengths = case.inputs
    batch, sequence = (case.attributes[n] % data.ndim for n in ("batch_axis", "seq_axis"))
    output = np.empty(data.shape, data.dtype)
    for place in itertools.product(*map(range, data.shape)):
        length = int(lengths[place[batch]])
        source = list(place)
        if place[sequence] < length:
            source[sequence] = length - 1 - place[sequence]
        output[place] = data[tuple(source)]
    return [output]


SAMPLES = [Samples(ReverseSequence1, EXAMPLES, REFUSALS, cases(), loop)]
