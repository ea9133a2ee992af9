"""A model file as far as it can be read: what `show` and `check` start from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from uncork.cli._output import problem_as_json
from uncork.errors import Problem
from uncork.ir.diagnostics import Diagnostics
from uncork.ir.model import Model, Node
from uncork.ir.validate import infer
from uncork.reading import read_structure


@dataclass(frozen=True)
class Inspection:
    """The model, with specs inferred as far as possible, and everything that is wrong with it."""

    model: Model
    diagnostics: Diagnostics

    @property
    def problems(self) -> list[Problem]:
        """All problems, missing operations included."""
        return self.diagnostics.all()


def inspect(path: str, weights: str | None) -> Inspection:
    """The inspection of a file. Raises ReadError when it is no IR model at all."""
    model, diagnostics = read_structure(path, weights)
    model, problems = infer(model)
    diagnostics.extend(problems)
    return Inspection(model, diagnostics)


def all_nodes(model: Model, depth: int = 0) -> Iterator[tuple[int, Node]]:
    """Every layer, those of sub-graphs after the layer that holds them, with its depth."""
    for node in model.nodes:
        yield depth, node
        for _, body in node.bodies:
            yield from all_nodes(body, depth + 1)


def problems_as_json(found: Inspection) -> dict[str, Any]:
    """`problems` and `missing` as `show --json` and `check --json` have them."""
    return {
        "problems": list(map(problem_as_json, found.diagnostics.problems)),
        "missing": [
            {"operation": operation, "layers": layers}
            for operation, layers in found.diagnostics.missing.items()
        ],
    }
