"""What torch defines otherwise than the IR, or refuses, and its modules answer all the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import uncork
from uncork.ir.bodies import GraphBody
from uncork.ir.model import Source
from uncork.ops._body import BodyInput, BodyMap, JoinedOutput, SlicedInput, Slicing

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("default")]


def called(builder: uncork.Builder, *results: Source, inputs: Sequence[Any]) -> list[Any]:
    """The answers of the module that has these results."""
    for i, source in enumerate(results):
        builder.result(source, f"y{i}")
    with torch.no_grad():
        found = uncork.to_torch(builder.model())(*map(torch.from_numpy, inputs))
    return [a.detach().numpy() for a in (found if isinstance(found, tuple) else (found,))]


def attention(mask_shape: Sequence[int | None], mask: Any) -> Any:
    """Of equal products: the mean of the values that are seen."""
    builder = uncork.Builder("attention")
    q, k, v = (builder.parameter(name, "f32", [None, None, 4]) for name in "qkv")
    given = builder.parameter("mask", "f32", mask_shape)
    (y,) = builder.add("ScaledDotProductAttention", 13, q, k, v, given, causal=False)
    values = np.stack([np.full(4, 2), np.full(4, 6)])[None].astype(np.float32)
    ones = np.ones((1, 2, 4), np.float32)
    return called(builder, y, inputs=[ones, ones, values, np.asarray(mask, np.float32)])[0]


def test_rows_that_attend_to_nothing_are_no_numbers() -> None:
    """The softmax of -inf throughout is 0 / 0."""
    found = attention([2, 2], [[0, -np.inf], [-np.inf, -np.inf]])
    np.testing.assert_array_equal(found[0], [[2] * 4, [np.nan] * 4])
    every = attention([None, None], [[-np.inf]])
    assert np.isnan(every).all()
    np.testing.assert_allclose(attention([1, 1], [[0]])[0], np.full((2, 4), 4), 1e-6)


def test_attention_of_items_that_are_broadcast() -> None:
    """One query for each of three keys and values, and for none of them."""
    for count in (3, 0):
        builder = uncork.Builder("attention")
        q, k, v = (builder.parameter(name, "f32", [None, 1, 2]) for name in "qkv")
        (y,) = builder.add("ScaledDotProductAttention", 13, q, k, v, causal=False)
        values = np.arange(2 * count, dtype=np.float32).reshape(count, 1, 2)
        one = np.ones((1, 1, 2), np.float32)
        found = called(builder, y, inputs=[one, one, values])[0]
        np.testing.assert_array_equal(found, values)


@pytest.mark.parametrize("sizes", [(0, 3, 2), (0, 0, 2), (2, 3, 0), (0, 3, 0), (2, 3, 2)])
def test_rows_of_batches_of_which_there_are_none(sizes: tuple[int, int, int]) -> None:
    count, rows, taken = sizes
    builder = uncork.Builder("rows")
    data = builder.parameter("data", "f32", [None, None, 4])
    ids = builder.parameter("ids", "i64", [None, None])
    (y,) = builder.add("Gather", 8, data, ids, builder.constant(np.int64(1)), batch_dims=1)
    table = np.arange(count * rows * 4, dtype=np.float32).reshape(count, rows, 4)
    ones = np.ones((count, taken), np.int64)
    found = called(builder, y, inputs=[table, ones])[0]
    expected = np.repeat(table[:, 1:2], taken, 1) if rows > 1 else np.zeros((count, taken, 4))
    np.testing.assert_array_equal(found, expected)


def test_constants_of_infinities_and_nan() -> None:
    mask = np.array([0, -np.inf, np.inf, np.nan], np.float32)
    for name, expected in (
        ("Add", [1, -np.inf, np.inf, np.nan]),
        ("Subtract", [1, np.inf, -np.inf, np.nan]),
        ("Multiply", [0, -np.inf, np.inf, np.nan]),
    ):
        builder = uncork.Builder("masked")
        x = builder.parameter("x", "f32", [None, 4])
        (y,) = builder.add(name, 1, x, builder.constant(mask))
        found = called(builder, y, inputs=[np.ones((2, 4), np.float32)])[0]
        np.testing.assert_array_equal(found, [expected] * 2)


@pytest.mark.parametrize("way", ["step", "axes", "strided"])
def test_bounds_of_an_open_number(way: str) -> None:
    """Steps or axes tell how many there are."""
    builder = uncork.Builder("cut")
    x, begin, end = (
        builder.parameter("x", "f32", [None, 3]),
        *(builder.parameter(name, "i64", [None]) for name in ("begin", "end")),
    )
    two = builder.constant(np.array([1, 2]))
    if way == "strided":
        (y,) = builder.add("StridedSlice", 1, x, begin, end, two, begin_mask=[0], end_mask=[0])
    elif way == "axes":
        steps = builder.parameter("steps", "i64", [None])
        axes = builder.constant(np.array([0, 1]))
        (y,) = builder.add("Slice", 8, x, begin, end, steps, axes)
    else:
        (y,) = builder.add("Slice", 8, x, begin, end, two)
    data = np.arange(12, dtype=np.float32).reshape(4, 3)
    more = [np.array([1, 2])] if way == "axes" else []
    found = called(builder, y, inputs=[data, np.array([1, 0]), np.array([3, 3]), *more])[0]
    np.testing.assert_array_equal(found, data[1:3, 0:3:2])


def test_a_constant_is_an_output() -> None:
    """One that a layer reads, one that nothing else reads, and one that is moved."""
    builder = uncork.Builder("tables")
    x = builder.parameter("x", "f32", [None, 2])
    table, other = (builder.constant(np.full((2, 3), n, np.float32)) for n in (1, 2))
    (turned,) = builder.add("Transpose", 1, other, builder.constant(np.array([1, 0])))
    (y,) = builder.add("MatMul", 1, x, table)
    found = called(builder, y, table, other, turned, inputs=[np.ones((1, 2), np.float32)])
    for array, (shape, value) in zip(
        found, [((1, 3), 2), ((2, 3), 1), ((2, 3), 2), ((3, 2), 2)], strict=True
    ):
        np.testing.assert_array_equal(array, np.full(shape, value))


def test_groups_of_one_value_are_the_bias() -> None:
    for shape in ([None, 4, None], [1, 4, 1]):
        builder = uncork.Builder("norm")
        x = builder.parameter("x", "f32", shape)
        scale, bias = (builder.constant(np.arange(4, dtype=np.float32) + n) for n in (1, 0))
        options = {"num_groups": 4, "epsilon": 1e-5}
        (y,) = builder.add("GroupNormalization", 12, x, scale, bias, **options)
        found = called(builder, y, inputs=[np.ones((1, 4, 1), np.float32)])[0]
        np.testing.assert_allclose(found[0, :, 0], [0, 1, 2, 3], atol=1e-5)


def test_slopes_of_an_open_number() -> None:
    builder = uncork.Builder("prelu")
    data = builder.parameter("data", "f32", [None, 2, None])
    slope = builder.parameter("slope", "f32", [None])
    (y,) = builder.add("PReLU", 1, data, slope)
    found = called(
        builder, y, inputs=[-np.ones((1, 2, 2), np.float32), np.array([2, 3], np.float32)]
    )[0]
    np.testing.assert_array_equal(found, [[[-2, -2], [-3, -3]]])


def test_sinh_up_to_the_largest_number() -> None:
    """sinh(89) is 2.245e38, of which the largest f32 is 3.4e38; e^89 is beyond it."""
    builder = uncork.Builder("sinh")
    (y,) = builder.add("Sinh", 1, builder.parameter("x", "f32", [None]))
    found = called(builder, y, inputs=[np.array([89, -89, 90, 0.5], np.float32)])[0]
    np.testing.assert_allclose(found, [2.2448058e38, -2.2448058e38, np.inf, 0.5210953], 1e-6)


def test_a_dimension_that_a_squeeze_does_not_find_to_be_1_is_refused() -> None:
    """What follows counts on the rank: the row would be another one."""
    builder = uncork.Builder("squeezed")
    x = builder.parameter("x", "f32", [None, 2])
    (row,) = builder.add("Squeeze", 1, x, builder.constant(np.array([0])))
    (y,) = builder.add("Unsqueeze", 1, row, builder.constant(np.array([-1])))
    found = called(builder, y, inputs=[np.array([[1, 2]], np.float32)])[0]
    np.testing.assert_array_equal(found, [[1], [2]])
    module = uncork.to_torch(builder.model())
    with pytest.raises(ValueError, match=r"dimensions \[0\] of \[3, 2\] are not all 1"):
        module(torch.ones(3, 2))


def test_nothing_is_resized_to_nothing_else() -> None:
    builder = uncork.Builder("resized")
    x = builder.parameter("x", "f32", [None])
    sizes, axes = builder.constant(np.array([6])), builder.constant(np.array([0]))
    options = {"mode": "nearest", "shape_calculation_mode": "sizes"}
    builder.result(builder.add("Interpolate", 11, x, sizes, axes, **options)[0], "y")
    module = uncork.to_torch(builder.model())
    assert module(torch.ones(3)).tolist() == [1] * 6
    with pytest.raises(IndexError, match="an index is outside"):
        module(torch.ones(0))


def test_what_is_resized_with_weight_0_is_multiplied_by_it() -> None:
    """By hand: the place looks at the first cell, whose neighbour counts 0 times."""
    builder = uncork.Builder("resized")
    x = builder.parameter("x", "f32", [1, 1, 3, 1])
    sizes, axes = builder.constant(np.array([1])), builder.constant(np.array([2]))
    options = {"mode": "linear_onnx", "coordinate_transformation_mode": "asymmetric"}
    options["shape_calculation_mode"] = "sizes"
    (y,) = builder.add("Interpolate", 11, x, sizes, axes, **options)
    for second, expected in ((5.0, 2.0), (np.inf, np.nan)):
        data = np.array([2, second, 7], np.float32).reshape(1, 1, 3, 1)
        np.testing.assert_array_equal(called(builder, y, inputs=[data])[0].ravel(), [expected])


def turns(shape: Sequence[int | None]) -> tuple[uncork.Builder, Source]:
    """A running sum of rows of such a shape, and of a constant vector of i64 beside them."""
    body = uncork.Builder("body")
    rank = len(shape)
    part, before = (body.parameter(name, "f32", [None] * rank) for name in ("part", "before"))
    many = body.parameter("many", "i64", [None])
    (total,) = body.add("Add", 1, part, before)
    (wide,) = body.add("Convert", 1, many, destination_type="f32")
    axes = body.constant(np.array([0]))
    (one,) = body.add("ReduceMax", 1, wide, axes, keep_dims=False)
    body.result(body.add("Multiply", 1, total, one)[0], "new")
    maps = BodyMap(
        GraphBody(body.model()),
        (SlicedInput(0, 0, Slicing(0)), BodyInput(1, 1), BodyInput(2, 2)),
        (JoinedOutput(0, 0, Slicing(0)),),
        ((0, 1),),
    )
    builder = uncork.Builder("turns")
    x = builder.parameter("x", "f32", shape)
    first = builder.parameter("first", "f32", [1, shape[-1]])
    count = builder.parameter("count", "f32", [None] * 8)
    # Integers that the source writes down: more of them than stand in the line that reads them.
    (sizes,) = builder.add("ShapeOf", 3, count, output_type="i64")
    bodies = {"body": maps}
    (y,) = builder.add_with_bodies("TensorIterator", 1, x, first, sizes, bodies=bodies)
    return builder, y


def test_what_a_turn_reads_is_written_before_the_loop() -> None:
    builder, y = turns([None, 3])
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    found = called(builder, y, inputs=[x, x[:1] * 0, np.ones([1] * 8, np.float32)])[0]
    np.testing.assert_array_equal(found, [[0, 1, 2], [3, 5, 7]])


def test_a_loop_without_a_turn() -> None:
    """What the model tells of the sizes of its result is there; what only parts tell is refused."""
    rest = np.ones([1] * 8, np.float32)
    none, first = np.ones((0, 3), np.float32), np.ones((1, 3), np.float32)
    found = called(*turns([None, 3]), inputs=[none, first, rest])[0]
    assert found.shape == (0, 3)
    builder, y = turns([None, None])
    builder.result(y)
    module = uncork.to_torch(builder.model())
    with pytest.raises(ValueError, match="its parts would have told the sizes of a result"):
        module(*map(torch.from_numpy, (none, first, rest)))
