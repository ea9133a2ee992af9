"""TopK-1, -3, -11. The example of `sort = index` is that of the specification page; the rest is
hand work.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.samples._arrays import arrays, shapes
from tests.samples._elementwise import NUMBERS
from tests.samples._sample import Case, Refusal, Sample, Samples
from uncork import storage
from uncork.ops.topk import TopK1, TopK3, TopK11
from uncork.types import ElementType

ROW = np.array([5, 3, 1, 2, 5, 5], np.float32)
TABLE = np.array([[1, 9], [8, 2], [3, 4]], np.float32)
NARROW = "OpenVINO computes 64-bit types in 32 bits"
TIES = "OpenVINO may take any of equal elements"


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def i32(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def how(mode: str, sort: str = "value", axis: int = 0, **more: Any) -> dict[str, Any]:
    return {"axis": axis, "mode": mode, "sort": sort, **more}


K2 = np.array(2)
EXAMPLES = [
    Sample("largest", [f32(1, 7, 3), K2], [f32(7, 3), i32(1, 2)], how("max")),
    Sample("smallest", [f32(7, 1, 3), K2], [f32(1, 3), i32(1, 2)], how("min")),
    Sample(
        "page: by index",
        [ROW, np.array(4)],
        [f32(5, 3, 1, 2), i32(0, 1, 2, 3)],
        how("min", "index"),
        openvino=TIES,
    ),
    Sample("largest, by index", [f32(1, 7, 9), K2], [f32(7, 9), i32(1, 2)], how("max", "index")),
    Sample(
        "equal elements in order",
        [ROW, np.array(3)],
        [f32(5, 5, 5), i32(0, 4, 5)],
        how("max"),
        openvino=TIES,
    ),
    Sample(
        "no order is the order of values",
        [f32(1, 7, 3), K2],
        [f32(7, 3), i32(1, 2)],
        how("max", "none"),
    ),
    Sample(
        "columns",
        [TABLE, np.array([1])],
        [f32(8, 9)[None], i32(1, 0)[None]],
        how("max"),
        openvino="OpenVINO wants a scalar k",
    ),
    Sample(
        "rows",
        [TABLE, np.array(1, np.int8)],
        [f32(9, 8, 4)[:, None], i32(1, 0, 1)[:, None]],
        how("max", axis=-1),
    ),
    Sample(
        "i64 indices",
        [f32(1, 7), np.array(1)],
        [f32(7), np.array([1])],
        how("max", index_element_type=ElementType.i64),
    ),
    Sample(
        "a NaN is the largest",
        [f32(1, np.nan, 2), K2],
        [f32(np.nan, 2), i32(1, 2)],
        how("max"),
        openvino="OpenVINO puts a NaN anywhere",
    ),
    Sample(
        "a NaN is the last of the smallest",
        [f32(np.nan, 3, 2), K2],
        [f32(2, 3), i32(2, 1)],
        how("min"),
    ),
    Sample(
        "u64 in full width",
        [np.array([2**63, 2**63 + 1, 0], np.uint64), np.array(1)],
        [np.array([2**63 + 1], np.uint64), i32(1)],
        how("max"),
        openvino=NARROW,
    ),
    Sample(
        "lowest i8",
        [np.array([-128, 127], np.int8), np.array(1)],
        [np.array([127], np.int8), i32(1)],
        how("max"),
    ),
    Sample(
        "k = 0",
        [ROW, np.array(0)],
        [f32(), i32()],
        how("max"),
        openvino="the page wants at least 1",
    ),
]
REFUSALS = [
    Refusal(
        "k past the axis",
        [f32(1, 2), np.array(3)],
        "input 'k' is 3, expected 0 to 2, the size of axis 0",
        how("max"),
    ),
    Refusal(
        "negative k", [f32(1, 2), np.array(-1)], "input 'k' is -1, expected 0 to 2", how("max")
    ),
    Refusal(
        "two k",
        [f32(1, 2), np.array([1, 1])],
        r"'k': expected a scalar or one element, got shape \[2\]",
        how("max"),
    ),
    Refusal(
        "a float k",
        [f32(1, 2), f32(1)],
        r"'k' \(port 1\): expected an integer type .* got f32",
        how("max"),
    ),
    Refusal("axis", [f32(1, 2), K2], r"axis 1 is outside -1\.\.0 for rank 1", how("max", axis=1)),
    Refusal(
        "type of the indices",
        [f32(1, 2), K2],
        "'index_element_type': expected i32 or i64, got u8",
        how("max", index_element_type=ElementType.u8),
    ),
    Refusal(
        "no mode",
        [f32(1, 2), K2],
        "attribute 'mode' is missing: expected one of min, max",
        {"axis": 0, "sort": "value"},
    ),
    Refusal(
        "strings",
        [np.array(["a"], object), K2],
        r"'data' \(port 0\): expected one of .* got string",
        how("max"),
    ),
]


@st.composite
def cases(draw: st.DrawFn, stable: bool) -> Case:
    shape = draw(shapes(min_rank=1, max_rank=3))
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    data, name = draw(arrays(shape, NUMBERS, -1, 1))
    k = draw(st.integers(0, shape[axis]))
    attributes = how(
        draw(st.sampled_from(["min", "max"])),
        draw(st.sampled_from(["value", "index", "none"])),
        axis,
    )
    if stable:
        attributes["stable"] = draw(st.booleans())
    return Case(
        [data, np.array(k, draw(st.sampled_from([np.uint8, np.int32, np.int64])))],
        attributes,
        [name],
    )


def loop(case: Case) -> list[np.ndarray]:
    """Repeatedly the best of what is left, the first of equals."""
    data, k = case.inputs
    exact = storage.decode(data, case.types[0])
    axis, mode, sort = (
        case.attributes["axis"] % data.ndim,
        case.attributes["mode"],
        case.attributes["sort"],
    )
    shape = (*data.shape[:axis], int(k), *data.shape[axis + 1 :])
    values, indices = np.empty(shape, data.dtype), np.empty(shape, np.int32)
    for place in np.ndindex(*data.shape[:axis], *data.shape[axis + 1 :]):
        lead, tail = place[:axis], place[axis:]
        row = [exact[(*lead, i, *tail)].item() for i in range(data.shape[axis])]
        left, chosen = list(range(len(row))), []
        for _ in range(int(k)):
            best = left[0]
            for i in left:
                if (row[i] > row[best]) if mode == "max" else (row[i] < row[best]):
                    best = i
            left.remove(best)
            chosen.append(best)
        for j, i in enumerate(sorted(chosen) if sort == "index" else chosen):
            values[(*lead, j, *tail)], indices[(*lead, j, *tail)] = data[(*lead, i, *tail)], i
    return [values, indices]


STABLE = Sample(
    "stable",
    [ROW, np.array(4)],
    [f32(5, 3, 1, 2), i32(0, 1, 2, 3)],
    how("min", "index", stable=True),
)
SAMPLES = [
    Samples(TopK1, EXAMPLES, REFUSALS, cases(False), loop),
    Samples(TopK3, EXAMPLES, REFUSALS, cases(False), loop),
    Samples(TopK11, [STABLE, *EXAMPLES], REFUSALS, cases(True), loop),
]
