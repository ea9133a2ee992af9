"""`uncork show`: the text, its JSON, sub-graphs, and models that cannot be run."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import uncork

from .conftest import Command

_NESTED = """<?xml version="1.0"?>
<net name="nested" version="11">
  <layers>
    <layer id="0" name="x" type="Parameter" version="opset1">
      <data element_type="f32" shape="?,2..8,3"/>
      <output><port id="0" precision="FP32"><dim>-1</dim><dim>-1</dim><dim>3</dim></port></output>
    </layer>
    <layer id="1" name="outer" type="Nest" version="opset9">
      <input><port id="0"/></input>
      <output>
        <port id="1" precision="FP32"><dim>4</dim></port><port id="2" precision="I64"/>
      </output>
      <body><layers>
        <layer id="0" name="inner_x" type="Parameter" version="opset1">
          <data element_type="f32" shape="4"/>
          <output><port id="0" precision="FP32"><dim>4</dim></port></output>
        </layer>
        <layer id="1" name="inner_nest" type="Nest" version="opset9">
          <input><port id="0"/></input>
          <output><port id="1" precision="FP32"><dim>4</dim></port></output>
        </layer>
        <layer id="2" name="inner_result" type="Result" version="opset1">
          <input><port id="0"/></input>
        </layer>
      </layers><edges>
        <edge from-layer="0" from-port="0" to-layer="1" to-port="0"/>
        <edge from-layer="1" from-port="1" to-layer="2" to-port="0"/>
      </edges></body>
    </layer>
    <layer id="2" name="y" type="Result" version="opset1"><input><port id="0"/></input></layer>
    <layer id="3" name="z" type="Result" version="opset1"><input><port id="0"/></input></layer>
    <layer id="4" name="lost" type="Result" version="opset1"><input><port id="0"/></input></layer>
    <layer id="5" name="early" type="Gather" version="opset0">
      <output><port id="0" precision="FP32"/></output>
    </layer>
    <layer id="6" name="early_result" type="Result" version="opset1">
      <input><port id="0"/></input>
    </layer>
  </layers>
  <edges>
    <edge from-layer="0" from-port="0" to-layer="1" to-port="0"/>
    <edge from-layer="1" from-port="1" to-layer="2" to-port="0"/>
    <edge from-layer="1" from-port="2" to-layer="3" to-port="0"/>
    <edge from-layer="5" from-port="0" to-layer="6" to-port="0"/>
  </edges>
</net>
"""


@pytest.fixture
def nested(tmp_path: Path) -> Path:
    """A model with a sub-graph, an operation that nobody has, one before its time, and a Result
    without an edge.
    """
    (tmp_path / "nested.xml").write_text(_NESTED)
    return tmp_path / "nested.xml"


def test_text(command: Command, rows: Path):
    answer = command("show", "rows.xml")
    assert answer.status == 0
    assert (
        answer.out
        == """\
rows.xml
  name     rows
  format   IR version 11
  weights  rows.bin, 96 bytes
  layers   8

Inputs (1)
  #  name  type  shape
  0  ids   i64   [?,2]

Outputs (2)
  #  name  type    shape    also called
  0  rows  f32     [?,2,3]  rows/result, pick
  1  text  string  [?,2]    text/result, pick_words

Operations (4, all supported)
  operation    layers  supported
  Const-1           3  yes
  Gather-8          2  yes
  Parameter-1       1  yes
  Result-1          2  yes

Constants (3, 93 bytes)
  type    constants  values  bytes
  f32             1      12     48
  string          1       4     37
  i64             1       1      8
"""
    )


def test_layers(command: Command, rows: Path):
    text = command("show", "rows.xml", "--layers").out
    assert text.endswith(
        """
Layers (8)
  id  operation    inputs   outputs      name
  2   Parameter-1           i64[?,2]     ids
  0   Const-1               f32[4,3]     table
  3   Const-1               i64[]        axis
  4   Gather-8     0, 2, 3  f32[?,2,3]   pick
  6   Result-1     4                     rows/result
  1   Const-1               string[4]    words
  5   Gather-8     1, 2, 3  string[?,2]  pick_words
  7   Result-1     5                     text/result
