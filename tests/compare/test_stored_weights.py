"""`uncork.compare` of stored weights: what our side rounds shows in the results, within
its bounds.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import uncork
from tests.cli.conftest import Command
from uncork.compare import Comparison, compare
from uncork.compare.rounding import rows_of_stored

INNER, PRODUCTS = 256, 4
X = np.random.default_rng(1).standard_normal((3, INNER)).astype(np.float32)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """x f32[?,256] -> four products by codes of 4 bits, each rounded to f16 on the way -> y."""
    builder = uncork.Builder("stored")
    (generator, last) = np.random.default_rng(2), builder.parameter("x", "f32", [None, INNER])
    sizes = builder.constant(np.array([INNER, INNER]))
    for number in range(PRODUCTS):
        shape = (INNER, INNER // 64, 64)
        codes = builder.constant(generator.integers(0, 16, shape).astype(np.uint8), "u4")
        zeros = builder.constant(generator.integers(4, 12, (*shape[:2], 1)).astype(np.uint8), "u4")
        scales = builder.constant(generator.uniform(0.01, 0.02, (*shape[:2], 1)).astype(np.float16))
        (half,) = builder.add("Convert", 1, codes, destination_type="f16")
        (zero,) = builder.add("Convert", 1, zeros, destination_type="f16")
        (moved,) = builder.add("Subtract", 1, half, zero)
        (scaled,) = builder.add("Multiply", 1, moved, scales)
        (matrix,) = builder.add("Reshape", 1, scaled, sizes, special_zero=False)
        (matrix,) = builder.add("Convert", 1, matrix, destination_type="f32")
        (last,) = builder.add("MatMul", 1, last, matrix, name=f"p{number}", transpose_b=True)
    builder.result(last, "y")
    uncork.write_model(builder.model(), tmp_path / "model.xml")
    return tmp_path / "model.xml"


def moved(found: Comparison) -> float:
    """How far the result lies from the other side's, relative to the largest value."""
    (output,) = found.outputs
    assert output.difference is not None
    return output.difference.largest / 20  # the result's largest value is near 60, and never 20


@pytest.mark.parametrize("against", ["reference", "openvino"])
def test_what_products_may_round(model: Path, against: str) -> None:
    """Rounding of rows is more than f32 explains, and within what is said of it."""
    if against == "openvino":
        pytest.importorskip("openvino")
    for options, least, most in (
        ({"decompression": "f32"}, 0, 2e-3),
        ({"decompression": "f32", "activations": "i16"}, 0, 2e-3),
        ({"decompression": "f32", "activations": "i8"}, 2e-4, 0.2),
    ):
        given: Any = options
        found = compare(model, against, [X], **given)
        assert found.is_same, (options, found.first, found.outputs)
        assert least <= moved(found) < most, options


def test_openvino_rounds_no_rows(model: Path) -> None:
    """Its default does, by 4e-3 of one such product."""
    pytest.importorskip("openvino")
    found = compare(model, "openvino", [X], decompression="f32")
    assert found.is_same and moved(found) < 1e-4


def test_each_product_counts(model: Path) -> None:
    opened = uncork.read_model(model)
    assert rows_of_stored(opened, "f32") == 0
    assert rows_of_stored(opened, "i8") == 2.0**-7 * PRODUCTS**0.5
    assert rows_of_stored(opened, "i16") == 2.0**-15 * PRODUCTS**0.5


def test_options_that_are_none(model: Path) -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'activation'"):
        compare(model, "reference", [X], activation="i8")  # type: ignore[call-arg]
    with pytest.raises(uncork.ValidationError, match="activations: expected 'f32', 'i16' or 'i8'"):
        compare(model, "reference", [X], activations="i4")  # type: ignore[arg-type]
    with pytest.raises(uncork.UnsupportedError, match="activations other than the default need"):
        compare(model, "reference", [X], backend="reference", activations="i8")


def test_the_command(model: Path, tmp_path: Path, command: Command) -> None:
    np.save(tmp_path / "x.npy", X)
    words = ("compare", model, "--against", "reference", "-i", "x.npy", "--json")
    rough = ("--decompression", "f32", "--activations", "i8")
    exact, rounded = command(*words).json, command(*words, *rough).json
    assert exact["same"] and rounded["same"]
    far = [told["outputs"][0]["max_abs"] for told in (exact, rounded)]
    assert far[1] > 10 * far[0]
