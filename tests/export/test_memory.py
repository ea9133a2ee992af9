"""What exports take beside the model: its constants are never in memory as a whole."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import uncork

resource = pytest.importorskip("resource")

MIB = 1 << 20
SIZE = 160 * MIB
#: Prints by how many bytes the largest memory of the process grows.
CHILD = """
import resource, sys
import uncork
{warm}
def largest():
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
before = largest()
kept = {export}
print(largest() - before)
"""
WARM = {
    "onnx": "uncork.to_onnx({small!r})",
    "torch": "import torch; torch.ones(4).sum(); uncork.to_torch({small!r})",
    "folder": "uncork.write_torch({small!r}, {out!r} + '1')",
}


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """rows = table[ids]: in model.xml the table has 160 MiB, in small.xml a few rows."""
    folder = tmp_path_factory.mktemp("large")
    for name, rows in (("model", SIZE // 128), ("small", 4)):
        builder = uncork.Builder(name)
        table = builder.constant(np.ones((rows, 32), np.float32), name="table")
        ids = builder.parameter("ids", "i64", [None])
        builder.result(builder.add("Gather", 8, table, ids, builder.constant(np.int64(0)))[0])
        uncork.write_model(builder.model(), folder / f"{name}.xml")
    return folder


@pytest.mark.parametrize(
    ("kind", "export", "most"),
    [
        ("onnx", "uncork.write_onnx({model!r}, {out!r} + '.onnx')", 64 * MIB),
        ("onnx", "uncork.write_onnx({model!r}, {out!r} + '.onnx', external_data=True)", 64 * MIB),
        ("onnx", "uncork.to_onnx({model!r})", 2 * SIZE + 48 * MIB),
        ("folder", "uncork.write_torch({model!r}, {out!r})", 64 * MIB),
        ("torch", "uncork.to_torch({model!r})", SIZE + 64 * MIB),
    ],
)
def test_memory(large: Path, tmp_path: Path, kind: str, export: str, most: int) -> None:
    if kind != "folder":
        pytest.importorskip(kind)
    known = {"model": str(large / "model.xml"), "small": str(large / "small.xml")}
    known["out"] = str(tmp_path / "out")
    source = CHILD.format(warm=WARM[kind].format(**known), export=export.format(**known))
    done = subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < most
