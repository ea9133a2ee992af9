"""Which constants of a torch module are parameters."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import uncork
from uncork.ir.model import Source

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("default")]

Wired = Callable[[uncork.Builder, Source], Source]


def constant(builder: uncork.Builder, name: str, value: object) -> Source:
    return builder.constant(np.asarray(value, np.float32), name=name)


def head(builder: uncork.Builder, x: Source) -> Source:
    """A product with weights, of one output."""
    weight = constant(builder, "weight", np.ones((1, 4)))
    return builder.add("MatMul", 1, x, weight, transpose_b=True)[0]


def moved_bias(builder: uncork.Builder, x: Source) -> Source:
    """A convolution of one channel, its dimensions moved, and a bias."""
    target = builder.constant(np.array([-1, 1, 2, 2]))
    (image,) = builder.add("Reshape", 1, x, target, special_zero=False)
    weight = constant(builder, "weight", np.ones((1, 1, 1, 1)))
    options = {"strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1]}
    (y,) = builder.add("Convolution", 1, image, weight, **options)
    (y,) = builder.add("Transpose", 1, y, builder.constant(np.array([0, 2, 3, 1])))
    return builder.add("Add", 1, y, constant(builder, "bias", [0.25]))[0]


def scaled_and_masked(builder: uncork.Builder, x: Source) -> Source:
    y = builder.add("Multiply", 1, head(builder, x), constant(builder, "scale", 0.125))[0]
    masks = [0, -np.inf], [0, np.finfo("f4").min]
    for i, mask in enumerate(masks):
        (y,) = builder.add("Add", 1, y, constant(builder, f"mask{i}", mask))
    (y,) = builder.add("Maximum", 1, y, constant(builder, "least", [-3, -4]))
    return y


def epsilon(builder: uncork.Builder, x: Source) -> Source:
    (y,) = builder.add("Multiply", 1, head(builder, x), head_again(builder, x))
    (y,) = builder.add("Add", 1, y, constant(builder, "epsilon", [[1e-5]]))
    return builder.add("Sqrt", 1, y)[0]


def head_again(builder: uncork.Builder, x: Source) -> Source:
    return builder.add("MatMul", 1, x, constant(builder, "again", np.ones((4, 1))))[0]


def after_normalisation(builder: uncork.Builder, x: Source) -> Source:
    """A layer with weights, its mean taken, and scale and shift of each column."""
    (y,) = builder.add(
        "MatMul", 1, x, constant(builder, "weight", np.ones((4, 2))), transpose_b=False
    )
    axes = builder.constant(np.array([-1]))
    (y,) = builder.add("MVN", 6, y, axes, eps=1e-5, eps_mode="inside_sqrt", normalize_variance=True)
    (y,) = builder.add("Multiply", 1, y, constant(builder, "gamma", [1, 2]))
    return builder.add("Add", 1, y, constant(builder, "beta", [1, 2]))[0]


def prepared(builder: uncork.Builder, x: Source) -> Source:
    """Means and deviations of an input, before the first layer with weights."""
    (y,) = builder.add("Subtract", 1, x, constant(builder, "mean", [1, 2, 3, 4]))
    (y,) = builder.add("Divide", 1, y, constant(builder, "deviation", [1, 2, 3, 4]))
    return head(builder, y)


def statistics(builder: uncork.Builder, x: Source) -> Source:
    names = ("gamma", "beta", "average", "variance")
    given = [constant(builder, name, np.ones(4)) for name in names]
    return builder.add("BatchNormInference", 5, x, *given, epsilon=1e-3)[0]


@pytest.mark.parametrize(
    ("wired", "trained"),
    [
        (moved_bias, {"weight", "bias"}),
        (scaled_and_masked, {"weight"}),
        (epsilon, {"weight", "again"}),
        (after_normalisation, {"weight", "gamma", "beta"}),
        (prepared, {"weight"}),
        (statistics, {"gamma", "beta"}),
    ],
)
def test_parameters(wired: Wired, trained: set[str]) -> None:
    builder = uncork.Builder("net")
    x = builder.parameter("x", "f32", [None, 4])
    builder.result(wired(builder, x), "y")
    module = uncork.to_torch(builder.model())
    assert {module.layers[name] for name, _ in module.named_parameters()} == trained
    given = np.arange(8, dtype=np.float32).reshape(2, 4)
    with np.errstate(all="ignore"):
        wanted = uncork.compile_model(builder.model(), backend="reference")(given)[0]
    with torch.no_grad():
        np.testing.assert_allclose(module(torch.from_numpy(given)), wanted, 1e-5)


def test_a_bias_of_one_number_is_trained_and_comes_back() -> None:
    builder = uncork.Builder("head")
    x = builder.parameter("x", "f32", [None, 4])
    (y,) = builder.add("Add", 1, head(builder, x), constant(builder, "bias", [[0.25]]))
    builder.result(y, "y")
    model = builder.model()
    module = uncork.to_torch(model)
    (bias,) = (p for name, p in module.named_parameters() if module.layers[name] == "bias")
    optimizer = torch.optim.SGD(module.parameters(), lr=0.5)
    module(torch.zeros(2, 4)).sum().backward()
    assert float(bias.grad) == 2
    optimizer.step()
    assert float(bias.detach()) == -0.75
    trained = uncork.with_constants(model, module.state_dict())
    assert uncork.compile_model(trained)(np.zeros((1, 4), np.float32))[0].tolist() == [[-0.75]]
