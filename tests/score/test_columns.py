"""Arrow columns to arrays: the mapping functions, held against loops over Python's lists; buffers,
nulls, exact types.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from uncork.compiler.arguments import ModelPort
from uncork.errors import InputError
from uncork.score.columns import RowError, arrays_of
from uncork.score.mapping import bind
from uncork.types import ElementType, PartialShape


def made(text: Any, port: str, **columns: Any) -> tuple[np.ndarray[Any, Any], list[RowError]]:
    """The array that an expression makes of columns for an input such as `i64[?,3]`, and the
    faults.
    """
    batch = (
        pa.RecordBatch.from_pydict(columns)
        if columns
        else pa.RecordBatch.from_pydict({"none": pa.array([0, 0, 0])})
    )
    element_type, _, shape = port.rstrip("]").partition("[")
    ports = [ModelPort(("x",), ElementType.parse(element_type), PartialShape.parse(shape))]
    (array,), faults = arrays_of(bind(ports, batch.schema, {"x": text}), batch)
    return array, faults


LISTS = [[5, 6, 7], [], [8], [1, 2, 3, 4, 5]]


@pytest.mark.parametrize(
    ("text", "port", "expected"),
    [
        ("values(a)", "i64[?]", [5, 6, 7, 8, 1, 2, 3, 4, 5]),
        ("values(a)", "i32[?]", [5, 6, 7, 8, 1, 2, 3, 4, 5]),
        ("values(a)", "f32[?]", [5, 6, 7, 8, 1, 2, 3, 4, 5]),
        ("offsets(a)", "i64[?]", [0, 3, 3, 4]),
        ("offsets(a)", "i32[?]", [0, 3, 3, 4]),
        ("segments(a)", "i64[?]", [0, 0, 0, 2, 3, 3, 3, 3, 3]),
        ("length(a)", "i64[?]", [3, 0, 1, 5]),
        ("length(a, 4)", "i32[?]", [3, 0, 1, 4]),
        ("length(a)", "i64[?,1]", [[3], [0], [1], [5]]),
        ("padded(a, 4)", "i64[?,?]", [[5, 6, 7, 0], [0, 0, 0, 0], [8, 0, 0, 0], [2, 3, 4, 5]]),
        (
            "padded(a, 4, side=left)",
            "i64[?,4]",
            [[0, 5, 6, 7], [0, 0, 0, 0], [0, 0, 0, 8], [2, 3, 4, 5]],
        ),
        (
            "padded(a, 4, keep=first)",
            "i64[?,4]",
            [[5, 6, 7, 0], [0, 0, 0, 0], [8, 0, 0, 0], [1, 2, 3, 4]],
        ),
        (
            "padded(a, 6, pad=-1)",
            "i64[?,6]",
            [[5, 6, 7, -1, -1, -1], [-1] * 6, [8, -1, -1, -1, -1, -1], [1, 2, 3, 4, 5, -1]],
        ),
        ("rows()", "i64[]", 4),
        ("rows()", "i32[1]", [4]),
        (7, "i64[?]", [7, 7, 7, 7]),
        ([1, 2], "f32[?,2]", [[1, 2]] * 4),
        ([1, 2], "f32[2]", [1, 2]),
        (0.5, "f32[]", 0.5),
    ],
)
@pytest.mark.parametrize("kind", ["list", "large_list", "sliced", "int32"])
def test_lists(text: Any, port: str, expected: Any, kind: str) -> None:
    item = pa.int32() if kind == "int32" else pa.int64()
    if kind == "sliced":
        array = pa.array([[9, 9], *LISTS, [9]], pa.list_(item)).slice(1, 4)
    else:
        array = pa.array(LISTS, pa.large_list(item) if kind == "large_list" else pa.list_(item))
    got, faults = made(text, port, a=array)
    assert not faults
    assert got.tolist() == expected
    assert got.dtype == ElementType.parse(port.partition("[")[0]).dtype
    assert got.flags.c_contiguous


@given(
    st.lists(st.lists(st.integers(-5, 5), max_size=7), max_size=6),
    st.integers(1, 8),
    st.sampled_from(["left", "right"]),
    st.sampled_from(["first", "last"]),
    st.integers(0, 3),
)
def test_padded_is_what_a_loop_makes(
    lists: list[list[int]], width: int, side: str, keep: str, before: int
) -> None:
    array = pa.array([[9]] * before + lists, pa.list_(pa.int64())).slice(before)
    got, _ = made(f"padded(a, {width}, side={side}, keep={keep})", "i64[?,?]", a=array)
    expected = []
    for row in lists:
        kept = row[:width] if keep == "first" else row[max(0, len(row) - width) :]
        zeros = [0] * (width - len(kept))
        expected.append(zeros + kept if side == "left" else kept + zeros)
    assert got.tolist() == expected
    assert got.shape == (len(lists), width)


@pytest.mark.parametrize("before", [0, 2])
def test_values_and_offsets_are_arrows_own(before: int) -> None:
    array = pa.array([[9]] * before + LISTS, pa.large_list(pa.int64())).slice(before)
    values, _ = made("values(a)", "i64[?]", a=array)
    assert values.ctypes.data == array.values.buffers()[1].address + 8 * before
    if not before:
        offsets, _ = made("offsets(a)", "i64[?]", a=array)
        assert offsets.ctypes.data == array.buffers()[1].address


def test_fixed_lists_and_plain_columns() -> None:
    pairs = pa.array([[9, 9], [1, 2], [3, 4]], pa.list_(pa.float32(), 2)).slice(1)
    assert made("a", "f32[?,2]", a=pairs)[0].tolist() == [[1, 2], [3, 4]]
    assert made("values(a)", "f32[?]", a=pairs)[0].tolist() == [1, 2, 3, 4]
    assert made("offsets(a)", "i64[?]", a=pairs)[0].tolist() == [0, 2]
    nested = pa.array(
        [[[0, 1], [2, 3], [4, 5]], [[6, 7], [8, 9], [10, 11]]], pa.list_(pa.list_(pa.int64(), 2), 3)
    )
    assert made("a", "i64[?,3,2]", a=nested.slice(1))[0].tolist() == [[[6, 7], [8, 9], [10, 11]]]
    assert made("stack(a, b)", "f64[?,2]", a=pa.array([1, 2]), b=pa.array([0.5, 1.5]))[
        0
    ].tolist() == [[1, 0.5], [2, 1.5]]
    assert made("a", "boolean[?]", a=pa.array([True, False]))[0].tolist() == [True, False]
    assert made("a", "string[?]", a=pa.array(["één", ""]))[0].tolist() == ["één", ""]
    assert made("a", "i64[?,1]", a=pa.array([3, 4]).dictionary_encode())[0].tolist() == [[3], [4]]
    assert made('"my, (column)"', "i64[?]", **{"my, (column)": pa.array([1])})[0].tolist() == [1]


def test_bags_of_one() -> None:
    column = pa.array([7, None, 9])
    assert made("values(a)", "i64[?]", a=pa.array([7, 8]))[0].tolist() == [7, 8]
    assert made("offsets(a)", "i64[?]", a=pa.array([7, 8]))[0].tolist() == [0, 1]
    assert made("segments(a)", "i32[?]", a=pa.array([7, 8]))[0].tolist() == [0, 1]
    assert [fault.row for fault in made("values(a)", "i64[?]", a=column)[1]] == [1]
    assert made("values(a, fill=3)", "i64[?]", a=column)[0].tolist() == [7, 3, 9]
    assert made("values(a, fill=empty)", "i64[?]", a=column)[0].tolist() == [7, 9]
    assert made("offsets(a, fill=empty)", "i64[?]", a=column)[0].tolist() == [0, 1, 1]


def test_rows_that_cannot_be_given_are_all_named() -> None:
    _, faults = made("a", "i64[?]", a=pa.array([1, None, 3, None]))
    assert [(f.row, f.column, f.value, f.reason) for f in faults] == [
        (1, "a", "null", "is null: give a fill to replace it"),
        (3, "a", "null", "is null: give a fill to replace it"),
    ]
    _, faults = made("values(a)", "i64[?]", a=pa.array([[1], [2, None], None]))
    assert [(f.row, f.reason) for f in faults] == [
        (1, "has a null in its list: give a fill to replace it"),
        (2, "is null: give a fill to replace it"),
    ]
    _, faults = made("values(a)", "i32[?]", a=pa.array([[1], [2, 2**31], [], [-(2**31) - 1, 0]]))
    assert [(f.row, f.value, f.reason) for f in faults] == [
        (1, "2147483648", "is not a value of i32"),
        (3, "-2147483649", "is not a value of i32"),
    ]
    _, faults = made("a", "f32[?]", a=pa.array([0.5, 0.1, float("nan"), float("inf")]))
    assert [(f.row, f.value, f.reason) for f in faults] == [
        (1, "0.1", "is not a value of f32; round=true takes the nearest")
    ]
    _, faults = made("a", "f64[?]", a=pa.array([2**53, 2**53 + 1]))
    assert [f.value for f in faults] == ["9007199254740993"]
    _, faults = made("a", "u8[?]", a=pa.array([255, 256, -1]))
    assert [f.value for f in faults] == ["256", "-1"]
    _, faults = made("a", "f32[?,2]", a=pa.array([[1.0, 2.0], [1.0]], pa.list_(pa.float32())))
    assert [(f.row, f.value, f.reason) for f in faults] == [(1, "a list of 1", "expected 2 values")]
    _, faults = made(
        "a",
        "i64[?,2,1]",
        a=pa.array([[[1], [2]], [[3], None], [[4], [None]]], pa.list_(pa.list_(pa.int64(), 1), 2)),
    )
    assert [f.row for f in faults] == [1, 2]


def test_fills() -> None:
    assert made("column(a, fill=-1)", "i64[?]", a=pa.array([1, None]))[0].tolist() == [1, -1]
    lists = pa.array([[1, None], None, [2]])
    assert made("values(a, fill=0)", "i64[?]", a=lists)[0].tolist() == [1, 0, 2]
    assert made("offsets(a, fill=0)", "i64[?]", a=lists)[0].tolist() == [0, 2, 2]
    _, faults = made("length(a, fill=empty)", "i64[?]", a=lists)
    assert [(f.row, f.reason) for f in faults] == [
        (0, "has a null in its list: give a fill to replace it")
    ]
    # Arrow allows values under a null list: they are nobody's.
    hidden = pa.ListArray.from_arrays(
        pa.array([0, 2, 4, 5], pa.int32()),
        pa.array([1, 2, 3, 4, 5]),
        mask=pa.array([False, True, False]),
    )
    assert made("values(a, fill=empty)", "i64[?]", a=hidden)[0].tolist() == [1, 2, 5]
    assert made("offsets(a, fill=empty)", "i64[?]", a=hidden)[0].tolist() == [0, 2, 2]
    assert made('column(a, fill="?")', "string[?]", a=pa.array(["x", None]))[0].tolist() == [
        "x",
        "?",
    ]
    assert made("column(a, round=true)", "f32[?]", a=pa.array([0.1]))[0].tolist() == [
        np.float32(0.1)
    ]
    with pytest.raises(
        InputError, match=r"input 'x': fill=1.5 is not a value of column 'a', which has int64"
    ):
        made("column(a, fill=1.5)", "i64[?]", a=pa.array([1, None]))


def test_counts_beyond_a_small_type_are_refused() -> None:
    with pytest.raises(
        InputError,
        match=r"input 'x': offsets\(a\) reaches 130, which is no value of i8: take a smaller batch",
    ):
        made("offsets(a)", "i8[?]", a=pa.array([[0] * 130, [1]]))
