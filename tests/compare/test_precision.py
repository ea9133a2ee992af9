"""`uncork.compare` in bf16: what rounding factors explains is no difference."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import uncork
from uncork.compare import compare
from uncork.compare.rounding import tolerance
from uncork.kernels.runtime.target import host_target
from uncork.kernels.stored_types import multiplies_pairs

SIZE = 64
GENERATOR = np.random.default_rng(3)
WEIGHTS = [
    (GENERATOR.standard_normal((SIZE, SIZE)) / SIZE**0.5).astype(np.float32) for _ in range(2)
]
X = GENERATOR.standard_normal((9, SIZE)).astype(np.float32)
needs_pairs = pytest.mark.skipif(
    not multiplies_pairs(host_target()), reason="the processor has no products of bf16"
)


def network(path: Path, factor: np.ndarray | float = 1.0) -> str:
    """Two products with a tanh between them; the weights of the second times a factor."""
    builder = uncork.Builder("network")
    x = builder.parameter("x", "f32", [None, SIZE])
    first, second = WEIGHTS[0], (WEIGHTS[1] * factor).astype(np.float32)
    (hidden,) = builder.add("MatMul", 1, x, builder.constant(first), name="first")
    (bent,) = builder.add("Tanh", 1, hidden, name="bent")
    (last,) = builder.add("MatMul", 1, bent, builder.constant(second), name="second")
    builder.result(last, "y")
    uncork.write_model(builder.model(), path)
    return str(path)


@needs_pairs
def test_rounded_factors_are_no_difference(tmp_path: Path) -> None:
    model = network(tmp_path / "model.xml")
    found = compare(model, "reference", [X], precision="bf16")
    assert found.is_same
    verdicts = {layer.node.name: layer.verdict for layer in found.layers}
    assert verdicts["first"] == verdicts["second"] == "rounding"
    # It is bf16 that ran: further off than f32 is. Results are up to 3.
    for layer in found.layers:
        if layer.node.name in ("first", "second"):
            assert layer.difference is not None
            assert 1e-4 < layer.difference.largest < 3 * 2**-7


@needs_pairs
def test_what_rounding_does_not_explain(tmp_path: Path) -> None:
    model = network(tmp_path / "model.xml")
    slight = 1 + GENERATOR.uniform(-1, 1, (SIZE, SIZE)) * 2**-8
    near, far = network(tmp_path / "near.xml", slight), network(tmp_path / "far.xml", 1.1)
    first = compare(model, near, [X]).first
    assert first is not None and first.node.name == "second"
    assert compare(model, near, [X], precision="bf16").is_same
    first = compare(model, far, [X], precision="bf16").first
    assert first is not None and first.node.name == "second"


@pytest.mark.skipif(multiplies_pairs(host_target()), reason="the processor has products of bf16")
def test_a_processor_without_products_of_bf16(tmp_path: Path) -> None:
    model = network(tmp_path / "model.xml")
    with pytest.raises(uncork.UnsupportedError, match="'bf16' needs a CPU with AVX512-BF16"):
        compare(model, "reference", [X], precision="bf16")
    with pytest.raises(uncork.UnsupportedError, match="'bf16' needs kernels"):
        compare(model, "reference", [X], precision="bf16", backend="reference")
    # What is fastest here is f32, whose bounds are those of f32.
    near = network(tmp_path / "near.xml", 1 + 2**-8)
    first = compare(model, near, [X], precision="fast").first
    assert first is not None and first.node.name == "second"


def test_bounds_of_layers() -> None:
    """Two steps of bf16 for layers that multiply, and nothing for others."""
    builder = uncork.Builder("layers")
    x = builder.parameter("x", "f32", [3, SIZE])
    (product,) = builder.add("MatMul", 1, x, builder.constant(WEIGHTS[0]))
    (bent,) = builder.add("Tanh", 1, product)
    builder.result(bent, "y")
    model = builder.model()
    allowed = {}
    for node in model.nodes:
        specs = [model.spec(source) for source in node.inputs]
        if specs:
            made = node.outputs[0].spec if node.outputs else specs[0]
            allowed[node.type_name] = [
                tolerance(node, specs, made, precision) for precision in ("f32", "bf16")
            ]
    single, half = allowed["MatMul"]
    assert half - single == 2 * 2**-7
    assert len({*allowed["Tanh"]}) == 1
