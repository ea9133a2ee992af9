"""Operations element by element before the moves that they followed: where that is done, where it
is not, and that the results are the layers'.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import uncork
from uncork.compiler.compile import compile_model
from uncork.compiler.compiled_model import compile_for
from uncork.ir.model import Source
from uncork.kernels.runtime.target import LEVELS

GENERATOR = np.random.default_rng(4)


def numbers(*shape: int) -> np.ndarray:
    return GENERATOR.standard_normal(shape).astype(np.float32)


def kernels(builder: uncork.Builder, *arrays: np.ndarray) -> list[str]:
    """The kernels of the steps, after both backends agreed on these arrays."""
    model = builder.model()
    fast, slow = compile_model(model), compile_model(model, backend="reference")
    for a, b in zip(fast(*arrays), slow(*arrays), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-5 * max(1.0, float(np.abs(b).max())))
    return [step.kernel for step in fast.plan.steps]


def moved(b: uncork.Builder, x: Source, order: list[int], shape: list[int]) -> Source:
    """Transposed, then of another shape."""
    (x,) = b.add("Transpose", 1, x, b.constant(np.array(order)))
    return b.add("Reshape", 1, x, b.constant(np.array(shape)), special_zero=False)[0]


@pytest.mark.parametrize("size", [4, None])
def test_an_activation_ends_the_convolution_whose_result_is_moved(size: int | None) -> None:
    """As in Mix-FFN: a depthwise convolution, tokens again, Gelu; two operations, one after the
    other, and a number that is the same for all.
    """
    b = uncork.Builder("mix")
    x = b.parameter("x", "f32", [size, 16, 6, 5])
    around = {"strides": [1, 1], "dilations": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1]}
    (y,) = b.add("GroupConvolution", 1, x, b.constant(numbers(16, 1, 1, 3, 3)), **around)
    (y,) = b.add("Add", 1, y, b.constant(numbers(1, 16, 1, 1)))
    (y,) = b.add("Gelu", 7, moved(b, y, [0, 2, 3, 1], [-1, 30, 16]), approximation_mode="ERF")
    (y,) = b.add("Multiply", 1, b.constant(np.float32([[0.5]])), y)
    b.result(b.add("MatMul", 1, y, b.constant(numbers(16, 8)))[0], "y")
    kernels(b, numbers(4, 16, 6, 5))
    # With vectors of 16 lanes: shorter ones leave a convolution of 16 channels in planes.
    wide = compile_for(b.model(), LEVELS["x86-64-v4"], 1).plan
    found = [step.kernel for step in wide.steps]
    (ends,) = [kernel for kernel in found if "gelu" in kernel]
    assert "gelu_multiply" in ends and ends.startswith("depthwise")


def test_it_joins_a_layer_element_by_element() -> None:
    b = uncork.Builder("joined")
    x, z = b.parameter("x", "f32", [3, 4, 5]), b.parameter("z", "f32", [3, 4, 5])
    y = moved(b, b.add("Multiply", 1, x, z)[0], [2, 0, 1], [15, 4])
    b.result(b.add("Tanh", 1, y)[0], "y")
    found = kernels(b, numbers(3, 4, 5), numbers(3, 4, 5))
    assert "multiply_tanh" in found[0] and "tanh" not in "".join(found[1:])


def test_chains_that_follow_each_other() -> None:
    """The operation at the end of one chain is the first layer of the next."""
    b = uncork.Builder("chains")
    y = b.add("Multiply", 1, *(b.parameter(name, "f32", [3, 4]) for name in "xz"))[0]
    for number, kind in enumerate(("Tanh", "Abs", "Sqrt")):
        order = b.constant(np.array([1, 0]))
        (y,) = b.add(kind, 1, b.add("Transpose", 1, y, order, name=f"t{number}")[0])
    b.result(y, "y")
    assert kernels(b, numbers(3, 4), numbers(3, 4))[0].startswith("multiply_tanh_abs_sqrt")


def _read_twice(b: uncork.Builder, y: Source) -> Source:
    order = b.constant(np.array([1, 0]))
    (turned,) = b.add("Transpose", 1, y, order)
    b.result(turned, "between")
    return b.add("Tanh", 1, turned)[0]


def _of_columns(b: uncork.Builder, y: Source) -> Source:
    (turned,) = b.add("Transpose", 1, y, b.constant(np.array([1, 0])))
    return b.add("Multiply", 1, turned, b.constant(numbers(3)))[0]


def _of_more_dimensions(b: uncork.Builder, y: Source) -> Source:
    (turned,) = b.add("Transpose", 1, y, b.constant(np.array([1, 0])))
    return b.add("Add", 1, turned, b.constant(np.float32([[[1.0]]])))[0]


def _of_itself(b: uncork.Builder, y: Source) -> Source:
    (turned,) = b.add("Transpose", 1, y, b.constant(np.array([1, 0])))
    return b.add("Multiply", 1, turned, turned)[0]


@pytest.mark.parametrize("near", [_read_twice, _of_columns, _of_more_dimensions, _of_itself])
def test_what_comes_near_stays(near: object) -> None:
    b = uncork.Builder("near")
    (y,) = b.add("Exp", 1, b.parameter("x", "f32", [3, 4]))
    assert callable(near)
    b.result(near(b, y), "y")
    found = kernels(b, numbers(3, 4))
    assert found[0].startswith("exp_f32")
    assert found[1].startswith(("copy_table", "transpose"))


def test_the_call_tells_the_shape_and_may_be_refused() -> None:
    """A Reshape to a shape that only the call knows stays where it is."""
    b = uncork.Builder("told")
    (y,) = b.add("Exp", 1, b.parameter("x", "f32", [3, 4]))
    shape = b.parameter("shape", "i64", [2])
    (y,) = b.add("Reshape", 1, y, shape, special_zero=False)
    b.result(b.add("Tanh", 1, y)[0], "y")
    found = kernels(b, numbers(3, 4), np.array([2, 6]))
    assert sum("tanh" in kernel for kernel in found) == 1
    assert not found[0].startswith("exp_tanh")


@pytest.mark.parametrize("size", [4, None])
def test_a_constant_along_the_columns_ends_the_product(size: int | None) -> None:
    """A bias of each head's columns, behind the Reshape that parts the heads."""
    b = uncork.Builder("heads")
    x = b.parameter("x", "f32", [size, 7, 24])
    (y,) = b.add("MatMul", 1, x, b.constant(numbers(24, 30)))
    (y,) = b.add("Reshape", 1, y, b.constant(np.array([0, 7, 5, 6])), special_zero=True)
    (y,) = b.add("Add", 1, y, b.constant(numbers(5, 6)))
    b.result(b.add("Tanh", 1, y)[0], "y")
    found = kernels(b, numbers(4, 7, 24))
    assert any(kernel.startswith("matmul") and "add_tanh" in kernel for kernel in found)


