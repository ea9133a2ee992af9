"""What compiled files say of their constants, held against what layers do with them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import uncork
from tests.compiler.test_growing_state import Net
from uncork import cli
from uncork.compiler.image import format
from uncork.types import ElementType

TARGET = "x86-64-v3"


def floats(*shape: int, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    return np.random.default_rng([11, *shape]).standard_normal(shape).astype(dtype)


def kinds(model: uncork.Model, folder: Path, *targets: str) -> format.Weights:
    path = folder / "model.uncork"
    uncork.compile_to(model, path, targets=targets or (TARGET,), threads=1)
    found = format.read(path)[0].weights
    assert found is not None
    return found


def looked_up() -> Net:
    net = Net()
    ids = net.input("ids", "i64", [None])
    net.model(rows=net.picked(net.constant(floats(1000, 64), np.float32), ids))
    return net


def multiplied() -> Net:
    net = Net()
    x = net.input("x", "f32", [None, 256])
    net.model(y=net.add("MatMul", 1, x, net.constant(floats(256, 192), np.float32)))
    return net


def in_halves() -> Net:
    """Weights in f16, which layers read in f32."""
    net = Net()
    x = net.input("x", "f32", [1, 64, 32, 32])
    stored = net.constant(floats(128, 64, 1, 1, dtype=np.float16), np.float16)
    weights = net.add("Convert", 1, stored, destination_type="f32")
    net.model(y=convolved(net, x, weights))
    return net


def of_three_by_three() -> Net:
    net = Net()
    x = net.input("x", "f32", [1, 64, 32, 32])
    net.model(y=convolved(net, x, net.constant(floats(64, 64, 3, 3), np.float32), pad=1))
    return net


def scaled() -> Net:
    """A product of constants, which passes make before kernels see any."""
    net = Net()
    x = net.input("x", "f32", [None, 256])
    scales = net.constant(floats(1, 192), np.float32)
    weights = net.add("Multiply", 1, net.constant(floats(256, 192), np.float32), scales)
    net.model(y=net.add("MatMul", 1, x, weights))
    return net


def convolved(net: Net, x: Any, weights: Any, pad: int = 0) -> Any:
    pads = {"pads_begin": (pad, pad), "pads_end": (pad, pad)}
    both = {"strides": (1, 1), "dilations": (1, 1)}
    return net.add("Convolution", 1, x, weights, **pads, **both)


@pytest.mark.parametrize(
    ("net", "kind", "least", "most"),
    [
        # A row is read where it lies.
        (looked_up, "stored", 4 * 1000 * 64, 4 * 1000 * 64),
        # So many columns that panels are full, which are as wide as vectors.
        (multiplied, "arranged", 4 * 256 * 192, 4 * 256 * 192),
        # Filters stay f16, set by set.
        (in_halves, "arranged", 2 * 128 * 64, 2 * 128 * 64),
        # Winograd's filters of 2x2 outputs have 16 numbers for 9, of 4x4 36, of 6x6 64.
        (of_three_by_three, "transformed", 4 * 64 * 64 * 16, 4 * 64 * 64 * 64),
        (scaled, "folded", 4 * 256 * 192, 4 * 256 * 192),
    ],
)
def test_the_kind_of_constants(
    net: Callable[[], Net], kind: str, least: int, most: int, tmp_path: Path
) -> None:
    found = kinds(net().builder.model(), tmp_path)
    assert least <= found.kinds[kind] <= most
    others = {name: size for name, size in found.kinds.items() if name not in (kind, "tables")}
    assert sum(others.values()) < 100  # indices of axes
    assert found.repeated < 100


def test_a_table_that_is_looked_up_and_multiplied_with_is_there_twice(tmp_path: Path) -> None:
    net = Net()
    ids = net.input("ids", "i64", [None])
    table = net.constant(floats(480, 64), np.float32)
    rows = net.picked(table, ids)
    scores = net.add("MatMul", 1, rows, table, transpose_a=False, transpose_b=True)
    found = kinds(net.model(scores=scores), tmp_path)
    size = 4 * 480 * 64
    assert (found.kinds["stored"], found.kinds["arranged"]) == (size, size)
    assert size <= found.repeated < size + 100


def test_targets_that_arrange_them_otherwise_have_their_own(tmp_path: Path) -> None:
    """Panels are as wide as vectors; rows that are looked up are there once."""
    one = kinds(multiplied().builder.model(), tmp_path, TARGET)
    both = kinds(multiplied().builder.model(), tmp_path, TARGET, "aarch64", "x86-64-v4")
    assert both.kinds["arranged"] % one.kinds["arranged"] == 0
    assert both.repeated == both.kinds["arranged"] - one.kinds["arranged"] > 0
    same = kinds(looked_up().builder.model(), tmp_path, TARGET, "aarch64", "x86-64-v4")
    assert same.kinds["stored"] == 4 * 1000 * 64
    assert same.repeated < 100


@pytest.mark.parametrize("window", [1, 3])
def test_groups_are_parts_of_what_is_arranged(window: int, tmp_path: Path) -> None:
    net = Net()
    x = net.input("x", "f32", [None, 64, None, None])
    weights = net.constant(floats(4, 16, 16, window, window), np.float32)
    both = {"strides": (1, 1), "dilations": (1, 1), "pads_begin": (0, 0), "pads_end": (0, 0)}
    found = kinds(net.model(y=net.add("GroupConvolution", 1, x, weights, **both)), tmp_path)
    assert found.kinds["arranged"] >= 4 * 64 * 16 * window**2
    assert "transformed" not in found.kinds


@pytest.mark.parametrize("element_type", ["u4", "i8", "u8"])
def test_weights_of_few_bits_stay_so(element_type: str, tmp_path: Path) -> None:
    net = Net()
    x = net.input("x", "f32", [None, 256])
    codes = np.random.default_rng(5).integers(0, 15, (128, 256))
    kind = ElementType[element_type]
    stored = net.builder.constant(codes.astype(kind.dtype), kind)
    weights = net.add("Convert", 1, stored, destination_type="f32")
    scales = net.constant(np.abs(floats(128, 1)) + 1, np.float32)
    weights = net.add("Multiply", 1, weights, scales)
    product = net.add("MatMul", 1, x, weights, transpose_a=False, transpose_b=True)
    found = kinds(net.model(y=product), tmp_path)
    size = 128 * 256 * kind.bits // 8
    assert found.kinds.get("arranged", 0) + found.kinds.get("stored", 0) >= size
    assert sum(found.kinds.values()) < 2 * size


def test_it_is_said_when_a_model_is_compiled_and_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, path = tmp_path / "model.xml", tmp_path / "model.uncork"
    uncork.write_model(looked_up().builder.model(), model)
    assert cli.main(["compile", str(model), "-o", str(path), "--target", TARGET]) == 0
    line = "0.26 MB of constants for 0.26 MB of weights: 0.26 MB as the model has them\n"
    assert line in capsys.readouterr().out
    assert cli.main(["show", str(path)]) == 0
    assert line in capsys.readouterr().out
    assert cli.main(["show", str(path), "--json"]) == 0
    assert '"stored": 256000' in capsys.readouterr().out
