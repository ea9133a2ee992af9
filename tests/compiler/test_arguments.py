"""What a call takes and gives: exact conversions are made, lossy ones refused with the place, and
results are the caller's own.
"""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import uncork
from uncork.compiler.arguments import ModelPort, Results, accept, did_you_mean, match, present
from uncork.storage import decode, encode
from uncork.types import Dimension, ElementType, PartialShape


def port(element_type: str, shape: list[Any] | None = None, *names: str) -> ModelPort:
    return ModelPort(names or ("x",), ElementType.parse(element_type), PartialShape(shape))


def taken(element_type: str, value: Any, shape: list[Any] | None = None) -> np.ndarray:
    array = accept(port(element_type, shape), value)
    assert array.dtype == ElementType.parse(element_type).dtype
    assert array.flags.c_contiguous
    assert array.dtype.isnative
    return array


def refused(element_type: str, value: Any, shape: list[Any] | None = None) -> str:
    with pytest.raises(uncork.InputError) as caught:
        accept(port(element_type, shape), value)
    assert caught.value.where == "input 'x'"
    return caught.value.message


NATIVE = [t.name for t in ElementType if t.is_native]


@pytest.mark.parametrize("element_type", NATIVE)
def test_the_right_type_is_not_copied(element_type: str) -> None:
    array = np.zeros((2, 3), ElementType.parse(element_type).dtype)
    assert np.shares_memory(taken(element_type, array), array)


@pytest.mark.parametrize("element_type", NATIVE)
def test_any_layout(element_type: str) -> None:
    values = np.arange(6).reshape(2, 3).astype(ElementType.parse(element_type).dtype)
    for array in (
        values.T,
        values[:, ::-1],
        values[::2],
        values[:, :1],
        np.broadcast_to(values[0, 0], (2, 2)),
        values[1, 1],
        values[:0],
    ):
        np.testing.assert_array_equal(taken(element_type, array), array)
        assert taken(element_type, array).shape == np.shape(array)
    if element_type != "boolean":
        np.testing.assert_array_equal(
            taken(element_type, values.astype(values.dtype.newbyteorder(">"))), values
        )


@pytest.mark.parametrize(
    ("element_type", "value", "expected"),
    [
        ("i64", np.int32([1, -1]), [1, -1]),
        ("i32", np.int64([2**31 - 1, -(2**31)]), [2**31 - 1, -(2**31)]),
        ("u64", np.int64([2**62]), [2**62]),
        ("i64", np.uint64([2**63 - 1]), [2**63 - 1]),
        ("u8", np.int64([0, 255]), [0, 255]),
        ("i8", np.uint64([127]), [127]),
        (
            "f32",
            np.float64([0.5, math.inf, math.nan, 2.0**-149]),
            [0.5, math.inf, math.nan, 2.0**-149],
        ),
        ("f64", np.float32([0.1]), [float(np.float32(0.1))]),
        ("f16", np.float32([65504.0, -0.0]), [65504.0, -0.0]),
        ("f32", np.int64([2**24, -5]), [2.0**24, -5.0]),
        ("f64", np.uint64([2**63]), [2.0**63]),
        ("f32", np.uint8([3]), [3.0]),
        ("f16", np.int16([2048]), [2048.0]),
        ("boolean", [True, False], [True, False]),
        ("i64", [1, 2], [1, 2]),
        ("i64", 5, 5),
        ("i32", (1, 2), [1, 2]),
        ("f32", 0.1, np.float32(0.1)),
        ("f32", [0.1, 1], np.float32([0.1, 1])),
        ("f32", [1, 2], [1, 2]),
        ("f32", True, None),
        ("f64", 0.1, 0.1),
        ("f16", 0.5, 0.5),
        ("i64", [], []),
        ("i64", ((), ()), [[], []]),
        ("boolean", [], []),
        ("string", [], []),
        ("i64", np.zeros(0), None),
        ("u4", [0, 15], [0, 15]),
        ("i4", np.int64([-8, 7]), [-8, 7]),
        ("u1", np.uint8([0, 1]), [0, 1]),
        ("bf16", np.float32([1.0, -2.5, math.inf]), [0x3F80, 0xC020, 0x7F80]),
        ("bf16", np.float64([0.5]), [0x3F00]),
        ("bf16", np.int64([256, 3]), [0x4380, 0x4040]),
        ("f8e4m3", np.float32([448.0, 1.0]), [0x7E, 0x38]),
        ("f8e5m2", np.float64([57344.0]), [0x7B]),
        ("f8e8m0", np.float32([2.0]), [0x80]),
        ("f4e2m1", [6.0, -0.5], [7, 9]),
        ("nf4", np.float32([0.0, 1.0]), [7, 15]),
    ],
)
def test_exact_conversions(element_type: str, value: Any, expected: Any) -> None:
    if expected is None:
        assert refused(element_type, value).startswith(f"expected {element_type}, got ")
    else:
        np.testing.assert_array_equal(
            taken(element_type, value), np.array(expected, ElementType.parse(element_type).dtype)
        )


