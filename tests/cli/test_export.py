"""`uncork export`: what it writes and says, and what it refuses before any work."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import uncork
from uncork.export.torch.folder import agree

from .conftest import Command

onnx = pytest.importorskip("onnx")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    builder = uncork.Builder("sums")
    x = builder.parameter("x", "f32", [None, 512])
    builder.result(
        builder.add(
            "MatMul", 1, x, builder.constant(np.ones((512, 4), np.float32), name="weights")
        )[0],
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
    assert (
        answer.message
        == f"{name}: is there already: give --overwrite to replace it, or another name"
    )
    overwriting = "export", "model.xml", "--to", "onnx", "-o", "model.onnx", "--overwrite"
    answer = command(*overwriting)
    assert answer.status == 1
    assert answer.message.startswith(f"{name}: is not overwritten: ")
    assert (model.parent / name).read_bytes() == b"mine"
    (model.parent / name).unlink()
    data = "--external-data" if name.endswith(".data") else "--approximate"
    assert command("export", "model.xml", "--to", "onnx", "-o", "model.onnx", data).status == 0
    assert command(*overwriting).status == 0


@pytest.mark.parametrize("name", ["model.py", "check.py", "sample.npz", "weights.safetensors"])
def test_a_folder_of_somebody_keeps_its_files(command: Command, model: Path, name: str) -> None:
    project = model.parent / "project"
    project.mkdir()
    (project / name).write_bytes(b"a day of work")
    overwriting = "export", "model.xml", "--to", "torch", "-o", "project", "--overwrite"
    answer = command(*overwriting)
    assert answer.status == 1
    assert f"{name}: is not overwritten: " in answer.message
    assert [p.name for p in project.iterdir()] == [name]
    assert (project / name).read_bytes() == b"a day of work"
    (project / name).unlink()
    assert command(*overwriting).status == 0
    assert command(*overwriting).status == 0


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
    builder.result(
        builder.add("RandomUniform", 8, shape, *bounds, name="noise", **attributes)[0], "y"
    )
    uncork.write_model(builder.model(), tmp_path / "noise.xml")
    answer = command("export", "noise.xml", "--to", "onnx", "-o", "noise.onnx")
    assert answer.status == 1
    assert (
        "draws other numbers of the same distribution; approximate=True (--approximate) exports "
        "it so" in answer.message
    )
    answer = command("export", "noise.xml", "--to", "onnx", "-o", "noise.onnx", "--approximate")
    assert answer.status == 0
    assert answer.out.startswith(
        "1 approximation:\n  layer 'noise' (RandomUniform-8, id 3): RandomUniform with seeds "
        "draws other numbers"
    )


def blocks(path: Path) -> None:
    """x f32[1,1,?,?] in blocks of 16 by 16, which 3 by 3 is too small for."""
    builder = uncork.Builder("blocks")
    x = builder.parameter("x", "f32", [1, 1, None, None])
    builder.result(builder.add("SpaceToDepth", 1, x, mode="blocks_first", block_size=16)[0], "y")
    uncork.write_model(builder.model(), path)


def test_the_check_has_inputs_of_a_size_that_the_model_takes(
    command: Command, tmp_path: Path
) -> None:
    blocks(tmp_path / "blocks.xml")
    assert command("export", "blocks.xml", "--to", "torch", "-o", "found").err == ""
    with np.load(tmp_path / "found" / "sample.npz") as sample:
        assert sample["input_0"].shape == (1, 1, 16, 16)


def test_the_check_has_the_inputs_that_are_given(command: Command, tmp_path: Path) -> None:
    blocks(tmp_path / "blocks.xml")
    x = np.arange(16 * 32, dtype=np.float32).reshape(1, 1, 16, 32)
    np.save(tmp_path / "x.npy", x)
    assert (
        command("export", "blocks.xml", "--to", "torch", "-o", "given", "-i", "x=x.npy").status == 0
    )
    with np.load(tmp_path / "given" / "sample.npz") as sample:
        np.testing.assert_array_equal(sample["input_0"], x)
        np.testing.assert_array_equal(
            sample["output_0"].reshape(16, 16, 2), x.reshape(16, 2, 16).transpose(0, 2, 1)
        )
    answer = command(
        "export", "blocks.xml", "--to", "torch", "-o", "more", "--random", "--shape", "x=1,1,32,32"
    )
    assert answer.status == 0
    answer = command("export", "blocks.xml", "--to", "onnx", "-o", "m.onnx", "-i", "x=x.npy")
    assert (answer.status, answer.message) == (1, "inputs are for the check.py of --to torch")


def test_no_check_of_answers_that_only_round(command: Command, tmp_path: Path) -> None:
    """A last digit is made 2**30 times larger."""
    builder = uncork.Builder("hair")
    x = builder.parameter("x", "f32", [4])
    large = builder.add("Multiply", 1, x, builder.constant(np.float32(2**30)))[0]
    builder.result(builder.add("Sin", 1, large)[0], "y")
    uncork.write_model(builder.model(), tmp_path / "hair.xml")
    answer = command("export", "hair.xml", "--to", "torch", "-o", "folder")
    assert answer.status == 0
    assert answer.err.startswith(
        "uncork: no check.py: the model refuses the random inputs that were tried, or its "
        "answers hang on"
    )
    assert sorted(p.name for p in (tmp_path / "folder").iterdir()) == [
        "model.py",
        "weights.safetensors",
    ]
    of_another_model = '"""Compares the module\'s answers with those of the model that it was'
    (tmp_path / "folder" / "check.py").write_text(of_another_model)
    assert command("export", "hair.xml", "--to", "torch", "-o", "folder", "--overwrite").status == 0
    assert sorted(p.name for p in (tmp_path / "folder").iterdir()) == [
        "model.py",
        "weights.safetensors",
    ]


