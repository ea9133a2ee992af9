"""A single negative constant index in Gather-1 and -7: the one place where the reader settles what a layer means."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import uncork
from tests._openvino import OpenVino

DATA = np.arange(12, dtype=np.float32).reshape(3, 4)


def gathering(index: np.ndarray, opset: int, constant: bool) -> uncork.Model:
    builder = uncork.Builder("gather")
    data = builder.parameter("data", "f32", [None, 4])
    indices = builder.constant(index) if constant else builder.parameter("indices", "i64", index.shape)
    (rows,) = builder.add("Gather", opset, data, indices, builder.constant(np.int64(0)))
    builder.result(rows, "rows")
    return builder.model()


def rows(model: uncork.Model, folder: Path, *inputs: np.ndarray) -> np.ndarray:
    """Written, read again, and run."""
    uncork.write_model(model, folder / "gather.xml")
    return uncork.load(folder / "gather.xml")(DATA, *inputs)["rows"]


@pytest.mark.parametrize("opset", [1, 7])
@pytest.mark.parametrize("index", [np.array(-1), np.array([-2], np.int32)], ids=["scalar", "vector"])
def test_one_negative_constant_counts_from_the_end(opset: int, index: np.ndarray, tmp_path: Path) -> None:
    np.testing.assert_array_equal(rows(gathering(index, opset, True), tmp_path), DATA[index])


@pytest.mark.parametrize("opset", [1, 7])
def test_several_constants_and_indices_of_the_call_do_not(opset: int, tmp_path: Path) -> None:
    several = np.array([-1, 1])
    expected = np.stack([np.zeros(4, np.float32), DATA[1]])
    np.testing.assert_array_equal(rows(gathering(several, opset, True), tmp_path), expected)
    one = np.array([-1])
    np.testing.assert_array_equal(rows(gathering(one, opset, False), tmp_path, one), np.zeros((1, 4), np.float32))


@pytest.mark.oracle
def test_openvino_counts_it_from_the_end_too(openvino: OpenVino, tmp_path: Path) -> None:
    uncork.write_model(gathering(np.array([-2]), 7, True), tmp_path / "gather.xml")
    np.testing.assert_array_equal(openvino.run(tmp_path / "gather.xml", [DATA])[0], DATA[[-2]])
