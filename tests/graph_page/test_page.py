"""The page of a graph: what its data say, and `uncork show --html`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import uncork
from tests.cli.conftest import Command, command  # noqa: F401
from tests.ir._models import branches
from tests.test_hostile_names import HOSTILE, elements, model_named
from uncork import Builder
from uncork.graph_page.graph import Findings, graphs_of
from uncork.graph_page.page import page


def data_of(text: str) -> Any:
    (found,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    return json.loads(found)


def network() -> uncork.Model:
    """x -> product with w -> relu -> twice -> y."""
    builder = Builder("net")
    x = builder.parameter("x", "f32", [None, 3])
    w = builder.constant(np.arange(12, dtype=np.float32).reshape(3, 4), name="w")
    (product,) = builder.add("MatMul", 1, x, w, name="product", transpose_b=False)
    (relu,) = builder.add("ReLU", 1, product, name="relu")
    factor = builder.constant(np.float32([2]), name="factor")
    builder.result(builder.add("Multiply", 1, relu, factor, name="twice")[0], "y")
    return builder.model()


def test_what_the_page_knows() -> None:
    findings = Findings({"product": "gemm_f32"}, {"product": 2e-3}, {"relu": "differs"}, "relu")
    (graph,) = graphs_of(network(), findings)
    boxes = {box["name"]: box for box in graph["boxes"]}
    assert list(boxes) == ["x", "product", "relu", "twice", "y/result"]  # constants are no boxes
    product = boxes["product"]
    assert product["lines"] == ["MatMul", "f32[?,4]"] and product["group"] == "product"
    assert ["transpose_b", "false"] in product["facts"] and ["kernel", "gemm_f32"] in product[
        "facts"
    ]
    assert product["inputs"] == [["x f32[?,3]", 0], ["constant w f32[3,4]", -1]]
    assert product["readers"] == [2] and product["seconds"] == 2e-3
    assert boxes["relu"]["verdict"] == "first" and boxes["twice"]["verdict"] == ""
    assert boxes["twice"]["inputs"][1] == ["constant factor f32[1] = [2.]", -1]
    assert [(a, b) for a, b, _ in graph["arrows"]] == [(0, 1), (1, 2), (2, 3), (3, 4)]


def test_bodies_are_graphs_of_their_own() -> None:
    graphs = graphs_of(branches(), Findings())
    (branch,) = [box for box in graphs[0]["boxes"] if box["lines"][0] == "If"]
    assert branch["bodies"] == [["then_body", 1], ["else_body", 2]]
    assert [graph["path"] for graph in graphs] == ["", "choice: then_body", "choice: else_body"]
    assert [box["lines"][0] for box in graphs[2]["boxes"]] == ["Parameter", "Tanh", "Result"]


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_names_are_data(name: str) -> None:
    plain, hostile = (page(model_named(n), n, Findings({n: n}, {}, {n: n}, n)) for n in ("p", name))
    assert elements(hostile) == elements(plain)
    for text in map(str, _texts(data_of(hostile))):
        assert text.isprintable() or not text


def _texts(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [text for one in value.items() for text in _texts(list(one))]
    return [t for one in value for t in _texts(one)] if isinstance(value, list) else [value]


def test_the_page_needs_no_other() -> None:
    text = page(network(), "net", Findings())
    assert not re.search(r"""(src|href)\s*=|@import|url\(['"]?http|fetch\(|innerHTML""", text)
    assert "default-src 'none'" in text


# ---- the command


@pytest.fixture
def net(command: Command, tmp_path: Path) -> None:  # noqa: F811
    uncork.write_model(network(), tmp_path / "net.xml")


def test_show_html(command: Command, net: None, tmp_path: Path) -> None:  # noqa: F811
    answer = command("show", "net.xml", "--html", "graph.html")
    assert (answer.status, answer.err) == (0, "")
    assert answer.out == "saved 7 layers in graph.html\n"
    (graph,) = data_of((tmp_path / "graph.html").read_text(encoding="utf-8"))
    assert len(graph["boxes"]) == 5
    again = command("show", "net.xml", "--html", "graph.html")
    assert again.status == 1 and "graph.html" in again.err
    answer = command("show", "net.xml", "--html", "graph.html", "--overwrite", "--json")
    assert answer.json["saved"] == "graph.html"


def test_times_and_differences(command: Command, net: None, tmp_path: Path) -> None:  # noqa: F811
    random = ["--random", "--shape", "x=2,3"]
    bench = command("bench", "net.xml", *random, "--profile", "--seconds", "0.1", "--json")
    (tmp_path / "bench.json").write_text(bench.out)
    values = np.full((2, 4), 100, np.float32)
    np.savez(tmp_path / "other.npz", y=values)
    compare = command("compare", "net.xml", "--against", "reference", *random, "--json")
    told = compare.json
    told["first"] = {"layer": "relu"}
    (tmp_path / "compare.json").write_text(json.dumps(told))
    words = ["--profile", "bench.json", "--compare", "compare.json"]
    answer = command("show", "net.xml", "--html", "graph.html", *words)
    assert (answer.status, answer.err) == (0, "")
    (graph,) = data_of((tmp_path / "graph.html").read_text(encoding="utf-8"))
    seconds = {box["name"]: box["seconds"] for box in graph["boxes"]}
    steps = {step["layer"]: step["seconds"] for step in bench.json["profile"]["steps"]}
    assert {name: s for name, s in seconds.items() if s is not None} == steps
    assert [box["name"] for box in graph["boxes"] if box["verdict"] == "first"] == ["relu"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--profile", "x.json"], "--profile is for --html: give that, too"),
        (["--html", "g.html", "--layers"], "--layers is for the text: leave it out with --html"),
        (["--html", "g.html", "--profile", "none.json"], "none.json: cannot be read: No such file"),
        (["--html", "g.html", "--profile", "net.xml"], "is not what 'uncork bench --prof"),
        (
            ["--html", "g.html", "--compare", "bad.json"],
            "bad.json: is not what 'uncork comp",
        ),
        (["--html", "g.html", "--compare", "other.json"], "other.json: is of another model"),
        (["--html", "net.xml", "--overwrite"], "net.xml"),
        (["--html", "none/g.html"], "none/g.html: "),
    ],
)
def test_mistakes(
    command: Command,  # noqa: F811
    net: None,
    tmp_path: Path,
    words: list[str],
    message: str,
) -> None:
    (tmp_path / "bad.json").write_text('{"schema": "uncork-compare-1", "layers": 7}')
    layers = [{"layer": "nobody", "verdict": "same"}]
    told = {"schema": "uncork-compare-1", "first": None, "layers": layers}
    (tmp_path / "other.json").write_text(json.dumps(told))
    answer = command("show", "net.xml", *words)
    assert answer.status and message in answer.err and not (tmp_path / "g.html").exists()


def test_a_model_with_problems_is_drawn(command: Command, net: None, tmp_path: Path) -> None:  # noqa: F811
    text = (tmp_path / "net.xml").read_text(encoding="utf-8").replace('"ReLU"', '"Unheard"')
    (tmp_path / "net.xml").write_text(text, encoding="utf-8")
    assert command("show", "net.xml", "--html", "graph.html").status == 0
    (graph,) = data_of((tmp_path / "graph.html").read_text(encoding="utf-8"))
    (box,) = [box for box in graph["boxes"] if box["name"] == "relu"]
    assert box["facts"][2][0] == "not supported" and len(box["inputs"]) == 1