@pytest.mark.parametrize(
    ("element_type", "value", "message"),
    [
        (
            "i64",
            np.float32([1.0]),
            "expected i64, got f32[1]; ids and counts are never rounded: convert them yourself",
        ),
        ("i32", [1.5], "expected i32, got f64[1]; ids and counts are never rounded"),
        (
            "i32",
            np.int64([[1, 2], [3, 2**31]]),
            "expected i32, got i64[2,2], and 2147483648 at [1, 1] is not a value of i32",
        ),
        (
            "i32",
            np.int64(2**40),
            "and 1099511627776 at [] is not a value of i32: convert the array yourself if the "
            "loss is meant",
        ),
        ("u8", np.int8([1, -1]), "expected u8, got i8[2], and -1 at [1] is not a value of u8"),
        ("i64", np.uint64([2**63]), "and 9223372036854775808 at [0] is not a value of i64"),
        ("u64", np.int64([-1]), "and -1 at [0] is not a value of u64"),
        ("i8", np.uint8([200]), "and 200 at [0] is not a value of i8"),
        (
            "f32",
            np.float64([0.5, 0.1]),
            "expected f32, got f64[2], and 0.1 at [1] is not a value of f32",
        ),
        ("f32", np.float64([1e300]), "and 1e+300 at [0] is not a value of f32"),
        ("f32", np.int64([2**24 + 1]), "and 16777217 at [0] is not a value of f32"),
        ("f64", np.int64([2**53 + 1]), "is not a value of f64"),
        ("f64", np.uint64([2**64 - 1]), "and 18446744073709551615 at [0] is not a value of f64"),
        ("f64", np.int64([2**63 - 1]), "and 9223372036854775807 at [0] is not a value of f64"),
        ("f16", np.float32([65520.0]), "and 65520.0 at [0] is not a value of f16"),
        (
            "bf16",
            np.float32([1.25 + 2**-10]),
            "expected bf16, got f32[1], and 1.2509765625 at [0] is not a value of bf16",
        ),
        ("bf16", np.float64([1 + 2.0**-30]), "is not a value of bf16"),
        ("bf16", np.int64([257]), "and 257 at [0] is not a value of bf16"),
        ("f8e4m3", np.float32([1000.0]), "and 1000.0 at [0] is not a value of f8e4m3"),
        ("f8e8m0", np.float32([0.0]), "and 0.0 at [0] is not a value of f8e8m0"),
        ("f4e2m1", np.float32([math.nan]), "and nan at [0] is not a value of f4e2m1"),
        ("nf4", [0.1], "is not a value of nf4"),
        ("u4", [16], "and 16 at [0] is not a value of u4"),
        ("u4", np.int8([-1]), "and -1 at [0] is not a value of u4"),
        ("i4", [8], "and 8 at [0] is not a value of i4"),
        ("u1", [2], "and 2 at [0] is not a value of u1"),
        ("u2", np.uint64([2**63 + 1]), "and 9223372036854775809 at [0] is not a value of u2"),
        ("boolean", [0, 1], "expected boolean, got i64[2]"),
        ("boolean", 1.0, "expected boolean, got f64[]"),
        ("f32", np.array([True]), "expected f32, got boolean[1]"),
        ("i64", np.array([True]), "expected i64, got boolean[1]"),
        ("i64", np.array(["1"]), "expected i64, got string[1]"),
        ("i64", "7", "expected i64, got string[]"),
        ("i64", None, "expected an array of i64, got None"),
        ("i64", [[1, 2], [None, 3]], "expected i64, got Python objects (None at [1, 0])"),
        ("f32", [0.5, None], "expected f32, got Python objects (None at [1])"),
        (
            "i64",
            np.float64([1, np.nan]),
            "there is a NaN at [1], which is what becomes of a null among integers: fill it first",
        ),
        (
            "i64",
            [[1, 2], [3]],
            "expected an array of i64, got list: setting an array element with a sequence",
        ),
        ("i64", 2**70, "expected i64, got Python objects (int, of more than 64 bits)"),
        ("f32", np.array([1 + 2j]), "expected f32, got complex128[1]"),
        ("i64", np.array(["2020-01-01"], "M8[D]"), "expected i64, got datetime64[D][1]"),
        ("f32", {"a": 1}, "expected an array of f32, got dict"),
        ("f32", object(), "expected an array of f32, got object"),
        ("string", [1, 2], "expected strings, got i64[2]"),
        ("string", np.array(["a", 1], object), "expected strings, got int at element 1"),
        ("string", np.array(["a", None], object), "expected strings, got NoneType at element 1"),
        (
            "string",
            np.array([b"\xff"]),
            "expected text in UTF-8, got b'\\xff' (invalid start byte at byte 0)",
        ),
    ],
)
def test_refused_conversions(element_type: str, value: Any, message: str) -> None:
    assert message in refused(element_type, value)


