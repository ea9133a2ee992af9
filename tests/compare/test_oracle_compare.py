"""Comparisons with the systems themselves: OpenVINO, ONNX Runtime and PyTorch, each in a process of
its own.
"""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np
import pytest

import uncork
from tests.cli.conftest import Command
from tests.compare._models import X, network, wrong_axis, wrong_weight
from uncork.compare import compare

pytestmark = pytest.mark.oracle


def needs(*packages: str) -> None:
    for package in packages:
        pytest.importorskip(package)


def gru(path: Path, batch: int | None) -> Path:
    """A GRU over sequences of their own lengths, with an open or a fixed number of rows."""
    generator = np.random.default_rng(3)
    builder = uncork.Builder("gru")
    x = builder.parameter("x", "f32", [batch, 6, 4])
    lengths = builder.parameter("lengths", "i64", [batch])
    shape = builder.add("ShapeOf", 3, x, output_type="i64")[0]
    rows = builder.add(
        "Gather", 8, shape, builder.constant(np.array([0])), builder.constant(np.int64(0))
    )[0]
    sizes = builder.add("Concat", 1, rows, builder.constant(np.array([1, 5])), axis=0)[0]
    h0 = builder.add("Broadcast", 3, builder.constant(np.float32(0)), sizes)[0]
    w, r, b = (
        builder.constant(generator.standard_normal(size).astype(np.float32))
        for size in ([1, 15, 4], [1, 15, 5], [1, 15])
    )
    y, last = builder.add(
        "GRUSequence", 5, x, h0, lengths, w, r, b, name="gru", hidden_size=5, direction="forward"
    )
    builder.result(y, "y")
    builder.result(last, "last")
    uncork.write_model(builder.model(), path)
    return path


def test_openvino_agrees(tmp_path: Path) -> None:
    needs("openvino")
    found = compare(network(tmp_path / "model.xml"), "openvino", [X])
    assert found.is_same
    assert len(found.layers) == 6
    assert all(layer.difference is not None for layer in found.layers)
    assert [output.name for output in found.outputs] == ["y", "total"]


def test_lengths_that_openvino_ignores(tmp_path: Path) -> None:
    """As soon as a shape is dynamic; with the shapes fixed it honours them."""
    needs("openvino")
    inputs = {
        "x": np.random.default_rng(5).standard_normal((2, 6, 4)).astype(np.float32),
        "lengths": np.array([2, 6]),
    }
    found = compare(gru(tmp_path / "open.xml", None), "openvino", inputs)
    assert found.first is not None and found.first.node.name == "gru"
    assert {layer.node.name for layer in found.layers if layer.is_bad} == {"gru"}
    assert compare(gru(tmp_path / "fixed.xml", 2), "openvino", inputs).is_same


def test_onnxruntime(tmp_path: Path) -> None:
    """The exported file has the same names of tensors; a fault is found by them."""
    needs("onnx", "onnxruntime")
    model = network(tmp_path / "model.xml")
    uncork.write_onnx(uncork.read_model(model), tmp_path / "model.onnx")
    found = compare(model, f"onnxruntime:{tmp_path / 'model.onnx'}", [X])
    assert found.is_same
    assert sum(layer.difference is not None for layer in found.layers) >= 2
    uncork.write_onnx(
        uncork.read_model(network(tmp_path / "other.xml", wrong_weight)), tmp_path / "other.onnx"
    )
    assert not compare(model, f"onnxruntime:{tmp_path / 'other.onnx'}", [X]).is_same
    uncork.write_onnx(
        uncork.read_model(network(tmp_path / "other.xml", wrong_axis)), tmp_path / "axis.onnx"
    )
    assert not compare(model, f"onnxruntime:{tmp_path / 'axis.onnx'}", [X]).is_same


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
def test_torch(tmp_path: Path, command: Command) -> None:
    needs("torch", "openvino")
    torch, openvino = importlib.import_module("torch"), importlib.import_module("openvino")
    torch.manual_seed(1)
    module = torch.nn.Sequential(
        torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2)
    ).eval()
    program = torch.export.export(module, (torch.randn(2, 3),))
    torch.export.save(program, tmp_path / "model.pt2")
    openvino.save_model(
        openvino.convert_model(program), tmp_path / "model.xml", compress_to_fp16=False
    )
    answer = command(
        "compare",
        "model.xml",
        "--against",
        "torch:model.pt2",
        "--trust",
        "--random",
        "--shape",
        "input=2,3",
        "--json",
    )
    assert answer.status == 0, answer.err + answer.out
    compared = [
        layer["layer"]
        for layer in answer.json["layers"]
        if layer["verdict"] in ("same", "rounding")
    ]
    assert any("relu" in name for name in compared) and any("linear" in name for name in compared)
    with torch.no_grad():
        module[2].weight[1, 2] += 0.1
    torch.export.save(torch.export.export(module, (torch.randn(2, 3),)), tmp_path / "other.pt2")
    other = command(
        "compare",
        "model.xml",
        "--against",
        "torch:other.pt2",
        "--trust",
        "--random",
        "--shape",
        "input=2,3",
        "--json",
    )
    assert other.status == 1
    assert "linear_1" in other.json["first"]["layer"]


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
def test_torch_parts_of_tuples(tmp_path: Path, command: Command) -> None:
    """OpenVINO decomposes the batch normalisation into a tuple: "getitem" is its result there, and
    the first part of the split here.
    """
    needs("torch", "openvino")
    torch, openvino = importlib.import_module("torch"), importlib.import_module("openvino")

    class Parts(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.norm = torch.nn.BatchNorm1d(12)

        def forward(self, x):  # type: ignore[no-untyped-def]
            a, b, c = torch.split(self.norm(x), [4, 4, 4], 1)
            return torch.relu(a) * torch.tanh(b) + torch.sigmoid(c)

    program = torch.export.export(Parts().eval(), (torch.randn(3, 12, 5),))
    torch.export.save(program, tmp_path / "model.pt2")
    openvino.save_model(
        openvino.convert_model(program), tmp_path / "model.xml", compress_to_fp16=False
    )
    answer = command(
        "compare",
        "model.xml",
        "--against",
        "torch:model.pt2",
        "--trust",
        "--random",
        "--shape",
        "x=3,12,5",
        "--json",
    )
    assert answer.status == 0, answer.err + answer.out
    compared = [
        layer["layer"]
        for layer in answer.json["layers"]
        if layer["verdict"] in ("same", "rounding")
    ]
    assert sum("VariadicSplit" in name for name in compared) == 3