@pytest.mark.parametrize("size", [3, None])
def test_a_bias_of_channels_behind_flattened_pixels(size: int | None) -> None:
    b = uncork.Builder("flattened")
    x = b.parameter("x", "f32", [size, 16, 6, 5])
    around = {"strides": [1, 1], "dilations": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1]}
    (y,) = b.add("Convolution", 1, x, b.constant(numbers(32, 16, 3, 3)), **around)
    (y,) = b.add("Reshape", 1, y, b.constant(np.array([0, 32, -1])), special_zero=True)
    b.result(b.add("Add", 1, y, b.constant(numbers(32, 1)))[0], "y")
    kernels(b, numbers(3, 16, 6, 5))
    plan = compile_for(b.model(), LEVELS["x86-64-v4"], 1).plan
    assert [step.kernel for step in plan.steps if step.kernel.startswith("add")] == []


@pytest.mark.parametrize(
    ("shape", "bias"),
    [
        ([4, 7, 5, 6], (7, 1, 1)),  # along rows
        ([4, 7, 5, 6], (7, 5, 6)),  # along both
        ([2, 2, 7, 30], (2, 1, 1, 1)),  # along a part of the batch
        ([4, 42, 5], (42, 1)),  # rows and columns go together
    ],
)
def test_constants_along_other_dimensions(shape: list[int], bias: tuple[int, ...]) -> None:
    b = uncork.Builder("others")
    x = b.parameter("x", "f32", [4, 7, 24])
    (y,) = b.add("MatMul", 1, x, b.constant(numbers(24, 30)))
    (y,) = b.add("Reshape", 1, y, b.constant(np.array(shape)), special_zero=False)
    b.result(b.add("Add", 1, y, b.constant(numbers(*bias)))[0], "y")
    assert "add" not in kernels(b, numbers(4, 7, 24))[0]


def test_a_constant_that_makes_the_tensor_larger() -> None:
    b = uncork.Builder("larger")
    x = b.parameter("x", "f32", [4, 24])
    (y,) = b.add("MatMul", 1, x, b.constant(numbers(24, 30)))
    (y,) = b.add("Reshape", 1, y, b.constant(np.array([4, 1, 30])), special_zero=False)
    b.result(b.add("Add", 1, y, b.constant(numbers(3, 30)))[0], "y")
    assert "add" not in kernels(b, numbers(4, 24))[0]
