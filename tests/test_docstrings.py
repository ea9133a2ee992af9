"""Docstrings: their samples parse, and what they say is raised exists."""

from __future__ import annotations

import ast
import builtins
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from uncork.kernels.loops import language

SOURCE = Path(__file__).resolve().parents[1] / "src" / "uncork"
TREES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(SOURCE.rglob("*.py"))}
CLASSES = {
    node.name
    for tree in TREES.values()
    for node in ast.walk(tree)
    if isinstance(node, ast.ClassDef)
}
#: What other packages raise.
OTHERS = {"TOMLDecodeError", "BadZipFile"}


def docstrings() -> Iterator[tuple[str, str]]:
    """Where each docstring stands, and its text."""
    for path, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
                text = ast.get_docstring(node)
                if text:
                    name = getattr(node, "name", "module")
                    yield f"{path.relative_to(SOURCE)}:{name}", text


def samples() -> Iterator[tuple[str, str]]:
    """The paragraphs of docstrings that are programs."""
    for where, text in docstrings():
        for paragraph in text.split("\n\n"):
            if re.search(r"^\s*(import|from) uncork\b", paragraph, re.MULTILINE):
                yield where, paragraph


@pytest.mark.parametrize(("where", "sample"), list(samples()), ids=lambda text: text[:40])
def test_samples_are_programs(where: str, sample: str) -> None:
    ast.parse(re.sub(r"^>>> ?|^\.\.\. ?", "", textwrap.dedent(sample), flags=re.MULTILINE))


def test_there_are_samples() -> None:
    assert {"score/__init__.py:module", "__init__.py:module"} <= {where for where, _ in samples()}


def test_the_sample_of_the_loop_language_is_a_program_of_it() -> None:
    assert language.__doc__ is not None
    (sample,) = re.findall(r"\n((?:    .*\n)+)", language.__doc__.split("Small letters")[0])
    program = "\n".join(line[4:] for line in _aligned(sample))
    parsed = language.parse(program)
    assert {"X", "T", "Y"} <= set(parsed.views)


def _aligned(sample: str) -> Iterator[str]:
    """The lines without the remarks beside them."""
    for line in sample.splitlines():
        indent = len(line) - len(line.lstrip())
        yield line[:indent] + re.split(r" {3,}", line[indent:])[0]


def test_what_is_raised_exists() -> None:
    known = CLASSES | OTHERS
    unknown = {
        f"{where}: {name}"
        for where, text in docstrings()
        for name in re.findall(r"\bRaises? (?:an? )?([A-Z]\w+)", text)
        if name not in known and not hasattr(builtins, name)
    }
    assert unknown == set()
