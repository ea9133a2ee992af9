"""ScatterNDUpdate-4 (-3 by its page), -15. The numbered examples are those of the pages."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import strategies as st

from tests.samples._arrays import arrays, integer_arrays, shapes
from tests.samples._sample import Case, Refusal, Sample, Samples
from uncork import storage
from uncork.ops.scatter_nd_update import ScatterNDUpdate4, ScatterNDUpdate15

I64 = np.int64
F32 = np.float32
UP = [[1, 2, 3, 4], [5, 6, 7, 8], [8, 7, 6, 5], [4, 3, 2, 1]]
DOWN = [[8, 7, 6, 5], [4, 3, 2, 1], [1, 2, 3, 4], [5, 6, 7, 8]]
FIRST = [[5] * 4, [6] * 4, [7] * 4, [8] * 4]
SECOND = [[1] * 4, [2] * 4, [3] * 4, [4] * 4]
FIVE = np.array([[0], [2], [-3], [-3], [0]], np.int32)
TENS = [10, 20, 30, 40, 50]


def five(reduction: str, dtype: type, expected: list[int]) -> Sample:
    """Examples 1 to 4 of the page of version 15; its 20 of none and its 3600 and 40 of prod are
    corrected.
    """
    data, updates = np.array([1, 2, 3, 4], dtype), np.array(TENS, dtype)
    return Sample(
        f"page: {reduction}",
        [data, FIVE, updates],
        [np.array(expected, dtype)],
        {"reduction": reduction},
    )


BOTH = [
    Sample(
        "page of version 3, example 1",
        [np.arange(1.0, 9), np.array([[4], [3], [1], [7]]), np.arange(9.0, 13)],
        [np.array([1.0, 11, 3, 10, 9, 6, 7, 12])],
    ),
    Sample(
        "page: two slices",
        [np.array([UP, UP, DOWN, DOWN], F32), np.array([[0], [2]]), np.array([FIRST, SECOND], F32)],
        [np.array([FIRST, UP, SECOND, DOWN], F32)],
    ),
    Sample(
        "one tuple, the update a scalar",
        [np.zeros((2, 2)), np.array([1, 0]), np.float64(7)],
        [np.array([[0.0, 0], [7, 0]])],
    ),
    Sample(
        "one tuple, the update in an element",
        [np.zeros((2, 2)), np.array([1, 0]), np.array([7.0])],
        [np.array([[0.0, 0], [7, 0]])],
        openvino="refuses it",
    ),
    Sample(
        "nothing to update",
        [np.arange(3.0), np.zeros((0, 1), I64), np.zeros(0)],
        [np.arange(3.0)],
        openvino="refuses it",
    ),
    Sample(
        "empty tuples name everything",
        [np.arange(2), np.zeros((2, 0), I64), np.array([[3, 4], [5, 6]])],
        [np.array([5, 6])],
        openvino="refuses it",
    ),
    Sample(
        "strings",
        [np.array(["a", "b"], object), np.array([[1]]), np.array(["日本"], object)],
        [np.array(["a", "日本"], object)],
        openvino="not for strings",
    ),
]
ONLY_15 = [
    Sample(
        "page example with negative indices, its 4 and 9 corrected",
        [np.arange(1.0, 9), np.array([[4], [3], [1], [7], [-2], [-4]]), np.arange(9.0, 15)],
        [np.array([1.0, 11, 3, 10, 14, 6, 13, 12])],
    ),
    five("none", F32, [50, 40, 20, 4]),
    five("sum", np.float16, [61, 72, 23, 4]),
    five("sub", np.int32, [-59, -68, -17, 4]),
    five("prod", F32, [500, 2400, 60, 4]),
    five("min", np.int64, [1, 2, 3, 4]),
    five("max", np.uint8, [50, 40, 20, 4]),
    Sample(
        "slices are summed",
        [np.ones((2, 2)), np.array([[1], [1]]), np.array([[1.0, 2], [3, 4]])],
        [np.array([[1.0, 1], [5, 7]])],
        {"reduction": "sum"},
    ),
    Sample(
        "booleans: sub is xor",
        [np.array([True, True, False]), np.array([[0], [1], [2]]), np.array([True, False, True])],
        [np.array([False, True, True])],
        {"reduction": "sub"},
    ),
    Sample(
        "booleans: sum is or, prod and",
        [np.array([True, False]), np.array([[0], [1]]), np.array([False, True])],
        [np.array([True, True])],
        {"reduction": "sum"},
    ),
]
REFUSALS = [
    Refusal(
        "too large",
        [np.zeros((2, 3)), np.array([[1, 3]]), np.zeros(1)],
        r"indices\[0, 1\] is 3, expected (-3|0) to 2",
    ),
    Refusal(
        "long tuples",
        [np.zeros(3), np.array([[0, 0]]), np.zeros(1)],
        r"at most 1 indices a tuple \(data \[3\]\), got indices \[1,2\]",
    ),
    Refusal(
        "updates",
        [np.zeros((2, 3)), np.array([[0]]), np.zeros((1, 2))],
        r"'updates': expected shape \[1,3\], got \[1,2\]",
    ),
    Refusal(
        "scalar data",
        [np.float64(1), np.array([0]), np.float64(1)],
        "'data': expected at least one dimension",
    ),
    Refusal(
        "scalar indices",
        [np.zeros(3), I64(0), np.float64(1)],
        "'indices': expected at least one dimension",
    ),
]
NEGATIVE = [
    Refusal(
        "negative",
        [np.zeros(3), np.array([[-1]]), np.zeros(1)],
        r"indices\[0, 0\] is -1, expected 0 to 2",
    )
]
REDUCING = [
    Refusal(
        "strings",
        [np.array(["a"], object), np.array([[0]]), np.array(["b"], object)],
        "reduction sum is not defined for string",
        {"reduction": "sum"},
    ),
]


@st.composite
def cases(draw: st.DrawFn, reducing: bool) -> Case:
    shape = draw(shapes(min_rank=1, max_rank=3, max_side=3))
    size = draw(st.integers(0, len(shape)))
    middle = draw(shapes(max_rank=2, max_side=3))
    sides = shape[:size]
    middle = (*middle, 0) if 0 in sides else middle
    columns = [
        draw(integer_arrays(middle, -s if reducing else 0, max(s - 1, 0), ("i8",))) for s in sides
    ]
    indices = np.stack(columns, -1) if columns else np.zeros((*middle, 0), I64)
    reduction = (
        draw(st.sampled_from(["none", "sum", "sub", "prod", "min", "max"])) if reducing else "none"
    )
    types = ["f32", "i8", "i64", "u16", "f16", "bf16", "boolean", "u4"] + (
        ["string"] if reduction == "none" else []
    )
    data, name = draw(arrays(shape, tuple(types)))
    updates, _ = draw(arrays((*middle, *shape[size:]), (name,)))
    return Case(
        [data, indices, updates], {"reduction": reduction} if reducing else {}, [name, None, name]
    )


def loop(case: Case) -> list[np.ndarray]:
    data, indices, updates = case.inputs
    reduction, element_type = case.attributes.get("reduction", "none"), case.types[0]
    moves = reduction == "none"
    given, values = (a if moves else storage.decode(a, element_type) for a in (updates, data))
    output = values.astype(object)
    middle, size = indices.shape[:-1], indices.shape[-1]
    for place in itertools.product(*map(range, updates.shape)):
        i, rest = place[: len(middle)], place[len(middle) :]
        target = (*[int(indices[(*i, k)]) % data.shape[k] for k in range(size)], *rest)
        new, old = given[place], output[target]
        new = new if isinstance(new, str) else new.item()
        if data.dtype == bool:
            output[target] = {
                "none": new,
                "sum": old or new,
                "sub": old != new,
                "prod": old and new,
                "min": old and new,
                "max": old or new,
            }[reduction]
        elif moves:
            output[target] = new
        else:
            output[target] = {
                "sum": old + new,
                "sub": old - new,
                "prod": old * new,
                "min": min(old, new),
                "max": max(old, new),
            }[reduction]
    if element_type.is_integer:
        low = -(2 ** (element_type.bits - 1)) if element_type.kind == "signed" else 0
        output = np.array(
            [(v - low) % 2**element_type.bits + low for v in output.reshape(-1)], object
        ).reshape(output.shape)
    if element_type.is_float and not moves:
        return [storage.encode(output.astype(np.float64), element_type)]
    return [output.astype(data.dtype)]


SAMPLES = [
    Samples(ScatterNDUpdate15, BOTH + ONLY_15, REFUSALS + REDUCING, cases(True), loop),
    Samples(ScatterNDUpdate4, BOTH, REFUSALS + NEGATIVE, cases(False), loop),
]
