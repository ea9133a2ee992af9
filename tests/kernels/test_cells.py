"""Kernels of GRU, LSTM and RNN cells: sizes around blocks, attributes, weights of the call."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import uncork
from tests.kernels._run import run_native, spec_of
from uncork.kernels.kernel_plan import KernelPlan
from uncork.ops import Operation, find
from uncork.ops._common.recurrent import Recurrent
from uncork.types import ElementType, TensorSpec

CELLS: list[tuple[str, int, dict[str, Any]]] = [
    ("GRUCell", 3, {"linear_before_reset": True}),
    ("GRUCell", 3, {"linear_before_reset": False, "clip": 0.5}),
    ("LSTMCell", 1, {}),
    ("LSTMCell", 4, {"clip": 0.5, "activations": ("relu", "tanh", "sigmoid")}),
    ("RNNCell", 1, {}),
]


#: Errors of a step, by the type.
EXACT = {"f32": (1e-5, 3e-6), "f64": (1e-13, 1e-14)}


def inputs_of(
    operation: Operation, batch: int, inner: int = 5, element_type: str = "f32"
) -> list[TensorSpec]:
    """X, states, W, R and B; a larger R doubles every rounding."""
    assert isinstance(operation, Recurrent)
    hidden, gates = operation.hidden_size, operation.gates
    generator = np.random.default_rng(hidden * 100 + batch)

    def draw(*shape: int) -> TensorSpec:
        kind = ElementType.parse(element_type)
        return spec_of(generator.standard_normal(shape).astype(kind.dtype), kind)

    states = [draw(batch, hidden) for _ in range(len(operation.outputs))]
    weights = [draw(gates * hidden, inner), draw(gates * hidden, hidden)]
    weights[1].value[...] /= np.sqrt(hidden)
    return [draw(batch, inner), *states, *weights, draw(operation.bias_count() * hidden)]


@pytest.mark.parametrize("hidden", [1, 15, 16, 17, 33, 70])
@pytest.mark.parametrize("batch", [1, 2, 8, 9, 17])
@pytest.mark.parametrize(("type_name", "opset", "attributes"), CELLS)
@pytest.mark.parametrize("element_type", EXACT)
def test_sizes(
    type_name: str,
    opset: int,
    attributes: dict[str, Any],
    hidden: int,
    batch: int,
    element_type: str,
) -> None:
    operation = find(type_name, opset)(hidden_size=hidden, **attributes)
    given = inputs_of(operation, batch, element_type=element_type)
    relative, absolute = EXACT[element_type]
    if element_type == "f64" and "clip" in attributes:
        assert run_native(operation, given)[1] == "no kernel for f64 that is clipped"
        return
    for specs in (given, given[:-1]):  # B is optional
        results, choice = run_native(operation, specs)
        assert isinstance(choice, KernelPlan), choice
        assert results is not None
        for got, wanted in zip(results, operation.evaluate(specs), strict=True):
            np.testing.assert_allclose(got, wanted.value, rtol=relative, atol=absolute)


@pytest.mark.parametrize(("type_name", "opset", "attributes"), CELLS)
@pytest.mark.parametrize("element_type", EXACT)
def test_weights_of_the_call(
    type_name: str, opset: int, attributes: dict[str, Any], element_type: str
) -> None:
    """And of any batch, one after the other."""
    if element_type == "f64":
        attributes = {name: value for name, value in attributes.items() if name != "clip"}
    relative, absolute = EXACT[element_type]
    operation = find(type_name, opset)(hidden_size=20, **attributes)
    builder = uncork.Builder("cell")
    parameters = []
    for number, spec in enumerate(inputs_of(operation, 1, element_type=element_type)):
        is_data = number <= len(operation.outputs)
        shape = [None, *spec.shape.static[1:]] if is_data else list(spec.shape.static)
        parameters.append(builder.parameter(str(number), element_type, shape))
    for output in builder.add(type_name, opset, *parameters, hidden_size=20, **attributes):
        builder.result(output)
    compiled = uncork.compile_model(builder.model())
    assert [step.kernel != "reference" for step in compiled.plan.steps] == [True]
    for batch in (3, 1, 9, 3):
        given = inputs_of(operation, batch, element_type=element_type)
        for got, wanted in zip(
            compiled(*[spec.value for spec in given]), operation.evaluate(given), strict=True
        ):
            np.testing.assert_allclose(got, wanted.value, rtol=relative, atol=absolute)


def test_coupled_gates_have_no_kernel() -> None:
    operation = find("LSTMCell", 1)(hidden_size=4, input_forget=True)
    results, why = run_native(operation, inputs_of(operation, 2))
    assert results is None and why == "no kernel for coupled gates"
    plain = find("LSTMCell", 1)(hidden_size=4)
    specs = [spec_of(s.value.astype(np.float16), ElementType.f16) for s in inputs_of(plain, 2)]
    assert run_native(plain, specs)[1] == "no kernel for f16"
