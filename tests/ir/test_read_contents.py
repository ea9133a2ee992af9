"""Models by the contents of their files: bytes, and files that are open."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest

import uncork


@pytest.fixture
def files(tmp_path: Path) -> tuple[bytes, bytes]:
    """The .xml and the .bin of x + [10, 20]."""
    builder = uncork.Builder("shift")
    shift = builder.constant(np.array([10, 20], np.float32))
    (total,) = builder.add("Add", 1, builder.parameter("x", "f32", [2]), shift)
    builder.result(total, "total")
    uncork.write_model(builder.model(), tmp_path / "shift.xml")
    return (tmp_path / "shift.xml").read_bytes(), (tmp_path / "shift.bin").read_bytes()


def test_bytes(files: tuple[bytes, bytes]) -> None:
    compiled = uncork.load(files[0], weights=files[1])
    assert compiled(np.ones(2, np.float32))[0].tolist() == [11, 21]


def test_open_files(files: tuple[bytes, bytes], tmp_path: Path) -> None:
    with open(tmp_path / "shift.xml", "rb") as xml, open(tmp_path / "shift.bin", "rb") as weights:
        from_files = uncork.compile_model(uncork.read_model(xml, weights))
    from_memory = uncork.load(io.BytesIO(files[0]), weights=tmp_path / "shift.bin")
    for compiled in (from_files, from_memory):
        assert compiled(np.zeros(2, np.float32))[0].tolist() == [10, 20]


def test_a_path_with_weights_from_memory(files: tuple[bytes, bytes], tmp_path: Path) -> None:
    (tmp_path / "shift.bin").unlink()
    model = uncork.read_model(tmp_path / "shift.xml", bytearray(files[1]))  # type: ignore[arg-type]
    assert uncork.compile_model(model)(np.zeros(2, np.float32))[0].tolist() == [10, 20]


def test_missing_weights_are_told(files: tuple[bytes, bytes]) -> None:
    with pytest.raises(
        uncork.ValidationError, match=r"given as bytes, and no weights .* give weights="
    ):
        uncork.load(files[0])


def test_weights_that_are_too_short_are_told(files: tuple[bytes, bytes]) -> None:
    with pytest.raises(uncork.ValidationError, match="which has 4 bytes"):
        uncork.load(files[0], weights=files[1][:4])


def test_other_bytes_are_refused() -> None:
    with pytest.raises(uncork.ReadError, match=r"got other bytes, b'model\.xml': a path is given"):
        uncork.read_model(b"model.xml")


def test_files_of_text_are_refused(files: tuple[bytes, bytes]) -> None:
    with pytest.raises(TypeError, match=r"open for reading bytes \('rb'\), its read\(\) gave str"):
        uncork.read_model(io.StringIO(files[0].decode()))  # type: ignore[arg-type]
