"""The source of helper functions: the module that is written has those that it calls, and no
others.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable
from pathlib import Path

_HELPERS = Path(__file__).parent / "helpers"


@functools.cache
def helper_sources() -> dict[str, tuple[str, frozenset[str]]]:
    """Every helper's source, and the helpers that it calls itself, in the order of the files."""
    found: dict[str, tuple[str, ast.FunctionDef]] = {}
    for path in sorted(_HELPERS.glob("*.py")):
        text = path.read_text(encoding="utf-8")
        lines = text.splitlines()
        for node in ast.parse(text).body:
            if isinstance(node, ast.FunctionDef):
                if node.name in found:
                    raise AssertionError(f"two helpers are called {node.name}")
                source = "\n".join(lines[node.lineno - 1 : node.end_lineno])
                found[node.name] = (source, node)
    return {
        name: (
            source,
            frozenset(
                n.id
                for n in ast.walk(node)
                if isinstance(n, ast.Name) and n.id in found and n.id != name
            ),
        )
        for name, (source, node) in found.items()
    }


def helpers_needed(names: Iterable[str]) -> list[str]:
    """Sources of these helpers and of those that they call, in the order of the files."""
    sources = helper_sources()
    needed: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed.add(name)
            waiting.extend(sources[name][1])
    return [source for name, (source, _) in sources.items() if name in needed]
