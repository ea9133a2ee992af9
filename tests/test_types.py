"""Element types, dimensions and shapes: their arithmetic is that of sets of sizes, their text that
of the file.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from uncork.types import (
    DYNAMIC,
    Dimension,
    ElementType,
    PartialShape,
    TensorSpec,
    describe_array,
    dtype_name,
)

SMALL = 12
#: Every interval of small sizes, and those without an upper bound.
DIMENSIONS = [Dimension(low, high) for low in range(4) for high in (*range(low, 5), None)]
dimensions = st.builds(
    lambda low, extra: Dimension(low, None if extra is None else low + extra),
    st.integers(0, 2**40),
    st.none() | st.integers(0, 2**40),
)
shapes = st.builds(PartialShape, st.none() | st.lists(dimensions, max_size=6))


def sizes(dimension: Dimension) -> set[int]:
    """The sizes up to a bound that a dimension may have."""
    return {n for n in range(SMALL) if dimension.contains(n)}


def hull(numbers: Iterable[int], unbounded: bool) -> Dimension:
    numbers = set(numbers)
    return Dimension(min(numbers), None if unbounded else max(numbers))


# ---- element types


def test_every_type_has_two_names() -> None:
    port_names = {
        "f64": "FP64", "f32": "FP32", "f16": "FP16", "bf16": "BF16", "f8e4m3": "F8E4M3",
        "f8e5m2": "F8E5M2", "f8e8m0": "F8E8M0", "f4e2m1": "F4E2M1", "nf4": "NF4", "i64": "I64",
        "i32": "I32", "i16": "I16", "i8": "I8", "i4": "I4", "u64": "U64", "u32": "U32",
        "u16": "U16", "u8": "U8", "u6": "U6", "u4": "U4", "u3": "U3", "u2": "U2", "u1": "BIN",
        "boolean": "BOOL", "string": "STRING",
    }  # fmt: skip
    assert {t.name: t.ir_name for t in ElementType} == port_names
    for element_type in ElementType:
        for text in (
            element_type.name,
            element_type.ir_name,
            element_type.ir_name.lower(),
            f" {element_type.name.upper()} ",
        ):
            assert ElementType.parse(text) is element_type
        assert str(element_type) == element_type.name
        assert repr(element_type) == f"ElementType.{element_type.name}"


@pytest.mark.parametrize("text", ["", "f99", "float", "FP8", "undefined", "dynamic", "i 32"])
def test_other_names_are_no_types(text: str) -> None:
    with pytest.raises(KeyError):
        ElementType.parse(text)


def test_types_are_all_different() -> None:
    assert len(set(ElementType)) == len(ElementType.__members__) == 25


@pytest.mark.parametrize("element_type", ElementType)
def test_kinds_and_carriers(element_type: ElementType) -> None:
    assert element_type.is_float == (
        element_type.name[0] == "f" or element_type.name in ("bf16", "nf4")
    )
    assert element_type.is_integer == (element_type.name[0] in "iu")
    assert element_type.is_packed == (
        element_type.name in ("u1", "u2", "u3", "u4", "u6", "i4", "nf4", "f4e2m1")
    )
    native = {"f64", "f32", "f16", "boolean", *(f"{s}{b}" for s in "iu" for b in (8, 16, 32, 64))}
    assert element_type.is_native == (element_type.name in native)
    assert ElementType.of_dtype(element_type.dtype) is element_type or not element_type.is_native
    if element_type.is_native and element_type.bits > 8:
        assert ElementType.of_dtype(element_type.dtype.newbyteorder(">")) is element_type


def test_types_of_numpy() -> None:
    for dtype, name in (
        (np.float32, "f32"),
        (int, "i64"),
        (bool, "boolean"),
        ("<U5", "string"),
        (object, "string"),
        (">i2", "i16"),
    ):
        assert ElementType.of_dtype(dtype) is ElementType.parse(name)
    for dtype in (np.complex64, "S3", "M8[s]", "V4", np.longdouble):
        if np.dtype(dtype) != np.dtype(np.float64):
            assert ElementType.of_dtype(dtype) is None


def test_names_of_arrays_in_messages() -> None:
    assert describe_array(np.zeros((2, 3), np.int64)) == "i64[2,3]"
    assert describe_array(np.float32(1)) == "f32[]"
    assert describe_array(np.zeros(2, np.complex64)) == "complex64[2]"
    swapped = np.zeros(2, np.dtype(np.float32).newbyteorder())
    assert describe_array(swapped) == "f32[2] in the byte order of other processors"
    assert dtype_name(np.zeros(0, ">f8")) == "f64"


# ---- dimensions


@pytest.mark.parametrize(("low", "high"), [(-1, None), (-1, 3), (2, 1), (0, -1)])
def test_impossible_bounds(low: int, high: int | None) -> None:
    with pytest.raises(ValueError, match="bounds must satisfy"):
        Dimension(low, high)


def test_dimensions_from_numbers() -> None:
    assert Dimension.of(3) == Dimension(3, 3) == 3
    assert Dimension.of(-1) is Dimension.of(None) is DYNAMIC
    assert Dimension.of(DYNAMIC) is DYNAMIC
    with pytest.raises(ValueError, match="bounds"):
        Dimension.of(-2)
    assert Dimension(3, 3).size == int(Dimension(3, 3)) == 3
    assert Dimension(3, 4).size is None
    with pytest.raises(ValueError, match=r"3\.\.4 is dynamic"):
        int(Dimension(3, 4))


def test_equality_and_hashes() -> None:
    assert Dimension(2, 2) == 2 != Dimension(2, 3)
    assert Dimension(2, None) != Dimension(2, 2)
    assert Dimension(0) == DYNAMIC
    assert Dimension(2, 2) != "2"
    assert len({Dimension(1, 2), Dimension(1, 2), Dimension(1, 1), DYNAMIC}) == 3


@pytest.mark.parametrize(
    ("dimension", "text"),
    [
        (Dimension(3, 3), "3"),
        (DYNAMIC, "?"),
        (Dimension(2), "2.."),
        (Dimension(0, 8), "0..8"),
        (Dimension(1, 8), "1..8"),
    ],
)
def test_text(dimension: Dimension, text: str) -> None:
    assert str(dimension) == text
    assert repr(dimension) == f"Dimension({text})"
    assert PartialShape.parse(text) == [dimension]


@pytest.mark.parametrize(("a", "b"), list(itertools.product(DIMENSIONS, repeat=2)))
def test_arithmetic_is_that_of_sets(a: Dimension, b: Dimension) -> None:
    """Each result is the smallest interval that holds what any two sizes give."""
    pairs = list(itertools.product(sizes(a), sizes(b)))
    assert a + b == hull((x + y for x, y in pairs), a.high is None or b.high is None)
    product = hull(
        (x * y for x, y in pairs),
        (a.high is None and b.high != 0) or (b.high is None and a.high != 0),
    )
    assert a * b == product
    unlimited = a.high is None
    difference = a - b
    assert difference.low == (0 if b.high is None else max(0, a.low - b.high))
    assert difference.high == (None if unlimited else max(difference.low, a.high - b.low))
    assert (
        a.compatible(b)
        == b.compatible(a)
        == bool({x for x in range(20) if a.contains(x) and b.contains(x)})
    )
    merged = a.merge(b)
    assert (merged is not None) == a.compatible(b)
    if merged is not None:
        assert sizes(merged) == sizes(a) & sizes(b)
    assert sizes(a.union(b)) >= sizes(a) | sizes(b)
    assert a.union(b) == hull(sizes(a) | sizes(b), a.high is None or b.high is None)


@pytest.mark.parametrize("a", DIMENSIONS)
@pytest.mark.parametrize("divisor", [1, 2, 3])
def test_division(a: Dimension, divisor: int) -> None:
    assert a // divisor == hull((x // divisor for x in sizes(a)), a.high is None)
    assert a.ceil_div(divisor) == hull((-(-x // divisor) for x in sizes(a)), a.high is None)


def test_numbers_on_either_side() -> None:
    assert 2 + Dimension(1, 3) == Dimension(3, 5)
    assert 3 * Dimension(1, 2) == Dimension(3, 6)
    assert Dimension(5, 5) - 2 == 3
    assert Dimension(1) == DYNAMIC + 1
    assert DYNAMIC * 0 == 0


# ---- shapes


@given(shapes)
def test_shapes_survive_their_text(shape: PartialShape) -> None:
    assert PartialShape.parse(shape.format()) == shape
    assert PartialShape.parse(shape.format().replace(",", " , ")) == shape


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("  ", []),
        ("1,?,2", [1, None, 2]),
        ("-1", [None]),
        (" 1 , 2 ", [1, 2]),
        ("1..2,..4,5..", [Dimension(1, 2), Dimension(0, 4), Dimension(5)]),
        ("0", [0]),
        (str(2**63 - 1), [2**63 - 1]),
    ],
)
def test_parsing(text: str, expected: list[int | Dimension | None]) -> None:
    assert PartialShape.parse(text) == PartialShape(expected)


@pytest.mark.parametrize(
    "text",
    [
        "a",
        "1,",
        ",1",
        "1,,2",
        "1 2",
        "-2",
        "1.5",
        "..",
        "1...2",
        "?..3",
        "3..1",
        "[1]",
        "1;2",
        "1e3",
        "+1",
        "٣",
        str(2**63),
        f"1..{2**63}",
        "9" * 5000,
    ],
)
def test_what_is_no_shape(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 (the caller says what was expected)
        PartialShape.parse(text)


def test_unknown_rank() -> None:
    shape = PartialShape.parse("...")
    assert shape.rank is None
    assert shape == PartialShape() != PartialShape([])
    assert not shape.is_static
    assert shape.size == DYNAMIC
    for use in (
        lambda: shape.dims,
        lambda: len(shape),
        lambda: shape.static,
        lambda: list(shape),
        lambda: shape[0],
    ):
        with pytest.raises(ValueError, match="the rank of this shape is unknown"):
            use()


def test_shapes_are_sequences() -> None:
    shape = PartialShape([2, None, Dimension(1, 4)])
    assert (len(shape), shape.rank, shape[0], shape[-1]) == (3, 3, 2, Dimension(1, 4))
    assert isinstance(shape[1:], PartialShape)
    assert shape[1:] == [None, Dimension(1, 4)]
    assert shape + [5] == PartialShape([2, None, Dimension(1, 4), 5])  # noqa: RUF005
    assert shape == (2, None, Dimension(1, 4))
    assert shape != "2,?,1..4"
    assert not shape.is_static
    with pytest.raises(ValueError, match="is dynamic"):
        _ = shape.static
    assert PartialShape([2, 3]).static == (2, 3)
    assert PartialShape([]).static == ()
    assert len({PartialShape([1]), PartialShape([1]), PartialShape(), PartialShape([])}) == 3


def test_number_of_elements() -> None:
    assert PartialShape([]).size == 1
    assert PartialShape([2, 3]).size == 6
    assert PartialShape([2, None]).size == DYNAMIC
    assert PartialShape([0, None]).size == 0
    assert PartialShape([2, Dimension(1, 3)]).size == Dimension(2, 6)
    assert int(PartialShape([2**62, 2**62]).size) == 2**124


def test_compatible_contains_and_merge() -> None:
    shape = PartialShape([2, None, Dimension(1, 4)])
    assert shape.contains((2, 7, 4))
    assert not shape.contains((2, 7, 5))
    assert not shape.contains((2, 7))
    assert PartialShape().contains((1, 2, 3))
    assert PartialShape().contains(())
    assert shape.compatible(PartialShape())
    assert PartialShape().compatible(shape)
    assert shape.compatible(PartialShape([None, 3, 1]))
    assert not shape.compatible(PartialShape([3, None, None]))
    assert not shape.compatible(PartialShape([2, None]))
    assert shape.merge(PartialShape()) == PartialShape().merge(shape) == shape
    assert shape.merge(PartialShape([None, 3, Dimension(3, 9)])) == [2, 3, Dimension(3, 4)]
    assert shape.merge(PartialShape([3, None, None])) is None
    assert shape.merge(PartialShape([2])) is None


@given(shapes, shapes)
def test_merging_agrees_with_compatible(a: PartialShape, b: PartialShape) -> None:
    merged = a.merge(b)
    assert (merged is not None) == a.compatible(b) == b.compatible(a)
    if merged is not None:
        assert merged.compatible(a)
        assert merged.compatible(b)
        assert merged == b.merge(a)


# ---- specs


def spec(shape: list[int | None] | None, value: object = None) -> TensorSpec:
    return TensorSpec(
        ElementType.i64, PartialShape(shape), None if value is None else np.asarray(value)
    )


def test_values_as_integers_and_sizes() -> None:
    assert spec([3], [1, -1, 2]).integers() == [1, -1, 2]
    assert spec([], 5).integers() == [5]
    assert spec([3], [1, -1, 2]).dimensions() == [1, DYNAMIC, 2]
    assert spec([2]).integers() == [None, None]
    assert spec([2]).dimensions() == [DYNAMIC, DYNAMIC]
    assert spec([None]).integers() is None
    assert spec(None).dimensions() is None
    partial = TensorSpec(ElementType.i64, PartialShape([2]), None, (7, None))
    assert partial.integers() == [7, None]
    assert partial.dimensions() == [7, DYNAMIC]
    assert str(spec([2, None])) == "i64[2,?]"
    assert (spec([2]).rank, spec(None).rank) == (1, None)


def test_bounds_as_pairs() -> None:
    shape = PartialShape([1, None, (2, 8), (3, None), (4, -1), (5, 5)])
    assert str(shape) == "[1,?,2..8,3..,4..,5]"
    assert shape == [1, -1, Dimension(2, 8), (3, -1), Dimension(4), 5]
    for wrong, message in (
        ((8, 2), "bounds must satisfy"),
        ((-1, 2), "bounds must satisfy"),
        ((1, 2, 3), "expected a pair of bounds"),
    ):
        with pytest.raises(ValueError, match=message):
            PartialShape([wrong])  # type: ignore[list-item]
