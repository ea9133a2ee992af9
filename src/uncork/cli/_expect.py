"""`uncork run --expect`: the comparison of the outputs with those of a file."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from uncork.cli._files import read_arrays
from uncork.cli._output import table
from uncork.cli._parser import mistyped_if, number_in
from uncork.compare.difference import DIFFERS, Difference, difference
from uncork.compiler.compile import CompiledModel
from uncork.errors import InputError, Problem
from uncork.ir.ports import find_port, no_such_port
from uncork.types import Array

#: The largest difference without `--tolerance`, of the largest value.
_DEFAULT = (1e-4, True)
Tolerance = tuple[float, bool]


def tolerance(text: str) -> Tolerance:
    """A tolerance from its text: `0.01`, or `1%` of the largest value."""
    number = number_in(text.removesuffix("%"))
    mistyped_if(
        not 0 <= number < math.inf,
        f"expected a number of at least 0, such as 0.01 or 1%, got '{text}'",
    )
    return (number / 100, True) if text.endswith("%") else (number, False)


@dataclass(frozen=True)
class Expected:
    """An output and how it differs from what was expected."""

    name: str
    difference: Difference

    @property
    def differs(self) -> bool:
        return self.difference.verdict == DIFFERS

    def as_json(self) -> dict[str, Any]:
        """The output as `--json` shows it."""
        seen = self.difference
        return {
            "name": self.name,
            "differs": self.differs,
            "reason": seen.reason,
            "max_abs": seen.largest,
            "max_rel": seen.relative,
        }


def compared(
    path: str, results: Mapping[str, Array], compiled: CompiledModel, allowed: Tolerance | None
) -> list[Expected]:
    """The comparison of every array of the file with the output of its name.

    Raises InputError for names that no output has.
    """
    arrays = read_arrays(path)
    if not isinstance(arrays, dict):
        InputError.when(
            len(results) != 1,
            "a .npy file has no name for its array, "
            f"and the model has {len(results)} outputs: give an .npz file",
            path,
        )
        arrays = {next(iter(results)): arrays}
    names = list(results)
    problems: list[Problem] = []
    result: list[Expected] = []
    for name, array in arrays.items():
        position = names.index(name) if name in names else find_port(compiled.outputs, name)
        if position is None:
            problems.append(Problem(path, no_such_port(compiled.outputs, name, "output")))
            continue
        result.append(Expected(name, _held(results[names[position]], array, allowed or _DEFAULT)))
    InputError.when_any("", problems)
    InputError.when(not result, "has no arrays to compare with", path)
    return result


def _held(ours: Array, theirs: Array, allowed: Tolerance) -> Difference:
    bound, relative = allowed
    if not relative:
        with np.errstate(all="ignore"):
            numbers = [
                np.abs(a[np.isfinite(a)]).max(initial=0.0)
                for a in (ours, theirs)
                if a.dtype.kind == "f"
            ]
        bound = bound / (float(max(numbers, default=0.0)) or 1.0)
    return difference(ours, theirs, bound)


def expected_table(found: Sequence[Expected]) -> str:
    """What was compared, one line for each."""
    rows = [["expected", "largest difference", "relative", "verdict"]]
    for one in found:
        seen = one.difference
        verdict = f"differs: {seen.reason}" if one.differs else "as expected"
        rows.append([one.name, f"{seen.largest:.3g}", f"{seen.relative:.3g}", verdict])
    return table(rows, right=(1, 2))