"""
    )


def test_json(command: Command, rows: Path):
    answer = command("show", "rows.xml", "--json")
    assert answer.status == 0
    assert answer.json == {
        "schema": "uncork-show-1",
        "model": "rows.xml",
        "name": "rows",
        "ir_version": 11,
        "weights": {"file": "rows.bin", "bytes": 96},
        "layer_count": {"all": 8, "in_subgraphs": 0},
        "inputs": [{"name": "ids", "names": ["ids"], "element_type": "i64", "shape": ["?", 2]}],
        "outputs": [
            {
                "name": "rows",
                "names": ["rows", "rows/result", "pick"],
                "element_type": "f32",
                "shape": ["?", 2, 3],
            },
            {
                "name": "text",
                "names": ["text", "text/result", "pick_words"],
                "element_type": "string",
                "shape": ["?", 2],
            },
        ],
        "operations": [
            {
                "operation": f"{kind}-{version}",
                "type": kind,
                "opsets": [f"opset{version}"],
                "count": count,
                "supported": True,
                "reason": None,
            }
            for kind, version, count in (
                ("Const", 1, 3),
                ("Gather", 8, 2),
                ("Parameter", 1, 1),
                ("Result", 1, 2),
            )
        ],
        "constants": [
            {"element_type": "f32", "count": 1, "values": 12, "bytes": 48},
            {"element_type": "string", "count": 1, "values": 4, "bytes": 37},
            {"element_type": "i64", "count": 1, "values": 1, "bytes": 8},
        ],
        "problems": [],
        "missing": [],
    }


def test_json_with_layers(command: Command, rows: Path):
    layers = command("show", "--layers", "--json", "rows.xml").json["layers"]
    assert [layer["id"] for layer in layers] == [2, 0, 3, 4, 6, 1, 5, 7]
    assert layers[3] == {
        "id": 4,
        "depth": 0,
        "name": "pick",
        "operation": "Gather-8",
        "inputs": [[0, 0], [2, 0], [3, 0]],
        "outputs": [{"element_type": "f32", "shape": ["?", 2, 3]}],
    }


def test_shared_and_packed_constants(command: Command, tmp_path: Path):
    builder = uncork.Builder()
    for _ in range(2):
        builder.result(builder.constant(np.arange(5, dtype=np.uint8), "u4"))
    builder.result(builder.constant(np.zeros((0, 3), np.float32)))
    uncork.write_model(builder.model(), tmp_path / "m.xml")
    assert command("show", "m.xml", "--json").json["constants"] == [
        {"element_type": "u4", "count": 2, "values": 10, "bytes": 3},
        {"element_type": "f32", "count": 1, "values": 0, "bytes": 0},
    ]


def test_a_model_that_cannot_be_run(command: Command, nested: Path):
    answer = command("show", "nested.xml", "--layers")
    assert answer.status == 0
    assert answer.err == ""
    for part in (
        "  weights  nested.bin, no such file\n  layers   10, 3 of them in sub-graphs\n",
        "  0  x     f32   [?,2..8,3]\n",
        "  0  y             f32   [4]\n  1  z             i64   []\n  2  lost          ?     ?\n",
        "Operations (4, 2 not supported)\n  operation      layers  supported\n",
        "  Gather@opset0       1  no, known from opset1 on\n  Nest@opset9         2  no\n"
        "  Parameter-1 ",
        "Constants (0, 0 bytes)\n  none\n",
        "  1    Nest@opset9    0       f32[4], i64[]  outer\n"
        "    0  Parameter-1            f32[4]         inner_x\n",
        "  3    Result-1       1:1                    z\n",
        " problems: 'uncork check nested.xml' lists them.\n",
    ):
        assert part in answer.out, part


def test_a_model_that_cannot_be_run_as_json(command: Command, nested: Path):
    shown = command("show", "nested.xml", "--json").json
    assert shown["weights"] == {"file": "nested.bin", "bytes": None}
    assert shown["layer_count"] == {"all": 10, "in_subgraphs": 3}
    assert shown["inputs"][0]["shape"] == ["?", "2..8", 3]
    assert shown["outputs"][2] == {
        "name": "lost",
        "names": ["lost"],
        "element_type": None,
        "shape": None,
    }
    assert shown["operations"][:2] == [
        {
            "operation": "Gather@opset0",
            "type": "Gather",
            "opsets": ["opset0"],
            "count": 1,
            "supported": False,
            "reason": "known from opset1 on",
        },
        {
            "operation": "Nest@opset9",
            "type": "Nest",
            "opsets": ["opset9"],
            "count": 2,
            "supported": False,
            "reason": "unknown operation",
        },
    ]
    assert shown["missing"] == [
        {"operation": "Nest@opset9", "layers": ["inner_nest", "outer"]},
        {"operation": "Gather@opset0", "layers": ["early"]},
    ]
    assert shown["problems"][0] == {
        "where": "layer 'lost' (Result@opset1, id 4)",
        "message": "input port 0 has no edge",
        "layer": "lost",
    }


def test_an_attribute_that_is_wrong_is_no_missing_operation(command: Command, rows: Path):
    rows.write_text(rows.read_text().replace('batch_dims="0"', 'batch_dims="many"'))
    shown = command("show", "rows.xml", "--json").json
    assert [(o["operation"], o["supported"]) for o in shown["operations"]][1] == ("Gather-8", True)
    assert len(shown["problems"]) == 2


def test_opsets_of_one_operation(command: Command, rows: Path):
    rows.write_text(rows.read_text().replace('version="opset8"', 'version="opset10"', 1))
    operation = command("show", "rows.xml", "--json").json["operations"][1]
    assert (operation["operation"], operation["opsets"], operation["count"]) == (
        "Gather-8",
        ["opset8", "opset10"],
        2,
    )


def test_unknown_rank_and_no_names(command: Command, same: Callable[..., str], tmp_path: Path):
    model = tmp_path / same(x="f32[...]")
    assert command("show", model, "--json").json["inputs"][0]["shape"] is None
    assert "  0  x     f32   [...]  x_out\n" in command("show", model).out
    model.write_text(model.read_text().replace('name="same"', 'name=""'))
    assert "  name     (none)\n" in command("show", model).out


def test_no_constants_need_no_weights(command: Command, same: Callable[..., str], tmp_path: Path):
    model = same(x="f32[2]")
    (tmp_path / "same.bin").unlink()
    assert "  weights  none: the model has no constants\n" in command("show", model).out


def test_weights_elsewhere(command: Command, rows: Path):
    rows.with_suffix(".bin").rename(rows.with_name("elsewhere.bin"))
    assert "  weights  rows.bin, no such file\n" in command("show", "rows.xml").out
    assert (
        "  weights  elsewhere.bin, 96 bytes\n"
        in command("show", "rows.xml", "--weights", "elsewhere.bin").out
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read: No such file or directory"),
        ("", "the file is empty: copy or convert the model again"),
        ("<html/>", "expected <net> as the outermost element of an IR file, got <html>"),
    ],
)
def test_no_model_at_all(command: Command, tmp_path: Path, content: str | None, message: str):
    if content is not None:
        (tmp_path / "m.xml").write_text(content)
    answer = command("show", "m.xml")
    assert (answer.status, answer.message) == (1, f"m.xml: {message}")
    answer = command("show", "m.xml", "--json")
    assert (answer.status, answer.err) == (1, f"uncork: error: m.xml: {message}\n")
    problems = [{"where": "m.xml", "message": message}]
    assert answer.json == {"schema": "uncork-error-1", "error": "ReadError", "problems": problems}


def test_names_do_not_steer_the_terminal(command: Command, rows: Path):
    rows.write_text(rows.read_text().replace('name="pick"', 'name="pi&#10;\u202eck"'))
    assert "pi\\n\\u202eck" in command("show", "rows.xml", "--layers").out


def test_passes_say_what_they_did(command: Command, tmp_path: Path):
    pytest.importorskip("llvmlite")
    builder = uncork.Builder("passes")
    x = builder.parameter("x", "f32", [None, 4])
    (product,) = builder.add(
        "MatMul", 1, x, builder.constant(np.ones((4, 3), np.float32)), name="dense"
    )
    builder.result(builder.add("ReLU", 1, product, name="relu")[0], "y")
    uncork.write_model(builder.model(), tmp_path / "m.xml")
    answer = command("show", "m.xml", "--passes")
    assert "Passes that changed layers (1)\n" in answer.out
    assert (
        "  fuse_epilogue  5 to 4  products and convolutions end with what follows element by "
        "element  relu\n" in answer.out
    )
    (applied,) = command("show", "m.xml", "--passes", "--json").json["passes"]["applied"]
    assert (applied["name"], applied["before"], applied["after"], applied["made"]) == (
        "fuse_epilogue",
        5,
        4,
        ["relu"],
    )


def test_passes_of_a_model_with_problems(command: Command, tmp_path: Path):
    (tmp_path / "nested.xml").write_text(_NESTED)
    assert (
        "  Others did not run: the model has problems\n"
        in command("show", "nested.xml", "--passes").out
    )


def test_other_names_are_listed_once(command: Command, tmp_path: Path) -> None:
    """As OpenVINO writes PyTorch's inputs: a number first, then the name that tells most."""
    text = (
        '<net name="n" version="11"><layers><layer id="0" name="price" type="Parameter" '
        'version="opset1"><data element_type="f32" shape="?"/><output><port id="0" '
        'precision="FP32" names="26,price"><dim>-1</dim></port></output></layer>'
        '<layer id="1" name="y" type="Result" version="opset1"><input><port id="0"/></input>'
        '</layer></layers><edges><edge from-layer="0" from-port="0" to-layer="1" '
        'to-port="0"/></edges></net>'
    )
    (tmp_path / "model.xml").write_text(text)
    shown = command("show", "model.xml").out
    assert re.search(r"(?m)^  0  price  f32   \[\?\]  +26$", shown)
