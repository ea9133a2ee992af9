"""The import rule of ARCHITECTURE.md: a part of the code imports only from its own layer and those above it."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

import uncork

ROOT = Path(uncork.__file__).parent
#: From the ground up. What stands together may import each other.
LAYERS: list[set[str]] = [
    {"errors"},
    {"types"},
    {"storage"},
    {"ops"},
    {"ir"},
    {"kernels", "export"},
    {"compiler"},
    {"functional"},
    {"score", "compare", "shrink"},
    {"cli"},
]
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
FILES = sorted(p for p in ROOT.rglob("*.py") if p != ROOT / "__init__.py" and p != ROOT / "__main__.py")


def part(path: Path) -> str:
    """The part a file belongs to: its folder or, at the top, itself."""
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported(path: Path) -> set[str]:
    """Every module a file imports, at any depth of it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names.add(node.module or "")
            if node.module == "uncork":
                names.update(f"uncork.{alias.name}" for alias in node.names)
    return names


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_only_from_above(path: Path) -> None:
    own = part(path)
    assert own in RANK, f"say in LAYERS where '{own}' belongs"
    for module in imported(path):
        names = module.split(".")
        if names[0] == "uncork" and len(names) > 1 and names[1] in RANK:
            assert RANK[names[1]] <= RANK[own], f"{own} must not import {module}"
            assert RANK[names[1]] < RANK[own] or names[1] == own, f"{own} and {names[1]} stand side by side: neither may import the other"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_needs_only_numpy(path: Path) -> None:
    """NumPy is the only hard dependency (the kernels need llvmlite too), and no option is read from the environment.

    Scoring is an extra of its own; what it takes is imported when it is used."""
    extras = {"export": {"onnx"}, "kernels": {"llvmlite"}, "score": {"pyarrow", "ray", "rich", "tomllib", "tomli"}}
    allowed = {"numpy", "uncork"} | extras.get(part(path), set())
    for module in imported(path):
        top = module.split(".")[0]
        assert top in sys.stdlib_module_names or top in allowed, f"{path} imports {module}"
    assert "environ" not in path.read_text(encoding="utf-8"), "options are arguments, never environment variables"


def test_every_public_name_is_documented() -> None:
    for name in uncork.__all__:
        assert getattr(uncork, name).__doc__, f"uncork.{name} has no docstring"


def test_files_stay_readable() -> None:
    """One subject a file: a few screens, not more."""
    long = {str(p.relative_to(ROOT)): n for p in FILES if (n := len(p.read_text(encoding="utf-8").splitlines())) > 450}
    assert not long, f"too long to have one subject: {long}"
