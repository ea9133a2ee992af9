"""`uncork cut`, `extract`, `reshape`, `rename` and `import-weights`: what they write and what they
say.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import uncork
from tests.surgery.test_surgery import IDS, TABLE, lookup
from uncork.cli import main
from uncork.export.safetensors import write_tensors
from uncork.types import ElementType


@pytest.fixture
def model(tmp_path: Path) -> str:
    path = tmp_path / "model.xml"
    uncork.write_model(lookup(), path)
    return str(path)


def test_cut_says_what_changed(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "part.xml")
    assert main(["cut", model, "--to", "rows", "-o", out]) == 0
    text = capsys.readouterr().out
    assert "output sums f32[?]: is gone" in text
    assert text.endswith(f"saved {out}\n")
    np.testing.assert_array_equal(np.asarray(uncork.load(out)(IDS)[0]), TABLE[IDS])


def test_cut_wants_a_layer(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cut", model, "-o", str(tmp_path / "part.xml")]) == 2
    assert "expected --from or --to" in capsys.readouterr().err


def test_extract_and_rename(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, named = str(tmp_path / "part.xml"), str(tmp_path / "named.xml")
    assert main(["extract", model, "--input", "rows", "--tensor", "doubled", "-o", out]) == 0
    assert (
        main(["rename", out, "--input", "0=rows_given", "--output-name", "0=twice", "-o", named])
        == 0
    )
    rows = np.ones((1, 2), "f4")
    np.testing.assert_array_equal(uncork.load(named)({"rows_given": rows})["twice"], 2 * rows)


def test_reshape_as_json(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "fixed.xml")
    assert main(["reshape", model, "--shape", "ids=2", "-o", out, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["changes"] == [
        "input ids: i64[?] -> i64[2]",
        "output sums: f32[?] -> f32[2]",
    ]
    assert main(["reshape", model, "--shape", "ids=two", "-o", out, "--overwrite"]) == 1
    assert (
        "input 'ids': expected sizes such as 1,3,224,224 or ?,50, got 'two'"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize("kind", ["npz", "safetensors"])
def test_weights_are_imported(
    model: str, tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arrays, out = tmp_path / f"arrays.{kind}", str(tmp_path / "new.xml")
    if kind == "npz":
        np.savez(arrays, table=2 * TABLE)
    else:
        with open(arrays, "wb") as file:
            write_tensors(file, {"table": (ElementType.f32, (4, 2), lambda: 2 * TABLE)}, {})
    assert main(["import-weights", model, str(arrays), "-o", out]) == 0
    assert "constant table f32[4,2]: has other values" in capsys.readouterr().out
    np.testing.assert_array_equal(np.asarray(uncork.load(out)(IDS)[0]), [20, 52])


def test_an_output_that_is_there_stays(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "there.xml"
    out.write_text("mine")
    words = ["cut", model, "--to", "rows", "-o", str(out)]
    assert main(words) == 1
    assert "is there already" in capsys.readouterr().err
    assert main([*words, "--overwrite"]) == 1
    assert "what is there is no IR model" in capsys.readouterr().err
    assert main(["cut", model, "--to", "rows", "-o", model, "--overwrite"]) == 1
    assert out.read_text() == "mine"