@pytest.mark.parametrize(
    ("shape", "given"),
    [
        ([2], (3,)),
        ([2], ()),
        ([], (1,)),
        ([None, 2], (5, 3)),
        ([Dimension(1, 4)], (5,)),
        ([Dimension(1, 4)], (0,)),
        ([None], (1, 1)),
    ],
)
def test_shapes_that_do_not_fit(shape: list[Any], given: tuple[int, ...]) -> None:
    message = refused("f32", np.zeros(given, np.float32), shape)
    assert message == f"expected shape {PartialShape(shape)}, got {list(given)}"


def test_strings() -> None:
    for value in (
        ["a", "日本"],
        np.array(["a", "日本"]),
        np.array(["a", "日本"], object),
        np.array(["a", "日本"], ">U2"),
    ):
        assert taken("string", value).tolist() == ["a", "日本"]
    assert taken("string", np.array([b"ab", b""])).tolist() == ["ab", ""]
    assert taken("string", "abc").shape == ()
    assert taken("string", np.zeros((0, 2), object)).shape == (0, 2)


def test_an_array_of_another_package() -> None:
    """Whatever NumPy can look at; a bfloat16 of that name is taken by its bits."""

    class Tensor:
        def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
            return np.array([1, 2], np.int64)

    assert taken("i64", Tensor()).tolist() == [1, 2]
    with pytest.raises(uncork.InputError, match="ids and counts are never rounded"):
        accept(port("i64"), np.float64(1))


def test_every_number_of_bf16() -> None:
    """All of them come through bit by bit, in one array and alone, as ml_dtypes' type or as f32."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    codes = np.arange(1 << 16, dtype=np.uint16)
    single = (codes.astype(np.uint32) << 16).view(np.float32)
    for array in (single, codes.view(ml_dtypes.bfloat16)):
        np.testing.assert_array_equal(taken("bf16", array), codes)
        np.testing.assert_array_equal(taken("bf16", array[::-2]), codes[::-2])
        assert taken("bf16", array[0x4049].reshape(())) == 0x4049
    single[7] = 0.1
    assert "and 0.10000000149011612 at [7] is not" in refused("bf16", single)


def test_bfloat16_of_ml_dtypes() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    array = np.array([1.0, -2.5], ml_dtypes.bfloat16)
    assert taken("bf16", array).tolist() == [0x3F80, 0xC020]
    assert taken("f32", array).tolist() == [1.0, -2.5]
    assert taken("bf16", array[::-1]).tolist() == [0xC020, 0x3F80]
    assert "expected i64" in refused("i64", array)


@settings(max_examples=40)
@given(st.data())
@pytest.mark.parametrize(
    "target", [t.name for t in ElementType if t.kind not in ("string", "boolean")]
)
def test_a_conversion_is_exact_or_refused(target: str, data: st.DataObject) -> None:
    """Held against Python's numbers, which have no width."""
    element_type = ElementType.parse(target)
    source = data.draw(
        st.sampled_from(["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"])
    )
    if source[0] == "f":
        bits = 8 * int(source[1])
        numbers = data.draw(
            st.lists(st.floats(width=bits) | st.integers(-300, 300).map(float), max_size=4)
        )
    else:
        info = np.iinfo(source)
        low, high = int(info.min), int(info.max)
        numbers = data.draw(
            st.lists(
                st.integers(low, high) | st.integers(max(-20, low), min(300, high)), max_size=4
            )
        )
    with np.errstate(over="ignore"):
        array = np.array(numbers, source)
    if source[0] == "f" and not element_type.is_float:
        assert "never rounded" in refused(target, array)
        return
    wrong = [v for v in array.tolist() if not _has(element_type, v)]
    if wrong:
        found = re.search(r"at \[(\d+)\] is not a value", refused(target, array))
        assert found
        assert _same(array[int(found.group(1))].item(), wrong[0])
    else:
        assert all(
            _same(a, b)
            for a, b in zip(
                array.tolist(), decode(taken(target, array), element_type).tolist(), strict=True
            )
        )


