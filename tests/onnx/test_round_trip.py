"""Models to ONNX and back: the judge of whole models, tried on small ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import uncork

pytest.importorskip("onnx")

from tests.onnx import round_trip

_EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def _folder(folder: Path) -> Path:
    """A layer of a network, its normalisation and what it attends to, with two recorded calls."""
    rng = np.random.default_rng(3)
    b = uncork.Builder("layer")
    x = b.parameter("x", "f32", [None, None, 8])
    weights = b.constant(rng.standard_normal((8, 8)).astype(np.float32))
    axes = b.constant(np.array([-1]))
    (normal,) = b.add("MVN", 6, x, axes, normalize_variance=True, eps=1e-5, eps_mode="inside_sqrt")
    (hidden,) = b.add("MatMul", 1, normal, weights, transpose_a=False, transpose_b=True)
    (active,) = b.add("Gelu", 7, hidden, approximation_mode="erf")
    (attended,) = b.add("ScaledDotProductAttention", 13, active, active, x, causal=False)
    b.result(attended, "y")
    folder.mkdir()
    uncork.write_model(b.model(), folder / "model.xml")
    runs = [rng.standard_normal(shape).astype(np.float32) for shape in ((2, 3, 8), (1, 5, 8))]
    np.savez(folder / "inputs.npz", **{f"run{i}/0": run for i, run in enumerate(runs)})
    return folder


def test_a_model_comes_back_as_it_was(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert round_trip.main([str(_folder(tmp_path / "good")), "--plans"]) == 0
    assert "the same" in capsys.readouterr().out


def test_another_model_is_found_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = _folder(tmp_path / "wrong")
    b = uncork.Builder("other")
    x = b.parameter("x", "f32", [None, None, 8])
    b.result(b.add("Abs", 1, x)[0], "y")
    uncork.write_onnx(b.model(), folder / "model.onnx")
    assert round_trip.main([str(folder)]) == 1
    assert "model.onnx: output 0 differs" in capsys.readouterr().out


def test_an_example_comes_back_as_it_was(tmp_path: Path) -> None:
    source = _EXAMPLES / "word_language" / "model.xml"
    uncork.write_onnx(source, tmp_path / "model.onnx")
    with np.load(_EXAMPLES / "word_language" / "words.npz") as words:
        inputs = dict(words)
    names = {port.name for port in uncork.load(source).inputs}
    call = {name: array for name, array in inputs.items() if name in names}
    ours, theirs = (uncork.load(path)(call) for path in (source, tmp_path / "model.onnx"))
    assert names == call.keys()
    for i in range(len(ours)):
        np.testing.assert_allclose(theirs[i], ours[i], rtol=1e-5, atol=1e-6)