@pytest.mark.parametrize(
    ("found", "expected", "same"),
    [
        ([1.0, 780.0], [1.01, 780.0], True),
        ([1.0, 780.0], [1.2, 780.0], False),
        ([0.0], [0.0002], False),
        ([np.nan, np.inf], [np.nan, np.inf], True),
        ([1.0], [1.0, 1.0], False),
    ],
)
def test_what_the_check_takes_for_the_same(
    found: list[float], expected: list[float], same: bool
) -> None:
    assert agree(np.array(found), np.array(expected, np.float32)) == same


@pytest.mark.parametrize("target", ["onnx", "torch"])
def test_ids_as_written(command: Command, tmp_path: Path, target: str) -> None:
    """The Convert that cuts ids is in the export only where it is asked for."""
    builder = uncork.Builder("rows")
    (short,) = builder.add(
        "Convert", 1, builder.parameter("ids", "i64", [None]), destination_type="i32"
    )
    table, axis = builder.constant(np.ones((5, 2), np.float32)), builder.constant(np.array(0))
    builder.result(builder.add("Gather", 8, table, short, axis)[0], "rows")
    uncork.write_model(builder.model(), tmp_path / "model.xml")
    for way, cuts in (("64-bit", False), ("as-written", True)):
        out = tmp_path / (f"{way}.onnx" if target == "onnx" else way)
        answer = command("export", "model.xml", "--to", target, "-o", out.name, "--ids", way)
        assert (answer.status, answer.err) == (0, "")
        if target == "onnx":
            nodes = onnx.load(out).graph.node
            assert any(node.op_type == "Cast" for node in nodes) == cuts
        else:
            assert ("int32" in (out / "model.py").read_text()) == cuts


def test_ids_of_another_word_are_refused(command: Command, model: Path) -> None:
    answer = command("export", "model.xml", "--to", "onnx", "-o", "model.onnx", "--ids", "32-bit")
    assert answer.status == 2
    assert "--ids: expected 64-bit or as-written, got '32-bit'" in answer.err
