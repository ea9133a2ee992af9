"""Where there are no data the number 0 of the type is written, by kernels and references."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import uncork
from uncork import storage
from uncork.types import ElementType

VALUES = np.array([[1, 0.5], [2, 1], [1, 4]], np.float32)


def filled(kind: str, element_type: str, rows: int | None) -> tuple[uncork.Model, np.ndarray]:
    """A layer that fills, and what it gives of the values."""
    b = uncork.Builder(kind)
    data = b.parameter("data", element_type, [rows, 2])
    one, ends = b.constant(np.array([1, 0])), b.constant(np.array([0, 1]))
    if kind == "Pad":
        (y,) = b.add("Pad", 12, data, one, ends, pad_mode="constant")
        expected = np.pad(VALUES, ((1, 0), (0, 1)))
    elif kind == "SpaceToBatch":
        blocks = b.constant(np.array([1, 1]))
        (y,) = b.add("SpaceToBatch", 2, data, blocks, b.constant(np.array([0, 0])), ends)
        expected = np.pad(VALUES, ((0, 0), (0, 1)))
    else:
        ids = b.constant(np.array([2, 3]))
        (y,) = b.add("Gather", 8, data, ids, b.constant(np.array(0)))
        expected = np.array([VALUES[2], [0, 0]])
    b.result(y, "y")
    return b.model(), expected


@pytest.mark.parametrize("rows", [3, None])
@pytest.mark.parametrize("element_type", ["nf4", "f4e2m1", "f8e4m3", "bf16", "f32"])
@pytest.mark.parametrize("kind", ["Pad", "SpaceToBatch", "Gather"])
def test_zeros(kind: str, element_type: str, rows: int | None) -> None:
    model, expected = filled(kind, element_type, rows)
    known = ElementType.parse(element_type)
    values = storage.decode(storage.encode(VALUES, known), known)
    expected = storage.decode(storage.encode(expected, known), known)
    for backend in ("cpu", "reference"):
        compiled = uncork.compile_model(model, backend=backend, threads=1)
        np.testing.assert_array_equal(np.asarray(compiled(values)["y"], np.float32), expected)
    reasons = [step.reason for step in uncork.compile_model(model, threads=1).plan.steps]
    wanted = "no kernel writes the number 0 of nf4, whose code is 7"
    if element_type == "nf4":
        assert reasons == [wanted]
    else:
        assert wanted not in reasons


def test_a_variable_without_an_initial_value_is_0() -> None:
    b = uncork.Builder("state")
    (value,) = b.add(
        "ReadValue",
        6,
        variable_id="v",
        variable_type=ElementType.nf4,
        variable_shape=uncork.PartialShape([2]),
    )
    b.result(value, "y")
    compiled = uncork.compile_model(b.model())
    assert np.asarray(compiled()["y"], np.float32).tolist() == [0, 0]
