"""Element-wise operations fused: what becomes one step, what stays apart, and that nothing else
changes.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("llvmlite")

import uncork
from uncork.compiler.compile import compile_model
from uncork.compiler.plan import Step


def steps(model: uncork.Model, *arrays: np.ndarray) -> list[Step]:
    """The plan of a model with static inputs, after both backends agreed to the bit on these."""
    fast, slow = compile_model(model), compile_model(model, backend="reference")
    for a, b in zip(fast(*arrays), slow(*arrays), strict=True):
        np.testing.assert_array_equal(a, b)
    return list(fast.plan.steps)


def ramp(*shape: int) -> np.ndarray:
    return np.linspace(-3, 3, int(np.prod(shape)), dtype=np.float32).reshape(shape)


def test_a_chain_is_one_step_that_names_its_layers() -> None:
    b = uncork.Builder("chain")
    x, y = b.parameter("x", "f32", [3, 40]), b.parameter("y", "f32", [40])
    (product,) = b.add("Multiply", 1, x, y, name="scale")
    (total,) = b.add("Add", 1, product, b.constant(np.float32(0.1)), name="shift")
    (last,) = b.add("ReLU", 1, total, name="rectify")
    b.result(last, "z")
    (step,) = steps(b.model(), ramp(3, 40), ramp(40))
    assert step.layer == "scale + shift + rectify"
    assert step.kernel.startswith("multiply_add_relu_")
    assert "scale + shift + rectify" in str(compile_model(b.model()).plan)


def test_nothing_is_contracted() -> None:
    """x * x - y rounds twice: a fused multiply-add would show what the product lost."""
    b = uncork.Builder("rounds twice")
    x, y = b.parameter("x", "f32", [33]), b.parameter("y", "f32", [33])
    (product,) = b.add("Multiply", 1, x, x)
    (rest,) = b.add("Subtract", 1, product, y)
    b.result(rest, "rest")
    values = np.full(33, 1 + 2.0**-12, np.float32)
    compiled = compile_model(b.model())
    assert len(compiled.plan.steps) == 1
    np.testing.assert_array_equal(compiled(values, values * values)["rest"], np.zeros(33))


def test_a_result_with_another_reader_stays() -> None:
    b = uncork.Builder("two readers")
    x = b.parameter("x", "f32", [20])
    (total,) = b.add("Add", 1, x, x)
    (last,) = b.add("Negative", 1, total)
    b.result(last, "last")
    b.result(total, "total")
    assert [s.kernel.split("_")[0] for s in steps(b.model(), ramp(20))] == ["add", "negative"]


def test_readers_inside_the_tree_are_no_others() -> None:
    """x * sigmoid(x) of a sum: both readers of the sum are in the tree."""
    b = uncork.Builder("swish")
    x = b.parameter("x", "f32", [20])
    (total,) = b.add("Add", 1, x, x)
    (low,) = b.add("Clamp", 1, total, min=-1.0, max=1.0)
    (last,) = b.add("Multiply", 1, total, low)
    b.result(last, "last")
    assert len(steps(b.model(), ramp(20))) == 1


def test_what_is_stretched_is_not_computed_again() -> None:
    b = uncork.Builder("stretched")
    x, y = b.parameter("x", "f32", [40]), b.parameter("y", "f32", [50, 40])
    (row,) = b.add("Sqrt", 1, b.add("Abs", 1, x)[0])
    (last,) = b.add("Add", 1, row, y)
    b.result(last, "last")
    assert [s.kernel.split("_")[0] for s in steps(b.model(), ramp(40), ramp(50, 40))] == [
        "abs",
        "add",
    ]


def test_a_value_for_a_whole_row_is_computed_beside_it() -> None:
    b = uncork.Builder("by row")
    x, y = b.parameter("x", "f32", [50, 1]), b.parameter("y", "f32", [50, 40])
    (scale,) = b.add("Sqrt", 1, b.add("Abs", 1, x)[0])
    (last,) = b.add("Multiply", 1, y, scale)
    b.result(last, "last")
    assert len(steps(b.model(), ramp(50, 1), ramp(50, 40))) == 1


def test_a_slope_by_channel_is_not_read_along_the_last_dimension() -> None:
    b = uncork.Builder("slopes")
    x, slope = b.parameter("x", "f32", [2, 3, 3]), b.parameter("slope", "f32", [3])
    (steeper,) = b.add("Add", 1, slope, slope)
    (last,) = b.add("PReLU", 1, b.add("Negative", 1, x)[0], steeper)
    b.result(last, "last")
    assert len(steps(b.model(), ramp(2, 3, 3), ramp(3))) == 2


def test_booleans_and_conversions_between() -> None:
    b = uncork.Builder("mask")
    ids, x = b.parameter("ids", "i64", [4, 1]), b.parameter("x", "f32", [4, 37])
    (mask,) = b.add("NotEqual", 1, ids, b.constant(np.int64(0)))
    (number,) = b.add("Convert", 1, mask, destination_type="f32")
    (inverse,) = b.add("Subtract", 1, b.constant(np.float32(1)), number)
    (last,) = b.add("Multiply", 1, x, inverse)
    b.result(last, "last")
    assert len(steps(b.model(), np.array([[0], [2**32], [-1], [0]]), ramp(4, 37))) == 1


def test_long_chains_are_cut() -> None:
    b = uncork.Builder("long")
    x = b.parameter("x", "f32", [20])
    value = x
    for i in range(100):
        (value,) = b.add("Add", 1, value, b.constant(np.float32(i / 7)))
    b.result(value, "last")
    assert 4 <= len(steps(b.model(), ramp(20))) <= 12


def test_shapes_known_at_the_call_only() -> None:
    b = uncork.Builder("dynamic")
    x = b.parameter("x", "f32", [None, None])
    (total,) = b.add("Add", 1, x, x)
    (last,) = b.add("Multiply", 1, total, x)
    b.result(last, "last")
    compiled = compile_model(b.model())
    for shape in ((3, 5), (1, 64), (0, 4), (7, 1)):
        a = ramp(*shape)
        np.testing.assert_array_equal(compiled(a)["last"], (a + a) * a)


def test_numbers_that_sizes_are_made_of_are_stored() -> None:
    """A pad of three tenths of a size, rounded as f32 rounds: only the Convert tells it."""
    b = uncork.Builder("pads")
    x = b.parameter("x", "f32", [None])
    (shape,) = b.add("ShapeOf", 3, x, output_type="i64")
    (wide,) = b.add("Convert", 1, shape, destination_type="f32")
    (part,) = b.add("Multiply", 1, wide, b.constant(np.array([0.3], np.float32)))
    (whole,) = b.add("Convert", 1, part, destination_type="i64")
    (less,) = b.add("Subtract", 1, whole, b.constant(np.array([2], np.int64)))
    (twice,) = b.add("Multiply", 1, less, b.constant(np.array([2], np.int64)))
    (pads,) = b.add("Maximum", 1, twice, b.constant(np.array([0], np.int64)))
    zero = b.constant(np.array([0], np.int64))
    (padded,) = b.add("Pad", 12, x, zero, pads, pad_mode="constant")
    b.result(padded, "y")
    compiled = compile_model(b.model())
    for size in (3, 10, 33, 7, 100):
        a = ramp(size)
        wanted = np.pad(a, (0, max(0, 2 * (int(np.float32(size) * np.float32(0.3)) - 2))))
        np.testing.assert_array_equal(compiled(a)["y"], wanted)
    assert compiled.executor.plans.reason == "", "one plan for every size"


OPERATIONS = [
    ("Add", 2),
    ("Subtract", 2),
    ("Multiply", 2),
    ("Maximum", 2),
    ("Negative", 1),
    ("ReLU", 1),
    ("Abs", 1),
    ("Floor", 1),
]


@st.composite
def graphs(draw: st.DrawFn) -> tuple[uncork.Model, list[np.ndarray]]:
    """Graphs of element-wise operations with readers, results and shapes at random."""
    b = uncork.Builder("random")
    whole = draw(st.sampled_from([(33,), (3, 17), (2, 1, 16), (2, 3, 20)]))
    arrays: list[np.ndarray] = []
    values = []
    for i in range(draw(st.integers(1, 3))):
        shape = (
            whole
            if i == 0
            else tuple(1 if draw(st.booleans()) else n for n in whole)[draw(st.integers(0, 1)) :]
        )
        arrays.append(ramp(*shape) * (i + 1))
        values.append(b.parameter(f"x{i}", "f32", shape))
    for _ in range(draw(st.integers(1, 12))):
        name, count = draw(st.sampled_from(OPERATIONS))
        values.append(
            b.add(name, 1, *(draw(st.sampled_from(values[-5:])) for _ in range(count)))[0]
        )
    for i, value in enumerate(
        {
            id(v): v for v in [values[-1], *draw(st.lists(st.sampled_from(values), max_size=2))]
        }.values()
    ):
        b.result(value, f"y{i}")
    return b.model(), arrays


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(case=graphs())
def test_random_graphs(case: tuple[uncork.Model, list[np.ndarray]]) -> None:
    steps(case[0], *case[1])


@pytest.mark.parametrize("axis", [0, 1])
def test_a_bias_lies_along_the_axis_that_the_addition_says(axis: int) -> None:
    """A bias of three numbers beside a product [3, 3]: with `pdpd` the axis tells whether rows or
    columns have one each.
    """
    b = uncork.Builder("bias of rows")
    x = b.parameter("x", "f32", [3, 2])
    (product,) = b.add("MatMul", 1, x, b.constant(np.zeros((2, 3), np.float32)))
    bias = b.constant(np.array([1, 10, 100], np.float32))
    b.result(
        b.add("Add", 1, product, bias, auto_broadcast="pdpd", auto_broadcast_axis=axis)[0], "y"
    )
    steps(b.model(), ramp(3, 2))
    row = [1, 10, 100]
    expected = [row] * 3 if axis else [[n] * 3 for n in row]
    assert compile_model(b.model())(ramp(3, 2))["y"].tolist() == expected


def test_a_number_for_each_image_is_none_for_each_channel() -> None:
    b = uncork.Builder("bias of images")
    x = b.parameter("x", "f32", [2, 1, 1, 1])
    (product,) = b.add(
        "Convolution",
        1,
        x,
        b.constant(np.zeros((2, 1, 1, 1), np.float32)),
        strides=[1, 1],
        dilations=[1, 1],
    )
    bias = b.constant(np.array([1, 10], np.float32).reshape(2, 1, 1))
    b.result(b.add("Add", 1, product, bias, auto_broadcast="pdpd", auto_broadcast_axis=0)[0], "y")
    got = compile_model(b.model())(ramp(2, 1, 1, 1))["y"]
    assert got.reshape(2, 2).tolist() == [[1, 1], [10, 10]]
