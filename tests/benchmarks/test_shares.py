"""The benchmark of shares of the arithmetic, in small."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from benchmarks import shares
from benchmarks.__main__ import COMMANDS
from benchmarks.cases_recurrent import Sequence_
from benchmarks.options import Options, Peers

from uncork import compile_model
from uncork.kernels.runtime.target import LEVELS, host_target, lacking, level_of

#: One of each kind, small.
SMALL = (
    shares.Product(5, 20, 30),
    shares.Product(5, 20, 30, batch=2, constant=False),
    shares.Convolution("convolutions 1x1", 20, 36, 9, 1),
    shares.Convolution("convolutions of larger windows", 20, 36, 9, 3, 2),
    shares.Convolution("convolutions of 3 channels", 3, 16, 12, 4, 4),
    shares.Convolution("convolutions in groups", 36, 36, 7, 3, 1, 9),
    shares.Convolution("depthwise convolutions", 16, 16, 7, 5, 1, 16),
    shares.Recurrent(Sequence_(3, 4, 8, 16, cell="rnn")),
)


def options(tmp_path: Path) -> Options:
    return Options(Peers((), 1), tmp_path, tmp_path, seconds=0.01)


def test_taps_outside_of_the_data_are_not_counted() -> None:
    assert shares.on_the_data(7, 3, 1, 1) == 2 + 5 * 3 + 2
    assert shares.on_the_data(8, 3, 2, 1) == 2 + 3 * 3
    assert shares.on_the_data(12, 4, 4, 0) == 12
    layer = shares.Convolution("depthwise convolutions", 16, 16, 7, 5, 1, 16)
    assert layer.operations == 2 * 16 * (3 + 4 + 5 * 3 + 4 + 3) ** 2


@pytest.mark.parametrize("layer", SMALL, ids=lambda layer: layer.name)
def test_layers_are_as_they_say(layer: shares.Layer) -> None:
    """The profile counts what is on the data and what is not: no less than the layer itself."""
    generator = np.random.default_rng(1)
    model = layer.made(generator)
    inputs = shares.inputs_of(model, generator)
    steps = compile_model(model).profile(*inputs).steps
    counted = sum(step.operations for step in steps if shares.is_layer(step))
    if isinstance(layer, shares.Convolution):
        results = (layer.size + 2 * layer.pad - layer.taps) // layer.stride + 1
        whole = (results * layer.taps / shares.on_the_data(*layer.along_an_axis)) ** 2
        assert counted >= layer.operations * whole * 0.999
    else:
        assert counted == pytest.approx(layer.operations)


def test_every_layer_has_a_goal_and_a_name_of_its_own() -> None:
    names = [f"{layer.group}, {layer.name}" for layer in shares.LAYERS]
    assert len(set(names)) == len(names)
    assert {layer.group.split()[0] for layer in shares.LAYERS} == set(shares.GOALS)


def test_layers_are_measured_as_the_processor_and_as_avx2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "shares" in COMMANDS
    monkeypatch.setattr(shares, "LAYERS", (*SMALL, *shares.LAYERS))
    only = re.compile(r"^products, 5x20|^recurrent layers, RNN 3 x 4|^products, 37x301")
    assert shares.main(replace(options(tmp_path), only=only)) == 0
    told = json.loads((tmp_path / "shares.json").read_text(encoding="utf-8"))["shares"]
    own = level_of(host_target())
    here = own != shares.LEVEL and not lacking(LEVELS[shares.LEVEL])
    assert list(told) == [own, *([shares.LEVEL] if here else [])]
    assert [one["group"] for one in told[own]] == ["products", "recurrent layers", "products"]
    for one in (one for results in told.values() for one in results):
        assert one["seconds"] > 0 and one["bytes"] > 0 and one["error"] < 1e-5
    if here:  # another process, which has the layers of the file alone
        (one,) = told[shares.LEVEL]
        assert one["kernel"].startswith("matmul_3_") and "_8" in one["kernel"]
    page = (tmp_path / "shares.md").read_text(encoding="utf-8")
    assert all(f"## {level}" in page for level in told)


def test_a_level_alone_has_a_page_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shares, "LAYERS", SMALL[:1])
    level = level_of(host_target())
    assert shares.main(replace(options(tmp_path), target=level)) == 0
    assert (tmp_path / f"shares-{level}.md").exists()
    assert shares.main(replace(options(tmp_path), only=re.compile("nothing"))) == 2


def test_what_is_wrong_is_told_and_has_no_share(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shares, "LAYERS", SMALL[:1])
    monkeypatch.setattr(shares, "error_of", lambda *_: float("inf"))
    assert shares.main(replace(options(tmp_path), target="as-it-is")) == 1
    assert "wrong by 1.0e+09" in (tmp_path / "shares-as-it-is.md").read_text(encoding="utf-8")