def _has(element_type: ElementType, value: float) -> bool:
    if element_type.is_integer:
        low = -(2 ** (element_type.bits - 1)) if element_type.kind == "signed" else 0
        return low <= value < low + 2**element_type.bits
    with np.errstate(all="ignore"):
        nearest = decode(encode(np.array([value], np.float64), element_type), element_type)[0]
    return _same(value, float(nearest))


def _same(a: float, b: float) -> bool:
    return a == b or (a != a and b != b)


# ---- matching names and positions

PORTS = [port("i64", [None], "ids", "words"), port("f32", [2], "weights"), port("f32", [], "")]


def test_matching() -> None:
    assert match(PORTS[:2], [1, 2], {}) == [1, 2]
    assert match(PORTS[:2], [1], {"weights": 2}) == [1, 2]
    assert match(PORTS[:2], [], {"weights": 2, "words": 1}) == [1, 2]
    assert match([], [], {}) == []


@pytest.mark.parametrize(
    ("positional", "named", "message"),
    [
        ([1, 2, 3], {}, r"^expected 2 inputs \(ids i64\[\?\], weights f32\[2\]\), got 3$"),
        ([1], {}, r"^1 of 2 inputs missing: weights f32\[2\]$"),
        ([], {}, r"^2 of 2 inputs missing: ids i64\[\?\], weights f32\[2\]$"),
        (
            [1],
            {"idz": 2},
            r"^no input is called 'idz'; did you mean 'ids'\?; inputs: ids i64\[\?\], weights "
            r"f32\[2\]$",
        ),
        ([1], {"quite else": 2}, r"^no input is called 'quite else'; inputs: ids"),
        ([1, 2], {"ids": 3}, r"^input 'ids' is given twice$"),
        ([], {"ids": 1, "words": 2, "weights": 3}, r"^input 'ids' is given twice$"),
        (
            [1],
            {"ids": 1, "nothing": 2},
            r"2 problems:\n  1. input 'ids' is given twice\n  2. no input is called 'nothing'",
        ),
    ],
)
def test_not_matching(positional: list[int], named: dict[str, int], message: str) -> None:
    with pytest.raises(uncork.InputError, match=message):
        match(PORTS[:2], positional, named)


def test_many_inputs_are_not_all_listed() -> None:
    ports = [port("f32", [], f"x{i}") for i in range(20)]
    with pytest.raises(
        uncork.InputError, match=r"^20 of 20 inputs missing: x0 f32\[\], .* x7 f32\[\] and 12 more$"
    ):
        match(ports, [], {})
    with pytest.raises(uncork.InputError, match=r"^expected 0 inputs \(none\), got 1$"):
        match([], [1], {})


def test_near_names() -> None:
    assert did_you_mean("indices", ["indexes", "offsets"]) == "; did you mean 'indexes'?"
    assert did_you_mean("x", ["offsets"]) == ""
    assert did_you_mean("rnu", ["run", "score"]) == "; did you mean 'run'?"
    assert did_you_mean("32-bit", ["64-bit", "as-written"]) == "", "half of it differs"
    assert did_you_mean("weights", ["lengths"]) == ""


def test_ports_print() -> None:
    assert str(port("f32", [None, 2], "a", "b")) == "a f32[?,2]"
    assert port("f32", [], "a", "b").name == "a"
    assert ModelPort((), ElementType.f32, PartialShape([])).name == ""


# ---- results

A, B = np.zeros((2, 3), np.float32), np.ones(2, np.int64)
RESULTS = Results([port("f32", None, "scores", "p"), port("i64", None, "ids")], [A, B])


def test_results_by_position_name_and_unpacked() -> None:
    assert RESULTS[0] is RESULTS["scores"] is RESULTS["p"] is A
    assert RESULTS[-1] is RESULTS["ids"] is B
    first, second = RESULTS
    assert (first is A, second is B, len(RESULTS)) == (True, True, 2)
    assert RESULTS.keys() == ["scores", "ids"]
    assert RESULTS.to_dict() == {"scores": A, "ids": B}
    assert RESULTS[0:1] == [A]
    assert repr(RESULTS) == "Results(scores: f32[2,3], ids: i64[2])"


def test_results_that_are_not_there() -> None:
    with pytest.raises(
        KeyError,
        match=r"no output is called 'score'; did you mean 'scores'\?; outputs: scores "
        r"f32\[\.\.\.\], ids i64",
    ):
        RESULTS["score"]
    with pytest.raises(IndexError):
        RESULTS[2]


