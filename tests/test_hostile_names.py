"""Names and strings of models are data wherever they come out: a model under hostile names gives
the same sources, pages, lines and files as under plain ones, but for the names.
"""

from __future__ import annotations

import ast
import html.parser
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import uncork
from uncork import quoting

HOSTILE = {
    "three quotes": 'a"""\n    open("PWNED", "w")\n    """b',
    "three single quotes": "a'''\nopen('PWNED', 'w')\n'''b",
    "a backslash at the end": "a\\",
    "an escape": "a\\N{BULLET}\\x22\\u0022",
    "braces": "{open('PWNED', 'w')}{{}}%s%(a)d",
    "an element": "</td></script><script>open('PWNED')</script><b x='\"",
    "a comment": "*/ --> <!-- //",
    "a terminal": "\x1b[2J\x1b]0;PWNED\x07\r\b\x9b31m",
    "a shell": "$(touch PWNED)`touch PWNED`;touch PWNED|'\"&&",
    "bidirectional": "\u202egnp.\u2066x\u200b",
    "lines": "a\u2028b\u2029c\x85d\x0be\x0c\nimport os",
    "paths": "../../..//PWNED/../x",
    "a long one": "x" * 10_000,
    "a variable": "v1__x",
    "a constant": "CONSTANT_1_",
    "a keyword": "class",
    "a member": "forward",
    "another member": "layers",
    "a dunder": "__class__",
    "a helper": "torch",
    "no letter": "123",
    "other letters": "ſelf ｔorch é",
}


def model_named(name: str) -> uncork.Model:
    """A model whose layers, inputs, outputs and constants are all called so."""
    builder = uncork.Builder(name)
    x = builder.parameter(name, "f32", [2, 3])
    weights = builder.constant(np.full((3, 4), 0.125, np.float32), name=f"{name}/w")
    (y,) = builder.add("MatMul", 1, x, weights, name=f"{name}/0/product")
    for step in range(4):  # as many as a sub-module has at least
        (y,) = builder.add("Sin" if step % 2 else "Tanh", 1, y, name=f"{name}/{name}/l{step}")
    builder.result(y, name)
    return builder.model()


class Shape(ast.NodeTransformer):
    """A syntax tree without what names may change: names of variables and strings."""

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.copy_location(ast.Name("name", node.ctx), node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        node.attr = "attribute"
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        return ast.Constant("text") if isinstance(node.value, str) else node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        self.generic_visit(node)
        node.name = "Class"
        return node

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.arg = "argument"
        return node


def shape_of(source: str) -> str:
    return ast.dump(Shape().visit(ast.parse(source)))


def plain(name: str) -> str:
    """A name of as many parts, none of which is of any harm."""
    parts: dict[str, str] = {}

    def part(found: re.Match[str]) -> str:
        harmless = "7" if found[0].isdigit() else f"p{len(parts)}"
        return parts.setdefault(found[0], harmless)

    return re.sub(r"[^/.:]+", part, name)


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_sources_have_the_same_statements(name: str) -> None:
    """Every statement of what `to_torch` executes is there under plain names, too."""
    from uncork.export.torch.model import torch_source

    hostile, harmless = (torch_source(model_named(n), False).text for n in (name, plain(name)))
    assert shape_of(hostile) == shape_of(harmless)


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_modules_answer_the_same(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    x = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
    wanted = uncork.compile_model(model_named("plain"), backend="reference")(x)[0]
    found = uncork.to_torch(model_named(name))(torch.from_numpy(x)).detach().numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_onnx_has_the_same_nodes(name: str) -> None:
    onnx = pytest.importorskip("onnx")
    plain, hostile = (uncork.to_onnx(model_named(n)) for n in ("plain", name))
    onnx.checker.check_model(hostile)
    assert [n.op_type for n in hostile.graph.node] == [n.op_type for n in plain.graph.node]


class Elements(html.parser.HTMLParser):
    """The elements of a page and their attributes' names."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[object] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, [key for key, _ in attrs]))

    def handle_endtag(self, tag: str) -> None:
        self.found.append(tag)

    def handle_comment(self, data: str) -> None:
        self.found.append("comment")


def elements(page: str) -> list[object]:
    parser = Elements()
    parser.feed(page)
    parser.close()
    return parser.found


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_pages_have_the_same_elements(name: str) -> None:
    compiled = {n: uncork.compile_model(model_named(n), backend="reference") for n in ("p", name)}
    x = np.ones((2, 3), np.float32)
    for shown in (
        lambda n: compiled[n]._repr_html_(),
        lambda n: compiled[n](x)._repr_html_(),
        lambda n: compiled[n].plan._repr_html_(),
    ):
        assert elements(shown(name)) == elements(shown("p"))


def test_reports_of_comparing_have_the_same_elements(tmp_path: Path) -> None:
    from uncork.compare import compare
    from uncork.compare.html import page

    found = []
    for number, name in enumerate(["plain", *HOSTILE.values()]):
        path = tmp_path / f"m{number}.xml"
        try:
            uncork.write_model(model_named(name), path)
        except uncork.UncorkError:  # what XML cannot hold is refused
            continue
        x = np.ones((2, 3), np.float32)
        found.append(elements(page(compare(path, "reference", [x]))))
    assert len(found) > 10
    assert all(each == found[0] for each in found)


COMMANDS = (
    ("show", "m.xml"),
    ("show", "m.xml", "--passes"),
    ("show", "m.xml", "--html", "m.html"),
    ("check", "m.xml"),
    ("run", "m.xml", "--random"),
    ("bench", "m.xml", "--random", "--profile", "--seconds", "0.1"),
    ("cut", "m.xml", "--outputs", "nothing", "-o", "cut.xml"),
    ("extract", "m.xml", "nothing", "-o", "one.xml"),
    ("rename", "m.xml", "nothing=else", "-o", "renamed.xml"),
    ("export", "m.xml", "--to", "onnx", "-o", "m.onnx"),
    ("compare", "m.xml", "--against", "reference", "--random"),
)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_terminals_are_not_steered(words: tuple[str, ...], tmp_path: Path) -> None:
    """What commands print has no control character but ends of lines; nothing is written beside
    what was asked for.
    """
    pytest.importorskip("onnx")
    name = "".join(
        HOSTILE[kind].replace("\x1b", "\x9b").replace("\x07", "").replace("\b", "")
        for kind in ("three quotes", "an element", "a shell", "bidirectional", "paths")
    ).replace("\n", " ")
    uncork.write_model(model_named(name), tmp_path / "m.xml")
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "uncork", *words],
        capture_output=True,
        cwd=tmp_path,
        env=environment,
        check=False,
        timeout=300,
    )
    shown = (done.stdout + done.stderr).decode()
    assert "Traceback" not in shown, shown
    assert [c for c in shown if not c.isprintable() and c != "\n"] == []
    assert not list(tmp_path.rglob("*PWNED*"))


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_each_destination_takes_text_for_text(name: str) -> None:
    (expression,) = ast.parse(f'"""{quoting.in_docstring(name)}"""').body
    assert isinstance(expression, ast.Expr) and isinstance(expression.value, ast.Constant)
    assert elements(f"<p title='{quoting.in_html(name)}'>{quoting.in_html(name)}</p>") == [
        ("p", ["title"]),
        "p",
    ]
    assert quoting.in_terminal(name).isprintable()
    said = subprocess.run(
        ["sh", "-c", f"printf %s {quoting.in_shell(name)}"], capture_output=True, check=True
    )
    assert said.stdout.decode() == quoting.in_terminal(name)
