"""`uncork check`: every problem, every missing operation, and the exit status."""

from __future__ import annotations

from pathlib import Path

from .conftest import Command


def break_model(path: Path) -> None:
    """Two wrong attributes and two missing operations."""
    text = path.read_text()
    for right, wrong in (
        ('name="table" type="Const"', 'name="table" type="Konst"'),
        ('name="pick_words" type="Gather"', 'name="pick_words" type="Gathre"'),
        ('batch_dims="0"', 'batch_dims="many"'),
        ('element_type="i64" shape="?,2"', 'element_type="i65" shape="?,2"'),
    ):
        assert right in text
        text = text.replace(right, wrong)
    path.write_text(text)


def test_ok(command: Command, rows: Path):
    answer = command("check", "rows.xml")
    assert (answer.status, answer.out, answer.err) == (0, "rows.xml: ok (8 layers)\n", "")


def test_ok_as_json(command: Command, rows: Path):
    answer = command("check", "--json", "rows.xml")
    assert answer.status == 0
    assert answer.json == {
        "schema": "uncork-check-1",
        "ok": True,
        "models": [{"model": "rows.xml", "ok": True, "problems": [], "missing": []}],
    }


def test_everything_is_listed(command: Command, rows: Path):
    break_model(rows)
    answer = command("check", "rows.xml")
    assert (answer.status, answer.err) == (1, "")
    assert (
        answer.out
        == """\
rows.xml: 4 problems
  1. layer 'ids' (Parameter@opset1, id 2): attribute 'element_type': \
expected an element type such as f32 or i64, got 'i65'
  2. layer 'pick' (Gather@opset8, id 4): attribute 'batch_dims': expected an integer, got 'many'
  3. operation Konst@opset1 is not supported (layer 'table'); did the file mean Const?
  4. operation Gathre@opset8 is not supported (layer 'pick_words'); did the file mean Gather?
"""
    )


def test_everything_is_listed_as_json(command: Command, rows: Path):
    break_model(rows)
    answer = command("check", "rows.xml", "--json")
    assert (answer.status, answer.err) == (1, "")
    (model,) = answer.json["models"]
    assert answer.json["ok"] is model["ok"] is False
    assert [p["where"] for p in model["problems"]] == [
        "layer 'ids' (Parameter@opset1, id 2)",
        "layer 'pick' (Gather@opset8, id 4)",
    ]
    assert [p["layer"] for p in model["problems"]] == ["ids", "pick"]
    assert (
        model["problems"][1]["message"] == "attribute 'batch_dims': expected an integer, got 'many'"
    )
    assert model["missing"] == [
        {"operation": "Konst@opset1", "layers": ["table"]},
        {"operation": "Gathre@opset8", "layers": ["pick_words"]},
    ]


def test_shapes_are_checked(command: Command, rows: Path):
    rows.write_text(
        rows.read_text().replace(
            "<dim>3</dim>\n\t\t\t\t</port>\n\t\t\t</output>",
            "<dim>5</dim>\n\t\t\t\t</port>\n\t\t\t</output>",
        )
    )
    answer = command("check", "rows.xml")
    assert answer.status == 1
    assert "the file says" in answer.out


def test_several_models(command: Command, rows: Path, tmp_path: Path):
    (tmp_path / "empty.xml").write_text(" ")
    answer = command("check", "rows.xml", "none.xml", "empty.xml", "rows.xml")
    assert (answer.status, answer.err) == (1, "")
    assert (
        answer.out
        == """\
rows.xml: ok (8 layers)
none.xml: 1 problem
  1. cannot be read: No such file or directory
empty.xml: 1 problem
  1. the file is empty: copy or convert the model again
rows.xml: ok (8 layers)
"""
    )


def test_several_models_as_json(command: Command, rows: Path):
    answer = command("check", "rows.xml", "none.xml", "--json")
    assert answer.status == 1
    assert answer.json["models"][1] == {
        "model": "none.xml",
        "ok": False,
        "problems": [{"where": "", "message": "cannot be read: No such file or directory"}],
        "missing": [],
    }


def test_weights(command: Command, rows: Path):
    rows.with_suffix(".bin").rename(rows.with_name("elsewhere.bin"))
    answer = command("check", "rows.xml")
    assert answer.status == 1
    assert "the weights file 'rows.bin' cannot be read" in answer.out
    assert command("check", "rows.xml", "--weights", "elsewhere.bin").status == 0
    answer = command("check", "rows.xml", "rows.xml", "--weights", "elsewhere.bin")
    assert answer.status == 2
    assert answer.message.startswith("--weights is for a single MODEL\n")