def test_results_without_names() -> None:
    results = Results([ModelPort((), ElementType.f32, PartialShape())], [A])
    assert list(results.to_dict()) == ["0"]


@pytest.mark.parametrize(
    ("element_type", "carrier", "shown"),
    [
        ("f32", np.float32([1]), np.float32([1])),
        ("bf16", np.uint16([0x3F80]), np.float32([1])),
        ("f8e5m2", np.uint8([0x3C]), np.float32([1])),
        ("nf4", np.uint8([15]), np.float32([1])),
        ("u4", np.uint8([15]), np.uint8([15])),
        ("i4", np.int8([-8]), np.int8([-8])),
        ("boolean", np.array([True]), np.array([True])),
        ("string", np.array(["a", "bb"], object), np.array(["a", "bb"])),
    ],
)
def test_what_a_caller_sees(element_type: str, carrier: np.ndarray, shown: np.ndarray) -> None:
    got = present(ElementType.parse(element_type), carrier)
    assert got.dtype == shown.dtype
    np.testing.assert_array_equal(got, shown)


def test_strings_that_numpy_would_cut() -> None:
    kept = present(ElementType.string, np.array(["a\0", ""], object))
    assert kept.dtype == object
    assert kept.tolist() == ["a\0", ""]
    assert present(ElementType.string, np.array([], object)).shape == (0,)
    assert present(ElementType.string, np.array("a", object)).shape == ()


# ---- arrays of other libraries


def test_a_masked_array_is_taken_when_nothing_is_masked() -> None:
    values = np.float32([[1, 2], [3, 4]])
    np.testing.assert_array_equal(taken("f32", np.ma.masked_array(values)), values)
    assert type(taken("f32", np.ma.masked_array(values))) is np.ndarray
    masked = np.ma.masked_array(values, mask=[[False, False], [True, True]])
    assert (
        refused("f32", masked)
        == "expected an array of f32, got MaskedArray: it is masked at [1, 0]: fill it first, by "
        ".filled(value)"
    )
    np.testing.assert_array_equal(taken("f32", masked.filled(0)), [[1, 2], [0, 0]])
    with pytest.raises(
        uncork.InputError, match=r"gather: input 'data': .* it is masked at \[1, 0\]"
    ):
        uncork.functional.gather(masked, [0], axis=0)


def test_a_sparse_matrix_is_refused_with_what_to_do() -> None:
    class Sparse:
        """As those of scipy: no sequence, no array, but `toarray`."""

        def toarray(self) -> np.ndarray:
            return np.eye(2, dtype=np.float32)

    assert (
        refused("f32", Sparse())
        == "expected an array of f32, got Sparse, which is sparse: give its .toarray()"
    )


@pytest.mark.oracle
def test_tensors_of_torch() -> None:
    torch = pytest.importorskip("torch")
    learned = torch.ones(2, requires_grad=True)
    np.testing.assert_array_equal(taken("f32", learned * 3), [3, 3])
    np.testing.assert_array_equal(uncork.functional.gather(learned * 3, [1], axis=0), [3])
    half = torch.tensor([1.5, -2.0, float("inf")], dtype=torch.bfloat16)
    np.testing.assert_array_equal(taken("f32", half), np.float32([1.5, -2, np.inf]))
    np.testing.assert_array_equal(taken("bf16", half), [0x3FC0, 0xC000, 0x7F80])
    np.testing.assert_array_equal(taken("f32", torch.ones(2, dtype=torch.half)), [1, 1])
    np.testing.assert_array_equal(taken("i64", torch.tensor([], dtype=torch.int64)), [])
    assert "to_dense()" in refused("f32", torch.eye(2).to_sparse())
    assert "meta device" in refused("f32", torch.ones(2, device="meta"))


def test_losing_conversions_say_how() -> None:
    assert refused("f32", np.full(2, 0.1)).endswith(
        ": convert the array yourself if the loss is meant, by .astype(np.float32)"
    )
    assert refused("i64", np.ones(1)).endswith(
        "never rounded: convert them yourself, by .astype(np.int64)"
    )
    assert refused("bf16", np.full(2, 0.1)).endswith(
        ": convert the array yourself if the loss is meant"
    )


def test_types_equal_their_names() -> None:
    element_type = port("f32").element_type
    assert element_type == "f32"
    assert element_type == ElementType.f32
    assert not element_type != "f32"  # noqa: SIM202
    for other in ("i64", "FP32", "", None, np.float32, ElementType.f64, ElementType.bf16):
        assert element_type != other
    assert {element_type: 1}["f32"] == 1  # type: ignore[index]
    assert len({*ElementType, *(t.name for t in ElementType)}) == len(ElementType)
