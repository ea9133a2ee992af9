"""Writes docs/operations.md from the registry: `python -m tools.operations_page` (`--check` only compares, exit 1 when stale)."""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

from uncork import ops
from uncork.ops import _ports
from uncork.types import ElementType

PAGE = Path(__file__).resolve().parent.parent / "docs" / "operations.md"
HEAD = """# Operations

Generated from the registry by `python -m tools.operations_page`; a test fails when it is stale.

A version is named by the opset that brought it; a model that asks for a later opset gets the newest version that is not newer.
"Types" are those of the first input (of the output where there is none). Everything can run by its reference, the
defining NumPy code, in exact types: f64 in f64, 64-bit integers in 64 bits, f16 and bf16 accumulated in f32 and rounded once.
Which layers of a model run by a kernel instead, `print(compiled.plan)` says.

| operation | versions | types | what it does |
|---|---|---|---|
"""
NAMED = {
    _ports.ANY: "all",
    _ports.ARITHMETIC: "numbers of at least a byte",
    _ports.NUMERIC: "numbers",
    _ports.INTEGER: "integers",
    _ports.REAL: "f16 bf16 f32 f64",
}


def types_of(operation: type[ops.Operation]) -> str:
    if not operation.inputs:
        return ""
    types = operation.inputs[0].types
    return NAMED.get(types) or " ".join(t.name for t in ElementType if t in types)


def summary(operation: type[ops.Operation]) -> str:
    """The first sentence of the file's docstring, which says what the operation does."""
    text = importlib.import_module(operation.__module__).__doc__ or ""
    first = " ".join(text.split("\n\n")[0].split())
    return first.split(": ", 1)[-1].rstrip(".").replace("|", "\\|")


def page() -> str:
    rows = []
    for type_name in ops.type_names():
        versions = ops.versions_of(type_name)
        newest = versions[max(versions)]
        rows.append(f"| {type_name} | {', '.join(map(str, sorted(versions)))} | {types_of(newest)} | {summary(newest)} |\n")
    count = sum(len(ops.versions_of(t)) for t in ops.type_names())
    return HEAD + "".join(rows) + f"\n{len(ops.type_names())} operations, {count} versions.\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 when the page is stale")
    if parser.parse_args().check:
        current = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
        if current != page():
            print(f"{PAGE.name} is stale: run python -m tools.operations_page", file=sys.stderr)
            return 1
        return 0
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
