"""A tensor whose sizes a later layer asks for may be part of a larger step."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import uncork
from uncork.compiler.compile import compile_model
from uncork.errors import InputError

I64 = np.int64


def reshaped(told: bool) -> uncork.Model:
    """Softmax of the positive part of a product, seen in the sizes of the product, or in sizes that
    the call tells.
    """
    builder = uncork.Builder("sizes of others")
    a = builder.parameter("a", "f32", [None, None, 4])
    b = builder.constant(np.linspace(-1, 1, 20, dtype=np.float32).reshape(4, 5))
    (product,) = builder.add("MatMul", 1, a, b)
    if told:
        sizes = builder.parameter("sizes", "i64", [3])
    else:
        (shape,) = builder.add("ShapeOf", 3, product, output_type="i64")
        zero = builder.constant(np.array(0, I64))
        parts = [
            builder.add("Gather", 8, shape, builder.constant(np.array([i], I64)), zero)[0]
            for i in range(3)
        ]
        (sizes,) = builder.add("Concat", 1, *parts, axis=0)
    flat = builder.constant(np.array([-1], I64))
    (other,) = builder.add("ReLU", 1, product)
    (other,) = builder.add("Reshape", 1, other, flat, special_zero=False)
    (seen,) = builder.add("Reshape", 1, other, sizes, special_zero=False, name="seen")
    (weights,) = builder.add("SoftMax", 8, seen, axis=-1)
    builder.result(weights, "y")
    return builder.model()


@pytest.mark.parametrize("sizes", [(1, 1), (2, 3), (3, 0)])
def test_a_reshape_to_sizes_of_a_product_does_not_keep_it(sizes: tuple[int, int]) -> None:
    """A ReLU ends the product, which nothing else reads."""
    model = reshaped(told=False)
    data = np.arange(np.prod(sizes) * 4, dtype=np.float32).reshape(*sizes, 4)
    compiled = compile_model(model)
    expected = compile_model(model, backend="reference")(data)["y"]
    np.testing.assert_allclose(compiled(data)["y"], expected, rtol=1e-5)
    assert expected.shape == (*sizes, 5)
    kernels = [step.kernel for step in compiled.plan.steps if step.kernel != "view"]
    assert len(kernels) == 2
    assert any("relu" in kernel for kernel in kernels)


def test_a_reshape_to_sizes_that_a_call_tells_refuses_others() -> None:
    compiled = compile_model(reshaped(told=True))
    data = np.ones((2, 3, 4), np.float32)
    assert compiled(data, np.array([5, 3, 2]))["y"].shape == (5, 3, 2)
    with pytest.raises(InputError, match="expected"):
        compiled(data, np.array([5, 3, 3]))
