"""What the commands print: text for people, aligned and safe for a terminal, or strict JSON."""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import unicodedata
from collections.abc import Callable, Collection, Sequence
from typing import Any

from uncork.errors import Problem, UncorkError
from uncork.quoting import in_terminal


def emit(text: str) -> None:
    """Write to standard output at once, so that a full disk or a closed pipe is noticed here."""
    if sys.stdout is None:  # closed before the program began
        UncorkError.when(text, "standard output cannot be written: it is closed")
        return
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        abandon_stdout()
        raise UncorkError(f"standard output cannot be written: {error.strerror or error}") from None


def emit_json(value: Any) -> None:
    """Print as JSON that every parser takes: no NaN, ASCII only."""
    emit(_json(value, "\n") + "\n")


def answer(
    arguments: argparse.Namespace, facts: dict[str, Any], text: str | Callable[[], str]
) -> None:
    """Print what a command found: facts where `--json` asks for them, else a text, which may be
    written when it is wanted.
    """
    if arguments.json:
        emit_json(facts)
    else:
        emit(text if isinstance(text, str) else text())


def _json(value: Any, line: str) -> str:
    """A value as JSON text: indented, but lists of numbers and names stand on one line, so that a
    shape is read at a glance.

    `line` starts a line of this depth.
    """
    items = (
        list(value.values() if isinstance(value, dict) else value)
        if isinstance(value, (dict, list, tuple))
        else []
    )
    if not items or (
        not isinstance(value, dict)
        and not any(isinstance(item, (dict, list, tuple)) for item in items)
    ):
        return json.dumps(value, allow_nan=False)
    texts = [_json(item, line + "  ") for item in items]
    if isinstance(value, dict):
        texts = [f"{json.dumps(key)}: {text}" for key, text in zip(value, texts, strict=True)]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return opening + ",".join(f"{line}  {text}" for text in texts) + line + closing


def problem_as_json(problem: Problem) -> dict[str, Any]:
    """A problem as JSON holds it: place, message, layer, input, value and limits."""
    known = problem.known()
    if isinstance(known.get("value"), float) and not math.isfinite(known["value"]):
        known["value"] = str(known["value"])  # JSON has no such numbers
    return {"where": problem.where, "message": problem.message, **known}


def abandon_stdout() -> None:
    """Discard what is still buffered for standard output: the interpreter would try to write it
    once more at its end, and complain.
    """
    if sys.stdout is None:
        return
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    except (OSError, ValueError):  # standard output is no file of the system
        pass


def table(rows: Sequence[Sequence[str]], right: Collection[int] = (), indent: str = "") -> str:
    """Lines of aligned columns, those in `right` aligned to the right.

    The first row is the heading.
    """
    rows = [[in_terminal(cell) for cell in row] for row in rows]
    widths = [max(_columns(row[c]) for row in rows) for c in range(len(rows[0]))]
    lines: list[str] = []
    for row in rows:
        cells: list[str] = []
        for column, cell in enumerate(row):
            space = " " * (widths[column] - _columns(cell))
            cells.append(space + cell if column in right else cell + space)
        lines.append((indent + "  ".join(cells)).rstrip() + "\n")
    return "".join(lines)


def without_empty_columns(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """The rows without the columns that have a heading and nothing under it."""
    kept = [
        column
        for column in range(len(rows[0]))
        if any(row[column] for row in rows[1:]) or column == 0
    ]
    return [[row[column] for column in kept] for row in rows]


def _columns(text: str) -> int:
    """Columns of a terminal that a text takes: East Asian characters two, combining marks none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


def counted(number: int, one: str) -> str:
    """A number with its noun: `1 layer`, `1,234 layers`."""
    return f"{number:,} {one if number == 1 else one + 's'}"
