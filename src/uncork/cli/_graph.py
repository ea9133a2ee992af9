"""`uncork show --html`: the graph as a page, with what other commands have found of its layers."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping
from typing import Any

from uncork import files
from uncork.cli._files import write_page
from uncork.cli._inspect import Inspection, inspect
from uncork.compiler.compile import compile_model
from uncork.destination import begins_with, check_destination, reads_of_model
from uncork.errors import InputError, UncorkError
from uncork.graph_page.graph import Findings
from uncork.graph_page.page import BEGINNING, page

#: Bytes of a report at the most.
_MOST = 1 << 30


def write_graph(arguments: argparse.Namespace) -> int:
    """Write the page. The number of layers in it. Raises UncorkError."""
    reads = reads_of_model(arguments.model, arguments.weights)
    for option in ("profile", "compare"):
        if path := getattr(arguments, option):
            reads.append((f"--{option}", path))
    check_destination(
        arguments.html, begins_with(BEGINNING.encode()), overwrite=arguments.overwrite, reads=reads
    )
    found = inspect(arguments.model, arguments.weights)
    names = {node.name for node in found.model.nodes}
    seconds = _seconds(arguments.profile, names) if arguments.profile else {}
    verdicts, first = _verdicts(arguments.compare, names) if arguments.compare else ({}, "")
    findings = Findings(_kernels(found), seconds, verdicts, first)
    write_page(arguments.html, page(found.model, os.path.basename(arguments.model), findings))
    return len(found.model.nodes)


def _kernels(found: Inspection) -> dict[str, str]:
    """The kernel of each layer that is a step by itself, or why it has none."""
    if found.problems:
        return {}
    try:
        steps = compile_model(found.model).plan.steps
    except UncorkError:  # what cannot be run can be looked at
        return {}
    return {
        step.layer: f"{step.kernel}: {step.reason}" if step.reason else step.kernel
        for step in steps
    }


def _report(path: str, schema: str, command: str) -> Mapping[str, Any]:
    try:
        told = json.loads(files.read_whole(path, _MOST))
    except OSError as error:
        raise InputError(files.why_not(error, path), path) from None
    except (ValueError, RecursionError):
        told = None
    if not isinstance(told, dict) or told.get("schema") != schema:
        raise InputError(f"is not what '{command}' prints", path)
    return told


def _seconds(path: str, names: set[str]) -> dict[str, float]:
    command = "uncork bench --profile --json"
    told = _report(path, "uncork-bench-1", command)
    try:
        result: dict[str, float] = {}
        for step in told["profile"]["steps"]:
            result[step["layer"]] = result.get(step["layer"], 0.0) + float(step["seconds"])
    except (TypeError, KeyError, ValueError):
        raise InputError(f"is not what '{command}' prints: it has no profile", path) from None
    return _of_this_model(path, result, names)


def _verdicts(path: str, names: set[str]) -> tuple[dict[str, str], str]:
    command = "uncork compare --json"
    told = _report(path, "uncork-compare-1", command)
    try:
        verdicts: dict[str, str] = {}
        for layer in told["layers"]:
            name, verdict = layer["layer"], layer["verdict"]
            if verdicts.get(name) not in ("differs", "failed"):
                verdicts[name] = str(verdict)
        first = told["first"]["layer"] if told["first"] else ""
        return _of_this_model(path, verdicts, names), str(first)
    except (TypeError, KeyError):
        raise InputError(f"is not what '{command}' prints", path) from None


def _of_this_model(path: str, told: dict[str, Any], names: set[str]) -> dict[str, Any]:
    InputError.when(
        told and not names.intersection(told),
        "is of another model: none of its layers is in this one",
        path,
    )
    return told
