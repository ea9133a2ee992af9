"""Results as a person reads them: rows of numbers, and the best classes with their labels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from uncork.cli._output import counted, table
from uncork.compiler.arguments import unique_names
from uncork.compiler.compile import CompiledModel
from uncork.errors import InputError
from uncork.ir.labels import labels_of
from uncork.quoting import in_terminal
from uncork.types import Array, describe_array

#: Rows, columns and classes that are shown of one result, and columns of a text.
_ROWS, _COLUMNS, _BEST, _TEXT = 40, 8, 3, 40


def read_beside(path: str) -> list[str]:
    """The lines of a text, one for each row; empty lines and those that begin with # are left out.

    Raises InputError.
    """
    lines = [" ".join(line.split()) for line in _text_of(path).split("\n")]
    return [line for line in lines if line and not line.startswith("#")]


def read_labels(path: str) -> list[str]:
    """The names of classes, a line for each. Raises InputError."""
    labels = [" ".join(line.split()) for line in _text_of(path).rstrip().splitlines()]
    InputError.when(
        len(labels) < 2, f"expected a line for each class, got {counted(len(labels), 'line')}", path
    )
    return labels


def _text_of(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is no text in UTF-8"
        raise InputError(f"cannot be read: {reason or error}", path) from None


def labels_for(compiled: CompiledModel, path: str | None) -> list[str]:
    """The names of classes: of a file, or those that the model brings. Raises InputError for a
    file that fits no output.
    """
    if path is None:
        return labels_of(compiled.model)
    labels = read_labels(path)
    sizes = [port.shape.dims[-1] for port in compiled.outputs if port.shape.rank]
    InputError.when(
        sizes and not any(size.contains(len(labels)) for size in sizes),
        f"has {len(labels)} lines, and no output as many numbers in a row: "
        f"{', '.join(map(str, compiled.outputs))}",
        path,
    )
    return labels


def results_text(
    compiled: CompiledModel,
    results: Sequence[Array],
    labels: Sequence[str],
    beside: Sequence[str] | None,
) -> str:
    """Every result, one after the other."""
    parts = []
    for name, array in zip(unique_names(compiled.outputs), results, strict=True):
        heading = f"{in_terminal(name)} {describe_array(array)}"
        parts.append(f"{heading}\n{_shown(array, labels, beside)}")
    return "\n".join(parts)


def _shown(array: Array, labels: Sequence[str], beside: Sequence[str] | None) -> str:
    if not array.size:
        return "  (empty)\n"
    rows = array.reshape(1, -1) if array.ndim < 2 else array.reshape(len(array), -1)
    whole_rows = array.ndim >= 2
    if array.ndim == 1 and beside is not None and len(beside) == len(array):
        rows, whole_rows = array.reshape(-1, 1), True
    words = list(beside) if beside is not None and whole_rows and len(beside) == len(rows) else None
    classified = array.ndim <= 2 and is_classified(rows, labels)
    lines = [best_classes(row, labels) if classified else short_values(row) for row in rows[:_ROWS]]
    width = max(map(len, lines))
    cells = [line + [""] * (width - len(line)) for line in lines]
    if words is not None:
        cells = [[_cut(word), *line] for word, line in zip(words, cells, strict=True)]
    elif len(rows) > 1:
        cells = [[str(i), *line] for i, line in enumerate(cells)]
    aligned = range(1 if words is not None or len(rows) > 1 else 0, len(cells[0]))
    text = table(
        cells,
        right=() if classified else [] if array.dtype.kind not in "fiub" else list(aligned),
        indent="  ",
    )
    more = len(rows) - _ROWS
    return text + (f"  and {counted(more, 'row')} more\n" if more > 0 else "")


def is_classified(rows: Array, labels: Sequence[str]) -> bool:
    """Whether the numbers of each row are those of classes."""
    return len(labels) > 1 and rows[0].size == len(labels) and rows.dtype.kind == "f"


def _order(row: Array) -> Array:
    """The classes with the largest values, largest first; one that is no number is last."""
    return np.argsort(-row, kind="stable")[:_BEST]


def best_classes(row: Array, labels: Sequence[str]) -> list[str]:
    """The classes with the largest values as text, largest first; as percentages where the values
    add up to 1.
    """
    share = bool((row >= 0).all()) and abs(float(row.sum(dtype=np.float64)) - 1) < 1e-3
    return [f"{labels[int(i)]} {float(row[i]):{'.1%' if share else '.4g'}}" for i in _order(row)]


def classes_of(
    names: Sequence[str], results: Iterable[Array], labels: Sequence[str]
) -> dict[str, list[list[dict[str, Any]]]]:
    """The same of every output that gives classes, for JSON: the best of each row."""
    found = {}
    for name, array in zip(names, results, strict=True):
        rows = array.reshape(1, -1) if array.ndim < 2 else array
        if rows.ndim == 2 and rows.size and is_classified(rows, labels):
            found[name] = [
                [{"label": labels[int(i)], "value": float(row[i])} for i in _order(row)]
                for row in rows
            ]
    return found


def short_values(row: Array) -> list[str]:
    """The first values of a row as text."""
    shown = [_value(value) for value in row[:_COLUMNS].tolist()]
    more = len(row) - _COLUMNS
    return [*shown, f"and {more:,} more"] if more > 0 else shown


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.6g}"
    return _cut(f'"{value}"') if isinstance(value, str) else str(value)


def _cut(text: str) -> str:
    return text if len(text) <= _TEXT else text[: _TEXT - 3] + "..."
