"""`decompression` and `activations`: what the caller lets products with stored weights round."""

from __future__ import annotations

import numpy as np
import pytest

import uncork
from uncork.errors import UnsupportedError, ValidationError
from uncork.internal_ops.compressed_linear import rounded_rows

pytest.importorskip("llvmlite")

COLUMNS, INNER, GROUP = 24, 256, 64


def model(half: bool = True) -> tuple[uncork.Model, np.ndarray]:
    """A product with weights u4 in groups, with zero points, in f16 or f32, and the exact matrix
    without any rounding.
    """
    generator = np.random.default_rng(3)
    b = uncork.Builder()
    x = b.parameter("x", "f32", [None, INNER])
    codes = generator.integers(0, 16, (COLUMNS, INNER // GROUP, GROUP)).astype(np.uint8)
    zeros = generator.integers(3, 12, (COLUMNS, INNER // GROUP, 1)).astype(np.uint8)
    scales = generator.uniform(0.01, 0.02, (COLUMNS, INNER // GROUP, 1)).astype(np.float16)
    kind = "f16" if half else "f32"
    (m,) = b.add("Convert", 1, b.constant(codes, "u4"), destination_type=kind)
    (z,) = b.add("Convert", 1, b.constant(zeros, "u4"), destination_type=kind)
    (m,) = b.add("Subtract", 1, m, z)
    s = b.constant(scales if half else scales.astype(np.float32))
    (m,) = b.add("Multiply", 1, m, s)
    (m,) = b.add("Reshape", 1, m, b.constant(np.array([COLUMNS, INNER])), special_zero=False)
    if half:
        (m,) = b.add("Convert", 1, m, destination_type="f32")
    (y,) = b.add("MatMul", 1, x, m, transpose_b=True)
    b.result(y, "y")
    exact = (codes.astype(np.float64) - zeros) * scales.astype(np.float64)
    return b.model(), exact.reshape(COLUMNS, INNER)


@pytest.mark.parametrize("rows", [1, 2, 3, 7, 40])
def test_decompression_in_f32_is_the_product_that_was_meant(rows: int) -> None:
    given, exact = model()
    x = np.random.default_rng(rows).standard_normal((rows, INNER)).astype(np.float32)
    meant = x.astype(np.float64) @ exact.T
    written = uncork.compile_model(given)(x)["y"]
    near = uncork.compile_model(given, decompression="f32")(x)["y"]
    most = np.abs(meant).max()
    assert np.abs(near - meant).max() < 2e-6 * most
    assert np.abs(written - meant).max() > 2e-5 * most  # what f16 rounds
    (plain,) = [uncork.compile_model(model(half=False)[0])(x)["y"]]
    np.testing.assert_array_equal(near, plain)


def by_hand(x: np.ndarray, run: int, most: int) -> np.ndarray:
    """Rows as whole multiples of a unit for each run, in f64."""
    rounded = np.empty(x.shape)
    for first in range(0, x.shape[1], run):
        part = x[:, first : first + run].astype(np.float64)
        unit = np.abs(part).max(axis=1, keepdims=True) / most
        rounded[:, first : first + run] = np.rint(part / unit) * unit
    return rounded


@pytest.mark.parametrize(("activations", "run", "most"), [("i16", 64, 127 * 256), ("i8", 32, 127)])
@pytest.mark.parametrize("rows", [1, 2, 5, 7, 40])
def test_activations_are_whole_numbers(activations: str, run: int, most: int, rows: int) -> None:
    given, exact = model()
    x = np.random.default_rng(rows).standard_normal((rows, INNER)).astype(np.float32)
    compiled = uncork.compile_model(given, decompression="f32", activations=activations)  # type: ignore[arg-type]
    got = compiled(x)["y"]
    if not any("dot_" in step.kernel for step in compiled.plan_for(x=[rows, INNER]).steps):
        pytest.skip("the processor has no products of four bytes")
    rounded = rounded_rows(x, run, 1 + (most > 127)).astype(np.float64)
    off = np.abs(rounded - by_hand(x, run, most))
    # A number half way between two may fall to the other one.
    assert (off > 1e-6).mean() < 0.01 and off.max() <= 1.01 * np.abs(x).max() / most
    expected = rounded @ exact.T
    assert np.abs(got - expected).max() < 2e-6 * np.abs(expected).max()
    assert np.abs(got - x.astype(np.float64) @ exact.T).max() > 1e-6 * np.abs(expected).max()


def test_rows_that_have_no_unit_are_kept() -> None:
    x = np.ones((3, 64), np.float32)
    x[0, 3], x[1, 5] = np.nan, 2.0**70
    x[2] *= 1.00001
    x[2, 0] = 100
    rounded = rounded_rows(x, 32, 1)
    np.testing.assert_array_equal(rounded[:2], x[:2])
    assert (rounded[2] != x[2]).any()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"decompression": "f16"}, "decompression: expected 'as-written' or 'f32', got 'f16'"),
        ({"activations": "u8"}, "activations: expected 'f32', 'i16' or 'i8', got 'u8'"),
    ],
)
def test_wrong_words(options: dict[str, str], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        uncork.compile_model(model()[0], **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "options", [{"decompression": "f32"}, {"activations": "i8"}, {"activations": "i16"}]
)
def test_references_keep_what_is_written(options: dict[str, str]) -> None:
    with pytest.raises(UnsupportedError, match=f"{next(iter(options))} other than the default"):
        uncork.compile_model(model()[0], backend="reference", **options)  # type: ignore[arg-type]
