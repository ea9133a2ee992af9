"""What ends a product becomes part of its step: what does, what stays apart, and that the results
are the layers'.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("llvmlite")

import uncork
from uncork.compiler.compile import compile_model
from uncork.ir.model import Source
from uncork.kernels.kernel_spec import KernelSpec
from uncork.kernels.runtime.kernel_cache import Preparation, Wanted

GENERATOR = np.random.default_rng(5)
WINDOW = {"strides": [1, 1], "dilations": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1]}
#: Data, weights and result of each kind of product.
SHAPES = {
    "MatMul": ([3, 7, 20], [20, 33], [3, 7, 33]),
    "Convolution": ([2, 6, 5, 19], [33, 6, 3, 3], [2, 33, 5, 19]),
    "few pixels": ([2, 6, 2, 3], [33, 6, 3, 3], [2, 33, 2, 3]),
    "GroupConvolution": ([2, 33, 5, 19], [33, 1, 1, 3, 3], [2, 33, 5, 19]),
    "ConvolutionBackpropData": ([2, 6, 5, 19], [6, 33, 3, 3], [2, 33, 5, 19]),
}
Build = Callable[[uncork.Builder, Source], Source]


def numbers(*shape: int) -> np.ndarray:
    return GENERATOR.standard_normal(shape).astype(np.float32)


def product(b: uncork.Builder, kind: str, x: Source) -> Source:
    name = "Convolution" if kind == "few pixels" else kind
    (y,) = b.add(
        name, 1, x, b.constant(numbers(*SHAPES[kind][1])), **({} if kind == "MatMul" else WINDOW)
    )
    return y


def channels(kind: str) -> np.ndarray:
    return numbers(33) if kind == "MatMul" else numbers(1, 33, 1, 1)


def agree(model: uncork.Model, *arrays: np.ndarray) -> list[str]:
    """The operations of the steps, after both backends agreed on these arrays."""
    fast, slow = compile_model(model), compile_model(model, backend="reference")
    for a, b in zip(fast(*arrays), slow(*arrays), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5)
    assert all(step.kernel != "reference" for step in fast.plan.steps)
    return [step.operation for step in fast.plan.steps]


@pytest.mark.parametrize("kind", SHAPES)
@pytest.mark.parametrize(
    ("name", "attributes"),
    [
        ("Clamp", {"min": 0.0, "max": 6.0}),
        ("Swish", {}),
        ("Gelu", {}),
        ("HSwish", {}),
        ("Elu", {"alpha": 0.5}),
        ("Mish", {}),
        ("Exp", {}),
    ],
)
def test_activations(kind: str, name: str, attributes: dict[str, float]) -> None:
    b = uncork.Builder("activation")
    data, _, _ = SHAPES[kind]
    y = product(b, kind, b.parameter("x", "f32", data))
    (y,) = b.add("Add", 1, y, b.constant(channels(kind)))
    (y,) = b.add(
        name, {"Swish": 4, "HSwish": 4, "Gelu": 7, "Mish": 4}.get(name, 1), y, **attributes
    )
    b.result(y, "y")
    assert len(agree(b.model(), numbers(*data))) == 1


@pytest.mark.parametrize("kind", SHAPES)
def test_slopes_scales_and_residuals(kind: str) -> None:
    b = uncork.Builder("residual")
    data, _, result = SHAPES[kind]
    x, other = b.parameter("x", "f32", data), b.parameter("other", "f32", result)
    y = product(b, kind, x)
    if kind != "MatMul":
        (y,) = b.add("PReLU", 1, y, b.constant(numbers(33)))
    (y,) = b.add("Multiply", 1, b.constant(channels(kind)), y)
    (y,) = b.add("Subtract", 1, other, y)
    (y,) = b.add("Divide", 1, y, b.constant(np.float32(3)))
    b.result(y, "y")
    assert len(agree(b.model(), numbers(*data), numbers(*result))) == 1


@pytest.mark.parametrize("kind", SHAPES)
def test_an_activation_that_is_spelled_out(kind: str) -> None:
    """x * sigmoid(x) reads the sums twice, and nothing else does."""
    b = uncork.Builder("spelled")
    data, _, _ = SHAPES[kind]
    y = product(b, kind, b.parameter("x", "f32", data))
    (s,) = b.add("Sigmoid", 1, y)
    b.result(b.add("Multiply", 1, y, s)[0], "y")
    assert len(agree(b.model(), numbers(*data))) == 1


def test_sums_of_two_products_are_the_end_of_one() -> None:
    b = uncork.Builder("two")
    x, z = (b.parameter(name, "f32", [2, 6, 5, 19]) for name in "xz")
    first, second = product(b, "Convolution", x), product(b, "Convolution", z)
    (y,) = b.add("ReLU", 1, b.add("Add", 1, first, second)[0])
    b.result(y, "y")
    found = agree(b.model(), numbers(2, 6, 5, 19), numbers(2, 6, 5, 19))
    assert found == ["Convolution-1", "FusedConvolution-0"]


def test_what_others_read_ends_the_step() -> None:
    b = uncork.Builder("read")
    x = b.parameter("x", "f32", [2, 6, 5, 19])
    (between,) = b.add("ReLU", 1, product(b, "Convolution", x))
    (last,) = b.add("Negative", 1, between)
    b.result(between, "between")
    b.result(last, "last")
    assert agree(b.model(), numbers(2, 6, 5, 19)) == ["FusedConvolution-0", "Negative-1"]


@pytest.mark.parametrize("shape", [[2, 1, 5, 19], [5, 19], [2, 33, 1, 1]])
def test_operands_that_lie_otherwise_stay_apart(shape: list[int]) -> None:
    b = uncork.Builder("apart")
    x, other = b.parameter("x", "f32", [2, 6, 5, 19]), b.parameter("other", "f32", shape)
    b.result(b.add("Multiply", 1, product(b, "Convolution", x), other)[0], "y")
    assert agree(b.model(), numbers(2, 6, 5, 19), numbers(*shape)) == [
        "Convolution-1",
        "Multiply-1",
    ]


def test_a_result_that_grows_stays_apart() -> None:
    """The product is one operand of a larger result."""
    b = uncork.Builder("grows")
    x, other = b.parameter("x", "f32", [7, 20]), b.parameter("other", "f32", [4, 7, 33])
    (y,) = b.add("MatMul", 1, x, b.constant(numbers(20, 33)))
    b.result(b.add("Add", 1, y, other)[0], "y")
    assert agree(b.model(), numbers(7, 20), numbers(4, 7, 33)) == ["MatMul-1", "Add-1"]


@pytest.mark.parametrize("kind", SHAPES)
def test_results_of_other_types_stay_apart(kind: str) -> None:
    """A mask by a threshold, and pixels as whole numbers."""
    b = uncork.Builder("types")
    x = b.parameter("x", "f32", SHAPES[kind][0])
    for n in range(2):
        (y,) = b.add("ReLU", 1, product(b, kind, x))
        if n:
            b.result(b.add("Convert", 1, y, destination_type="i32")[0], "whole")
        else:
            b.result(b.add("Greater", 1, y, b.constant(np.float32(0.5)))[0], "mask")
    data = numbers(*SHAPES[kind][0])
    compiled = compile_model(b.model(), threads=1)
    found, wanted = compiled(data), compile_model(b.model(), backend="reference")(data)
    assert {step.kernel for step in compiled.plan.steps}.isdisjoint({"reference"})
    for got, expected in zip(
        found, wanted, strict=True
    ):  # a sum beside the border may fall to either side
        assert np.mean(got != expected) < 0.01


def test_residuals_of_three_axes_stay_apart() -> None:
    b = uncork.Builder("volumes")
    x, other = (
        b.parameter("x", "f32", [1, 4, 3, 5, 6]),
        b.parameter("other", "f32", [1, 4, 3, 5, 6]),
    )
    around = {"strides": [1] * 3, "dilations": [1] * 3, "pads_begin": [1] * 3, "pads_end": [1] * 3}
    (y,) = b.add("Convolution", 1, x, b.constant(numbers(4, 4, 3, 3, 3)), **around)
    (y,) = b.add("Add", 1, y, b.constant(numbers(1, 4, 1, 1, 1)))
    b.result(b.add("Add", 1, y, other)[0], "y")
    assert agree(b.model(), *[numbers(1, 4, 3, 5, 6)] * 2) == ["FusedConvolution-0", "Add-1"]


def test_what_no_kernel_multiplies_is_ended_by_one() -> None:
    b = uncork.Builder("long")
    x = b.parameter("x", "f32", [2, 5000])
    (y,) = b.add("MatMul", 1, x, b.constant(numbers(5000, 8) / 70))
    b.result(b.add("ReLU", 1, b.add("Add", 1, y, b.constant(numbers(8)))[0])[0], "y")
    compiled = compile_model(b.model())
    data = numbers(2, 5000)
    np.testing.assert_allclose(
        compiled(data)["y"],
        compile_model(b.model(), backend="reference")(data)["y"],
        rtol=1e-5,
        atol=1e-5,
    )
    kernels = [(step.operation, step.kernel == "reference") for step in compiled.plan.steps]
    assert ("MatMul-1", True) not in kernels or kernels == [("MatMul-1", True), ("Fused-0", False)]


def test_open_sizes() -> None:
    """One plan for all sizes has the residual inside, too: its sizes are those of the result."""
    b = uncork.Builder("open")
    x = b.parameter("x", "f32", [None, 33, None, None])
    (y,) = b.add("Convolution", 1, x, b.constant(numbers(33, 33, 3, 3)), **WINDOW)
    (y,) = b.add("ReLU", 1, b.add("Add", 1, y, x)[0])
    b.result(y, "y")
    model = b.model()
    fast, slow = compile_model(model), compile_model(model, backend="reference")
    for shape in ([1, 33, 5, 19], [2, 33, 1, 3], [1, 33, 7, 40]):
        data = numbers(*shape)
        np.testing.assert_allclose(fast(data)["y"], slow(data)["y"], rtol=2e-5, atol=2e-5)
    assert [step.operation for step in fast.plan.steps] == ["FusedConvolution-0"]


WORDS: Sequence[tuple[str, int]] = (
    ("Add", 2),
    ("Multiply", 2),
    ("Maximum", 2),
    ("ReLU", 1),
    ("Negative", 1),
    ("Tanh", 1),
    ("Abs", 1),
)


@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_random(data: st.DataObject) -> None:
    """Whatever follows a product, in any order and with any readers."""
    kind = data.draw(st.sampled_from(list(SHAPES)))
    b = uncork.Builder("random")
    given_shape, _, result = SHAPES[kind]
    x, other = b.parameter("x", "f32", given_shape), b.parameter("other", "f32", result)
    values = [product(b, kind, x)]
    outside = [
        other,
        b.constant(channels(kind)),
        b.constant(numbers(1)),
        b.constant(numbers(*result)),
    ]
    for _ in range(data.draw(st.integers(1, 9))):
        name, count = data.draw(st.sampled_from(WORDS))
        inputs = [data.draw(st.sampled_from(values))]
        if count == 2:
            inputs.append(data.draw(st.sampled_from([*values, *outside])))
        if data.draw(st.booleans()):
            inputs.reverse()
        values.append(b.add(name, 1, *inputs)[0])
    for number, value in enumerate(
        data.draw(st.lists(st.sampled_from(values), max_size=2, unique_by=id))
    ):
        b.result(value, f"r{number}")
    b.result(values[-1], "last")
    agree(b.model(), numbers(*given_shape), numbers(*result))


@pytest.mark.parametrize("word", ["Add", "Multiply"])
def test_a_residual_on_either_side_is_one_kernel(
    word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """a + b is b + a, to the bit: nothing is compiled twice for it."""
    asked: list[set[KernelSpec]] = []
    add = Preparation.add

    def recorded(
        self: Preparation, specs: Sequence[KernelSpec], further: Sequence[Wanted] = ()
    ) -> None:
        asked[-1].update(specs)
        add(self, specs, further)

    monkeypatch.setattr(Preparation, "add", recorded)
    for first in (True, False):
        asked.append(set())
        b = uncork.Builder("residual")
        x, r = (
            b.parameter("x", "f32", SHAPES["Convolution"][0]),
            b.parameter("r", "f32", SHAPES["Convolution"][2]),
        )
        (y,) = b.add("Add", 1, product(b, "Convolution", x), b.constant(channels("Convolution")))
        b.result(b.add("ReLU", 1, b.add(word, 1, *((r, y) if first else (y, r)))[0])[0], "y")
        operations = agree(
            b.model(), numbers(*SHAPES["Convolution"][0]), numbers(*SHAPES["Convolution"][2])
        )
        assert len(operations) == 1, "all is one step"
    assert asked[0] and asked[0] == asked[1]
