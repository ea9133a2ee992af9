"""Kernels along axes: lengths around those of vectors and of their blocks, edge values, and what
falls to the references.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import uncork
from tests.kernels._run import run_native, spec_of
from uncork import storage
from uncork.kernels.kernel_plan import KernelPlan
from uncork.ops import Operation, find
from uncork.types import ElementType, TensorSpec

LENGTHS = [1, 2, 3, 7, 15, 16, 17, 31, 33, 63, 64, 65, 100, 127, 129, 1000]
F32 = ElementType.f32
VERSION = {"ReduceL1": 4, "ReduceL2": 4}


def run(
    operation: Operation, specs: list[TensorSpec], shift: int = 0
) -> tuple[np.ndarray, TensorSpec]:
    results, choice = run_native(operation, specs, shift)
    assert isinstance(choice, KernelPlan), choice
    assert results is not None
    return results[0], operation.evaluate(specs)[0]


def axes(*numbers: int) -> TensorSpec:
    return spec_of(np.array(numbers, np.int64), ElementType.i64)


@pytest.mark.parametrize(
    "type_name", ["ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2"]
)
@pytest.mark.parametrize("length", LENGTHS)
def test_lengths(type_name: str, length: int) -> None:
    generator = np.random.default_rng(length)
    operation = find(type_name, VERSION.get(type_name, 1))(keep_dims=True)
    for shape, along in (
        ((3, length), (1,)),
        ((3, length), (0,)),
        ((2, 3, length), (1,)),
        ((2, length, 2, 3), (1, 2)),
        ((length, 2, 3), (-1, -2)),
    ):
        data = spec_of(generator.standard_normal(shape).astype(np.float32), F32)
        got, wanted = run(operation, [data, axes(*along)], shift=4)
        scale = (
            np.abs(data.value).sum(tuple(along), keepdims=True)
            if type_name in ("ReduceSum", "ReduceMean")
            else 1
        )
        assert got.shape == wanted.value.shape
        assert (np.abs(got - wanted.value) <= 1e-6 * scale + 1e-6 * np.abs(wanted.value)).all()


@pytest.mark.parametrize(
    "type_name", ["ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1"]
)
@pytest.mark.parametrize("element_type", ["i8", "u8", "i16", "i32", "u32", "i64", "u64"])
def test_integers_wrap(type_name: str, element_type: str) -> None:
    kind = ElementType.parse(element_type)
    limits = np.iinfo(kind.dtype)
    values = np.random.default_rng(0).integers(
        limits.min, limits.max, (5, 37), kind.dtype, endpoint=True
    )
    for along in (0, 1):
        got, wanted = run(
            find(type_name, VERSION.get(type_name, 1))(), [spec_of(values, kind), axes(along)]
        )
        np.testing.assert_array_equal(got, wanted.value)


@pytest.mark.parametrize("element_type", ["f16", "bf16"])
def test_halves_are_summed_in_f32(element_type: str) -> None:
    kind = ElementType.parse(element_type)
    values = storage.encode(np.full((2, 3000), 1.0, np.float32), kind)
    got, wanted = run(find("ReduceSum", 1)(), [spec_of(values, kind), axes(1)])
    np.testing.assert_array_equal(
        storage.decode(got, kind),
        storage.decode(storage.encode(np.full(2, 3000.0, np.float32), kind), kind),
    )
    np.testing.assert_array_equal(got, wanted.value)


@pytest.mark.parametrize("type_name", ["ReduceMax", "ReduceMin"])
@pytest.mark.parametrize("place", [0, 20, 35, 36])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_is_seen_everywhere(type_name: str, place: int, value: float) -> None:
    values = np.zeros((2, 37), np.float32)
    values[1, place] = value
    got, wanted = run(find(type_name, 1)(), [spec_of(values, F32), axes(1)])
    np.testing.assert_array_equal(got, wanted.value)


def test_over_no_elements() -> None:
    data = spec_of(np.zeros((3, 0, 2), np.float32), F32)
    for type_name, expected in (
        ("ReduceSum", 0),
        ("ReduceProd", 1),
        ("ReduceMax", -np.inf),
        ("ReduceMin", np.inf),
        ("ReduceMean", np.nan),
    ):
        got, _ = run(find(type_name, 1)(), [data, axes(1)])
        np.testing.assert_array_equal(got, np.full((3, 2), expected))


@pytest.mark.parametrize("type_name", ["ReduceSum", "ReduceProd", "ReduceMin", "ReduceL1"])
@pytest.mark.parametrize("name", ["f32", "f64", "i8", "u16", "i64"])
def test_axes_with_others_between(type_name: str, name: str) -> None:
    element_type = ElementType.parse(name)
    values = np.random.default_rng(1).integers(0, 3, (2, 3, 4, 19)).astype(element_type.dtype)
    for along in ((0, 2), (1, 3), (0, 3), (3, 1)):
        got, wanted = run(
            find(type_name, 4 if type_name == "ReduceL1" else 1)(),
            [spec_of(values, element_type), axes(*along)],
        )
        np.testing.assert_array_equal(got, wanted.value)


@pytest.mark.parametrize(("type_name", "function"), [("And", all), ("Or", any)])
@pytest.mark.parametrize("length", [0, 1, 3, 31, 64, 65, 300])
def test_booleans(type_name: str, function: Callable[[Iterable[bool]], bool], length: int) -> None:
    """All alike but for one at every edge, by Python's own words; over axes with others between,
    too.
    """
    operation = find(f"ReduceLogical{type_name}", 1)(keep_dims=False)
    alike = type_name == "And"
    for place in {None, *([0, length // 2, length - 1] if length else [])}:
        row = np.full(length, alike)
        if place is not None:
            row[place] = not alike
        rows = np.stack([row, np.full(length, alike), np.full(length, not alike)])
        wanted = [function(one.tolist()) for one in rows]
        for values, along in ((rows, 1), (np.ascontiguousarray(rows.T), 0)):
            got, _ = run(operation, [spec_of(values, ElementType.boolean), axes(along)])
            assert got.dtype == bool and got.tolist() == wanted
        halves = np.ascontiguousarray(np.stack([rows, rows]).transpose(0, 2, 1))
        got, _ = run(operation, [spec_of(halves, ElementType.boolean), axes(0, 1)])
        assert got.tolist() == wanted
        between = np.ascontiguousarray(np.stack([rows, rows]))
        got, _ = run(operation, [spec_of(between, ElementType.boolean), axes(0, 2)])
        assert got.view(np.uint8).tolist() == [int(value) for value in wanted]


@pytest.mark.parametrize("type_name", ["SoftMax", "LogSoftmax"])
@pytest.mark.parametrize("length", LENGTHS)
def test_softmax(type_name: str, length: int) -> None:
    data = spec_of(
        np.random.default_rng(length).standard_normal((4, length)).astype(np.float32) * 20, F32
    )
    got, wanted = run(find(type_name, 8 if type_name == "SoftMax" else 5)(axis=-1), [data], shift=4)
    np.testing.assert_allclose(
        got, wanted.value, rtol=2e-6, atol=1e-7 if type_name == "SoftMax" else 1e-6
    )


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("axis", [0, 1])
def test_softmax_of_masked_scores(length: int, axis: int) -> None:
    """What a mask of -100 leaves is 0, no subnormal number, which processors compute slowly with;
    normal numbers, however small, are what they are.
    """
    scores = np.random.default_rng(length).standard_normal((length, length)).astype(np.float32)
    scores[:, 1::3] -= 100
    scores[1::3] -= 100
    scores[:, 2::3] -= 80
    scores[2::3] -= 80
    got, _ = run(find("SoftMax", 8)(axis=axis), [spec_of(scores, F32)])
    wide = np.exp((scores - scores.max(axis, keepdims=True)).astype(np.float64))
    wanted = wide / wide.sum(axis, keepdims=True)
    least = np.finfo(np.float32).tiny
    large = wanted > least * length  # the terms of such are normal, too
    np.testing.assert_allclose(got[large], wanted[large], rtol=2e-6)
    assert (got[~large] <= least * length * 1.01).all() and (got[wide < least] == 0).all()


@pytest.mark.parametrize("type_name", ["SoftMax", "LogSoftmax"])
@pytest.mark.parametrize("place", [0, 15, 16, 35, 36])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_softmax_of_what_is_no_number(type_name: str, place: int, value: float) -> None:
    values = np.zeros((3, 37), np.float32)
    values[1, place] = value
    values[2] = value
    got, wanted = run(
        find(type_name, 8 if type_name == "SoftMax" else 5)(axis=-1), [spec_of(values, F32)]
    )
    np.testing.assert_allclose(got, wanted.value, rtol=1e-6)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("eps_mode", ["inside_sqrt", "outside_sqrt"])
@pytest.mark.parametrize("divide", [False, True])
def test_standardising(length: int, eps_mode: str, divide: bool) -> None:
    values = np.random.default_rng(length).standard_normal((3, 2, length)).astype(np.float32) + 5
    operation = find("MVN", 6)(normalize_variance=divide, eps=1e-3, eps_mode=eps_mode)
    for along, shape in (((-1,), (3, 2, length)), ((1, 2), (3, 1, 2 * length))):
        got, _ = run(operation, [spec_of(values, F32), axes(*along)], shift=4)
        wide = values.reshape(shape).astype(np.float64)
        centred = wide - wide.mean(-1, keepdims=True)
        variance = (centred**2).mean(-1, keepdims=True)
        divisor = (
            (np.sqrt(variance + 1e-3) if eps_mode == "inside_sqrt" else np.sqrt(variance) + 1e-3)
            if divide
            else 1
        )
        np.testing.assert_allclose(
            got.reshape(shape), centred / divisor, rtol=1e-4, atol=5e-5 if divide else 3e-6
        )


@pytest.mark.parametrize("axis", [0, 1])
def test_a_product_that_overflows_beside_a_zero_is_the_reference_s(axis: int) -> None:
    """1e6 * 1e6 * .. overflows; the zero before it makes all of it 0, the zero behind it none."""
    data = np.full((2, 200), 1e6, np.float32)
    data[0, 0] = data[1, 100] = 0
    data = data if axis else np.ascontiguousarray(data.T)
    builder = uncork.Builder()
    given = builder.parameter("data", "f32", list(data.shape))
    axes = builder.constant(np.array([axis]))
    builder.result(builder.add("ReduceProd", 1, given, axes, keep_dims=False)[0])
    with np.errstate(over="ignore", invalid="ignore"):
        (made,) = uncork.compile_model(builder.model())(data)
    np.testing.assert_array_equal(made, [0, np.nan])


#: Rows that are long enough to be summed in blocks, with ends of their own.
LONG = 3 * 4096 * 2 + 4096 + 1037


@pytest.mark.parametrize("type_name", ["ReduceSum", "ReduceMean", "ReduceL1", "ReduceL2"])
@pytest.mark.parametrize("width", [None, 1, 3, 20, 67])
def test_long_sums_lose_no_more_than_their_blocks(type_name: str, width: int | None) -> None:
    shape = (2, LONG) if width is None else (2, LONG, width)
    values = np.random.default_rng(3).random(shape, np.float32) + 1
    operation = find(type_name, VERSION.get(type_name, 1))(keep_dims=False)
    got, _ = run(operation, [spec_of(values, F32), axes(1)], shift=4)
    wide = values.astype(np.float64)
    expected = {
        "ReduceSum": wide.sum(1),
        "ReduceMean": wide.mean(1),
        "ReduceL1": wide.sum(1),
        "ReduceL2": np.sqrt((wide**2).sum(1)),
    }[type_name]
    # One after the other, so many numbers of one size lose 2e-5.
    np.testing.assert_allclose(got, expected, rtol=4e-6)


@pytest.mark.parametrize("rows", [7 * 8, 2**17 - 1, 2**17 + 4096 * 8 + 77])
def test_columns_of_many_rows_lose_no_more(rows: int) -> None:
    values = np.random.default_rng(5).random((rows, 3), np.float32) + 1
    got, _ = run(find("ReduceSum", 1)(keep_dims=False), [spec_of(values, F32), axes(0)])
    np.testing.assert_allclose(got, values.sum(0, np.float64), rtol=1e-5)


@pytest.mark.parametrize("rows", [*range(1, 18), 64])
def test_columns_of_any_number_of_rows(rows: int) -> None:
    """Rows are joined some at a time, which leaves some over."""
    values = np.random.default_rng(rows).standard_normal((2, rows, 3, 77)).astype(np.float32)
    data = spec_of(values, F32)
    for type_name, function in (("ReduceMax", np.max), ("ReduceMin", np.min)):
        got, _ = run(find(type_name, 1)(keep_dims=False), [data, axes(1)], shift=4)
        np.testing.assert_array_equal(got, function(values, 1))
    for type_name, expected in (
        ("ReduceSum", values.sum((0, 1), np.float64)),
        ("ReduceProd", values.prod((0, 1), np.float64)),
        ("ReduceL2", np.sqrt((values.astype(np.float64) ** 2).sum((0, 1)))),
    ):
        operation = find(type_name, VERSION.get(type_name, 1))(keep_dims=False)
        got, _ = run(operation, [data, axes(0, 1)], shift=4)
        np.testing.assert_allclose(got, expected, rtol=3e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["f64", "i32", "i64"])
@pytest.mark.parametrize("width", [None, 5, 70])
def test_long_sums_of_other_types(name: str, width: int | None) -> None:
    shape = (1, LONG) if width is None else (LONG, width)
    values = np.random.default_rng(4).integers(-(2**30), 2**30, shape)
    kind = ElementType[name]
    data = spec_of(values.astype(kind.dtype), kind)
    got, _ = run(find("ReduceSum", 1)(keep_dims=False), [data, axes(1 if width is None else 0)])
    total = values.sum(1 if width is None else 0).astype(kind.dtype)  # modulo 2^32 in i32
    np.testing.assert_array_equal(got, total)  # exact in f64, too: below 2^53


@pytest.mark.parametrize("length", [LONG, 200_704])
def test_long_rows_are_standardised(length: int) -> None:
    values = np.random.default_rng(5).standard_normal((1, length)).astype(np.float32) + 5
    operation = find("MVN", 6)(normalize_variance=True, eps=1e-5, eps_mode="inside_sqrt")
    got, _ = run(operation, [spec_of(values, F32), axes(-1)], shift=4)
    wide = values.astype(np.float64)
    expected = (wide - wide.mean(-1, keepdims=True)) / np.sqrt(
        wide.var(-1, keepdims=True) + np.float64(1e-5)
    )
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=5e-6)
