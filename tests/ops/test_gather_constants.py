"""A negative scalar constant as index in Gather-1 and -7: the one place where the reader settles
what a layer means.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import uncork
from tests._openvino import OpenVino

DATA = np.arange(12, dtype=np.float32).reshape(3, 4)
ZEROS = np.zeros(4, np.float32)


def gathering(
    index: np.ndarray, opset: int, rows: int | None, constant: bool = True
) -> uncork.Model:
    builder = uncork.Builder("gather")
    data = builder.parameter("data", "f32", [rows, 4])
    indices = (
        builder.constant(index) if constant else builder.parameter("indices", "i64", index.shape)
    )
    (picked,) = builder.add("Gather", opset, data, indices, builder.constant(np.int64(0)))
    builder.result(picked, "rows")
    return builder.model()


CASES = [
    (np.array(-1), 3, DATA[-1]),
    (np.array([-2], np.int32), 3, DATA[[-2]]),
    (np.array(-2), None, ZEROS),
    (np.array([-1, 1]), 3, np.stack([ZEROS, DATA[1]])),
]


@pytest.mark.parametrize("opset", [1, 7])
@pytest.mark.parametrize(("index", "size", "expected"), CASES)
def test_constants(
    opset: int, index: np.ndarray, size: int | None, expected: np.ndarray, tmp_path: Path
) -> None:
    """Written, read again, and run."""
    uncork.write_model(gathering(index, opset, size), tmp_path / "gather.xml")
    np.testing.assert_array_equal(uncork.load(tmp_path / "gather.xml")(DATA)["rows"], expected)


@pytest.mark.parametrize(("index", "size", "expected"), CASES)
def test_what_the_ports_say_does_not_count(
    index: np.ndarray, size: int | None, expected: np.ndarray, tmp_path: Path
) -> None:
    """It is the size that follows from the inputs, as everywhere."""
    path = tmp_path / "gather.xml"
    uncork.write_model(gathering(index, 7, size), path)
    path.write_text(re.sub(r"<dim>\d+</dim>", "<dim>-1</dim>", path.read_text()))
    np.testing.assert_array_equal(uncork.load(path)(DATA)["rows"], expected)


def test_an_index_of_the_call_gives_zeros(tmp_path: Path) -> None:
    index = np.array([-1])
    uncork.write_model(gathering(index, 7, 3, constant=False), tmp_path / "gather.xml")
    np.testing.assert_array_equal(
        uncork.load(tmp_path / "gather.xml")(DATA, index)["rows"], ZEROS[np.newaxis]
    )


@pytest.mark.oracle
@pytest.mark.parametrize(("index", "size", "expected"), CASES)
def test_openvino_does_the_same(
    index: np.ndarray, size: int | None, expected: np.ndarray, openvino: OpenVino, tmp_path: Path
) -> None:
    uncork.write_model(gathering(index, 7, size), tmp_path / "gather.xml")
    np.testing.assert_array_equal(openvino.run(tmp_path / "gather.xml", [DATA])[0], expected)
