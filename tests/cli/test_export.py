"""`uncork export`: what it writes and says, and what it refuses before any work."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import uncork

from .conftest import Command

onnx = pytest.importorskip("onnx")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    builder = uncork.Builder("sums")
    x = builder.parameter("x", "f32", [None, 512])
    builder.result(
        builder.add("MatMul", 1, x, builder.constant(np.ones((512, 4), np.float32), name="weights"))[0],
        "y",
    )
    uncork.write_model(builder.model(), tmp_path / "model.xml")
    return tmp_path / "model.xml"


def test_writes_a_model(command: Command, model: Path) -> None:
    answer = command("export", "model.xml", "--to", "onnx", "-o", "model.onnx")
    size = model.with_suffix(".onnx").stat().st_size
    assert (answer.status, answer.out, answer.err) == (
        0,
        f"saved model.onnx ({size:,} bytes)\n",
        "",
    )
    onnx.checker.check_model("model.onnx", full_check=True)


def test_external_data_and_json(command: Command, model: Path) -> None:
    answer = command(
        "export",
        "model.xml",
        "--to",
        "onnx",
        "-o",
        "model.onnx",
        "--external-data",
        "--opset",
        "22",
        "--json",
    )
    assert answer.status == 0
    assert answer.json == {
        "schema": "uncork-export-1",
        "model": "model.xml",
        "format": "onnx",
        "saved": "model.onnx",
        "bytes": sum(Path(p).stat().st_size for p in ("model.onnx", "model.onnx.data")),
        "approximations": [],
    }
    assert onnx.load("model.onnx", load_external_data=False).opset_import[0].version == 22


@pytest.mark.parametrize("name", ["model.onnx", "model.onnx.data"])
def test_does_not_overwrite_unasked(command: Command, model: Path, name: str) -> None:
    (model.parent / name).write_bytes(b"mine")
    answer = command("export", "model.xml", "--to", "onnx", "-o", "model.onnx")
    assert answer.status == 1
    assert answer.message == f"{name}: is there already: give --overwrite to replace it, or another name"
    assert (model.parent / name).read_bytes() == b"mine"
    assert command("export", "model.xml", "--to", "onnx", "-o", "model.onnx", "--overwrite").status == 0


def test_refusals(command: Command, model: Path) -> None:
    answer = command("export", "model.xml", "--to", "onnx", "-o", "model.xml")
    assert (answer.status, answer.message) == (1, "model.xml: expected a name that ends in .onnx")
    answer = command("export", "model.xml", "--to", "onnx", "-o", "nowhere/model.onnx")
    assert (answer.status, answer.message) == (
        1,
        "nowhere/model.onnx: cannot be written: there is no such folder",
    )
    answer = command("export", "model.xml", "--to", "onyx", "-o", "model.onnx")
    assert answer.status == 2
    assert "expected onnx or torch, got 'onyx'" in answer.err
    answer = command("export", "model.xml", "--to", "onnx", "-o", "model.onnx", "--opset", "9")
    assert answer.status == 1
    assert answer.message.startswith("opset: expected 21 to ")
    assert sorted(p.name for p in model.parent.iterdir()) == ["model.bin", "model.xml"]


def test_approximations_are_listed(command: Command, tmp_path: Path) -> None:
    builder = uncork.Builder("noise")
    bounds = (builder.constant(np.float32(n)) for n in (0, 1))
    attributes = {"output_type": uncork.ElementType.f32, "op_seed": 4}
    shape = builder.parameter("shape", "i64", [1])
    builder.result(builder.add("RandomUniform", 8, shape, *bounds, name="noise", **attributes)[0], "y")
    uncork.write_model(builder.model(), tmp_path / "noise.xml")
    answer = command("export", "noise.xml", "--to", "onnx", "-o", "noise.onnx")
    assert answer.status == 1
    assert "draws other numbers of the same distribution; approximate=True (--approximate) exports it so" in answer.message
    answer = command("export", "noise.xml", "--to", "onnx", "-o", "noise.onnx", "--approximate")
    assert answer.status == 0
    assert answer.out.startswith("1 approximation:\n  layer 'noise' (RandomUniform-8, id 3): RandomUniform with seeds draws other numbers")
