"""The benchmarks of stored weights and of precisions, in small."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from benchmarks import decode, embed, precision, weights
from benchmarks.options import Options, Peers
from benchmarks.stored_weights import Form

from uncork import Builder, compile_model, load, write_model
from uncork.kernels.runtime.target import host_target
from uncork.kernels.stored_types import multiplies_pairs


def options(tmp_path: Path, peers: tuple[str, ...] = (), only: str = "") -> Options:
    return Options(
        Peers(peers, 1), tmp_path / "out", tmp_path, re.compile(only), quick=True, seconds=0.02
    )


@pytest.mark.parametrize("form", weights.FORMS, ids=lambda form: form.name)
def test_matrices_are_of_the_size_of_trained_ones(form: Form) -> None:
    builder = Builder(form.name)
    builder.result(form.matrix(builder, 256, 64), "matrix")
    (matrix,) = compile_model(builder.model(), backend="reference")().values()
    assert matrix.shape == (64, 256)
    assert 0.3 < np.sqrt(np.mean(matrix**2) * 256) < 3


def test_products_are_measured_in_every_mode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weights, "SIZES", ((128, 64),))
    given = options(tmp_path, only="u4, groups of 64")
    assert weights.main(given) == 0
    told = json.loads((given.out / "weights-quick.json").read_text(encoding="utf-8"))["weights"]
    assert [(r["form"], r["rows"]) for r in told] == [("u4, groups of 64", n) for n in (1, 16)]
    assert all(set(r["seconds"]) == set(weights.MODES) for r in told)
    assert all(r["errors"]["as written"] < 1e-5 < r["errors"]["i8"] < 3e-2 for r in told)


def test_a_decoder_is_measured_by_token_and_by_prompt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decode, "WORDS", 160)
    monkeypatch.setattr(decode, "INNER", 128)
    given = options(tmp_path)
    assert decode.main(given) == 0
    told = json.loads((given.out / "decode-quick.json").read_text(encoding="utf-8"))["decode"]
    assert [r["what"] for r in told] == ["token", "prompt of 128"]
    assert all(r["seconds"][mode][0] > 0 for r in told for mode in weights.MODES)


def test_encoders_are_measured_with_weights_of_every_form(tmp_path: Path) -> None:
    given = options(tmp_path, only="MiniLM")
    assert embed.main(given) == 0
    told = json.loads((given.out / "embed-quick.json").read_text(encoding="utf-8"))["embed"]
    assert [r["form"] for r in told] == ["f32", "i8, columns", "u4, groups of 64"]
    pairs = multiplies_pairs(host_target())
    plain = {"as written", *(["bf16"] if pairs else [])}
    assert [set(r["seconds"]) for r in told] == [plain, *[set(weights.MODES)] * 2]


@pytest.mark.parametrize("size", embed.SIZES, ids=lambda size: size.name)
def test_encoders_compute_what_the_references_do(
    size: embed.Size, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embed, "LAYERS", 1)
    model = embed.Encoder(size, None).model()
    ids = np.random.default_rng(1).integers(0, 1000, (2, embed.TOKENS))
    mask = (np.arange(embed.TOKENS)[None] < [[20], [64]]).astype(np.float32)
    compiled = compile_model(model)
    (got,), (expected,) = (
        list(one(ids, mask).values())
        for one in (compiled, compile_model(model, backend="reference"))
    )
    np.testing.assert_allclose(got, expected, atol=2e-5 * abs(expected).max())
    assert all(step.kernel != "reference" for step in compiled.plan.steps)


@pytest.mark.skipif(
    not multiplies_pairs(host_target()), reason="the processor has no products of bf16"
)
def test_precisions_are_held_against_openvino(tmp_path: Path) -> None:
    pytest.importorskip("openvino")
    folder, generator = tmp_path / "products", np.random.default_rng(1)
    folder.mkdir()
    builder = Builder("products")
    x = builder.parameter("x", "f32", [None, 64])
    for _ in range(2):
        matrix = builder.constant(generator.standard_normal((64, 64)).astype(np.float32))
        (x,) = builder.add("ReLU", 1, builder.add("MatMul", 1, x, matrix)[0])
    builder.result(x, "y")
    write_model(builder.model(), folder / "model.xml")
    data = generator.standard_normal((5, 64)).astype(np.float32)
    np.savez(folder / "inputs.npz", **{"run0/0": data})
    (result,) = load(folder / "model.xml")(data).values()
    np.savez(folder / "expected.npz", **{"run0/0": result})
    given = options(tmp_path, ("openvino",))
    assert precision.main(given) == 0
    (told,) = json.loads((given.out / "precision-quick.json").read_text(encoding="utf-8"))[
        "precision"
    ]
    assert set(told["seconds"]) == set(precision.WAYS)
    assert told["errors"]["uncork f32"] < 1e-4


def test_without_openvino_there_is_nothing_to_hold_against(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert precision.main(options(tmp_path)) == 2
    assert "OpenVINO, which is not installed" in capsys.readouterr().out
