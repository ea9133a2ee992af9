"""The summary of one array: type, shape, minimum, mean, maximum, non-finite and first values."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from uncork.cli._output import table, without_empty_columns
from uncork.types import Array, ElementType

#: How many of the first values are shown.
FIRST = 6
#: Longer texts are cut in tables.
_TEXT = 24

Summary = dict[str, Any]


def summarise(name: str, names: Sequence[str], element_type: ElementType, array: Array) -> Summary:
    """The summary as JSON holds it.

    See docs/cli.md. min, mean and max are those of the finite values, null without any.
    """
    summary: Summary = {
        "name": name,
        "names": list(names),
        "element_type": element_type.name,
        "shape": list(array.shape),
        "min": None,
        "mean": None,
        "max": None,
        "nan": 0,
        "inf": 0,
        "true": int(np.count_nonzero(array)) if element_type is ElementType.boolean else None,
        "first": [_json_value(value) for value in array.reshape(-1)[:FIRST].tolist()],
    }
    if array.dtype.kind not in "fiu":
        return summary
    finite = array
    if array.dtype.kind == "f":
        kept = np.isfinite(array)
        if not kept.all():
            finite = array[kept]
            summary["nan"] = int(np.isnan(array).sum())
            summary["inf"] = array.size - finite.size - summary["nan"]
    if finite.size:
        summary.update(min=finite.min().item(), mean=_mean(finite), max=finite.max().item())
    return summary


def _mean(array: Array) -> float:
    with np.errstate(over="ignore"):
        mean = float(array.mean(dtype=np.float64))
    # The sum of large f64 values can leave the range though their mean cannot.
    return mean if math.isfinite(mean) else float((array / array.size).sum(dtype=np.float64))


def _json_value(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def summary_table(heading: str, summaries: Sequence[Summary]) -> str:
    """All summaries as one table."""
    rows = [[heading, "type", "shape", "min", "mean", "max", "first values", "remarks"]]
    for summary in summaries:
        shape = "[" + ",".join(map(str, summary["shape"])) + "]"
        numbers = [
            "" if summary[key] is None else _number(summary[key]) for key in ("min", "mean", "max")
        ]
        rows.append(
            [
                summary["name"],
                summary["element_type"],
                shape,
                *numbers,
                _first(summary),
                _remarks(summary),
            ]
        )
    kept = without_empty_columns(rows)
    return table(
        kept, right=[i for i, title in enumerate(kept[0]) if title in ("min", "mean", "max")]
    )


def _first(summary: Summary) -> str:
    values = summary["first"]
    if not values:
        return "(empty)"
    is_text = summary["element_type"] == "string"
    shown = ", ".join(map(_text if is_text else _number, values))
    return shown + (", ..." if math.prod(summary["shape"]) > len(values) else "")


def _text(value: str) -> str:
    return json.dumps(
        value if len(value) <= _TEXT else value[: _TEXT - 3] + "...", ensure_ascii=False
    )


def _number(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.6g}"
    return {"NaN": "nan", "Infinity": "inf", "-Infinity": "-inf"}.get(value, str(value))


def _remarks(summary: Summary) -> str:
    remarks = [
        f"{summary[key]:,} {word}"
        for key, word in (("nan", "NaN"), ("inf", "infinite"))
        if summary[key]
    ]
    if summary["true"] is not None:
        remarks.append(f"{summary['true']:,} of {math.prod(summary['shape']):,} true")
    return ", ".join(remarks)
