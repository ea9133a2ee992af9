"""SegmentMax-16. Ids and numbers of segments are the page's where it gives them."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from tests.samples._arrays import FLOATS, INTEGERS, arrays, shapes
from tests.samples._sample import Case, Refusal, Sample, Samples
from uncork import storage
from uncork.ops.segment_max import SegmentMax16
from uncork.types import ElementType

ZERO = {"fill_mode": "zero"}
LOWEST = {"fill_mode": "lowest"}
I64 = np.int64
DATA = np.array([3, -7, -2, -5, -4], np.float32)
IDS = np.array([0, 0, 2, 3, 3], np.int32)
#: The lowest finite value of each type, from IEEE 754 and two's complement.
LEAST = {
    "f64": -(2.0 - 2.0**-52) * 2.0**1023,
    "f32": -(2.0**128 - 2.0**104),
    "f16": -65504.0,
    "bf16": -(2.0**128 - 2.0**120),
    **{f"i{bits}": -(2 ** (bits - 1)) for bits in (8, 16, 32, 64)},
    **{f"u{bits}": 0 for bits in (8, 16, 32, 64)},
}
EXAMPLES = [
    Sample(
        "the page's segments",
        [np.arange(8, dtype=np.float32), np.array([0, 0, 0, 1, 1, 3, 5, 5])],
        [np.array([2, 4, 0, 5, 0, 7], np.float32)],
        ZERO,
    ),
    Sample(
        "page example 1: fewer segments than ids",
        [DATA, IDS, I64(2)],
        [np.array([3, 0], np.float32)],
        ZERO,
    ),
    Sample(
        "page example 2: more segments",
        [DATA, IDS, I64(8)],
        [np.array([3, 0, -2, -4, 0, 0, 0, 0], np.float32)],
        ZERO,
    ),
    Sample(
        "page example 3: rows",
        [np.array([[1, -2, 3, 4], [5, 6, -7, 8], [-9, 7, -8, 0]], np.int32), np.array([0, 1, 1])],
        [np.array([[1, -2, 3, 4], [5, 7, -7, 8]], np.int32)],
        LOWEST,
    ),
    Sample("lowest f32", [DATA, IDS], [np.array([3, LEAST["f32"], -2, -4], np.float32)], LOWEST),
    Sample(
        "lowest f16",
        [DATA[:1].astype(np.float16), np.array([1])],
        [np.array([-65504, 3], np.float16)],
        LOWEST,
        openvino="gives -infinity",
    ),
    Sample(
        "lowest bf16",
        [np.array([0x4040], np.uint16), np.array([1])],
        [np.array([0xFF7F, 0x4040], np.uint16)],
        LOWEST,
        types=["bf16"],
        output_types=["bf16"],
    ),
    Sample(
        "lowest i64",
        [np.array([5]), np.array([1])],
        [np.array([-(2**63), 5])],
        LOWEST,
        openvino="gives the least i32",
    ),
    Sample(
        "lowest u8", [np.array([5], np.uint8), np.array([1])], [np.array([0, 5], np.uint8)], LOWEST
    ),
    Sample(
        "-infinity is a value",
        [np.float32([-np.inf]), np.array([0])],
        [np.float32([-np.inf])],
        ZERO,
        openvino="gives the lowest f32",
    ),
    Sample(
        "NaN is the maximum",
        [np.float32([1, np.nan, 2]), np.array([0, 0, 0])],
        [np.float32([np.nan])],
        ZERO,
        openvino="loses the NaN",
    ),
    Sample(
        "no rows",
        [np.zeros((0, 2), np.float32), np.zeros((0,), I64)],
        [np.zeros((0, 2), np.float32)],
        ZERO,
        openvino="refuses it",
    ),
    Sample(
        "no rows, some segments",
        [np.zeros((0, 2), np.float32), np.zeros((0,), I64), I64(2)],
        [np.zeros((2, 2), np.float32)],
        ZERO,
        openvino="returns uninitialised memory",
    ),
    Sample("no segments", [DATA, IDS, I64(0)], [np.zeros((0,), np.float32)], ZERO),
]
REFUSALS = [
    Refusal(
        "unsorted",
        [DATA, IDS[::-1].copy()],
        r"segment_ids\[2\] is 2, expected at least the one before it",
        ZERO,
    ),
    Refusal(
        "negative",
        [DATA[:2], np.array([-1, 0])],
        r"segment_ids\[0\] is -1, expected at least 0",
        ZERO,
    ),
    Refusal(
        "lengths",
        [DATA[:2], IDS],
        r"'segment_ids': expected an id for each row of data \[2\], got shape \[5\]",
        ZERO,
    ),
    Refusal(
        "a matrix of ids",
        [DATA, IDS[None]],
        r"'segment_ids': expected a 1-D tensor, got shape \[1,5\]",
        ZERO,
    ),
    Refusal("a scalar", [np.float32(1), IDS], "'data' is a scalar: it has no rows", ZERO),
    Refusal(
        "number of segments",
        [DATA, IDS, I64(-1)],
        "'num_segments' is -1, expected at least 0",
        ZERO,
    ),
    Refusal(
        "numbers of segments",
        [DATA, IDS, np.array([4])],
        r"'num_segments': expected a scalar, got shape \[1\]",
        ZERO,
    ),
    Refusal("too many segments", [DATA, IDS, I64(2**60)], "more than this machine's memory", ZERO),
    Refusal("no fill_mode", [DATA, IDS], "'fill_mode' is missing"),
]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    ids = sorted(draw(st.lists(st.integers(0, 5), max_size=6)))
    data, name = draw(arrays((len(ids), *draw(shapes(max_rank=2, max_side=3))), FLOATS + INTEGERS))
    inputs = [data, np.array(ids, draw(st.sampled_from([np.int32, np.int64])))]
    if draw(st.booleans()):
        inputs.append(
            np.array(draw(st.integers(0, 7)), draw(st.sampled_from([np.int32, np.int64])))
        )
    return Case(inputs, draw(st.sampled_from([ZERO, LOWEST])), [name])


def loop(case: Case) -> list[np.ndarray]:
    element_type = case.types[0]
    data, ids = storage.decode(case.inputs[0], element_type), case.inputs[1].tolist()
    count = int(case.inputs[2]) if len(case.inputs) == 3 else max(ids, default=-1) + 1
    fill = 0 if case.attributes == ZERO else LEAST[element_type.name]
    wide = np.float64 if element_type.is_float else element_type.dtype
    output = np.empty((count, *data.shape[1:]), wide)
    for segment, *place in np.ndindex(*output.shape):
        items = [data[(i, *place)].item() for i, s in enumerate(ids) if s == segment]
        output[(segment, *place)] = max(items, default=fill)
    return [storage.encode(output, element_type) if element_type is not ElementType.f64 else output]


SAMPLES = [Samples(SegmentMax16, EXAMPLES, REFUSALS, cases(), loop)]
