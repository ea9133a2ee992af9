"""What is wrong with a file: collected, so that one error lists everything, and how messages quote what strangers wrote."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from uncork.errors import Problem, UnsupportedError, ValidationError
from uncork.ops import type_names, versions_of

#: Missing operations for which a message looks for one that is spelled alike: the search is slow.
_MAX_ADVICE = 20


@dataclass
class Findings:
    """Everything wrong with a file, and every operation that is missing, in the order found."""

    problems: list[Problem] = field(default_factory=list)
    missing: dict[str, list[str]] = field(default_factory=dict)

    def add(self, where: str, message: str) -> None:
        self.problems.append(Problem(where, message))

    def all(self) -> list[Problem]:
        """The problems, then one for each missing operation with its layers."""
        missing = [Problem("", _missing_text(op, layers, i < _MAX_ADVICE)) for i, (op, layers) in enumerate(self.missing.items())]
        return self.problems + missing

    def raise_if_any(self, subject: str) -> None:
        """One error for all: UnsupportedError when nothing but operations is missing, else the class that fits."""
        if self.problems:
            raise ValidationError.of_all(subject, self.all())
        if self.missing:
            raise UnsupportedError.of_all(subject, self.all())


def _missing_text(operation: str, layers: list[str], advise: bool) -> str:
    named = ", ".join(f"'{name}'" for name in layers[:5]) + (f" and {len(layers) - 5} more" if len(layers) > 5 else "")
    advice = _advice(operation) if advise else ""
    return f"operation {operation} is not supported ({'layer' if len(layers) == 1 else 'layers'} {named}){advice}"


def _advice(operation: str) -> str:
    type_name, _, opset = operation.partition("@")
    versions = versions_of(type_name)
    if versions:
        return (
            f"; {type_name} is known from opset{min(versions)} on" if opset_number(opset) is not None else f"; no extension '{opset}' is known"
        )
    import difflib  # for mistakes only

    by_lower = {name.lower(): name for name in type_names()}
    near = difflib.get_close_matches(type_name.lower(), by_lower, 1, cutoff=0.7)
    return f"; did the file mean {by_lower[near[0]]}?" if near else ""


def listed(ids: Iterable[int]) -> str:
    """Numbers as a message shows them, not more than twenty."""
    numbers = [i for i in ids if i >= 0]
    return (", ".join(map(str, numbers[:20])) or "none") + (f" and {len(numbers) - 20} more" if len(numbers) > 20 else "")


def shown(text: str | None) -> str:
    """What a message quotes of the file: it may be anything, of any length."""
    return "nothing" if text is None else repr(text if len(text) <= 40 else text[:37] + "...")


_UNSIGNED = re.compile(r"\s*\d{1,40}\s*", re.ASCII)
_OPSET = re.compile(r"opset(\d{1,4})", re.ASCII)


def unsigned(text: str | None) -> int | None:
    return int(text) if text is not None and _UNSIGNED.fullmatch(text) else None


def opset_number(opset: str) -> int | None:
    # Early converters wrote these two words for operations that opset6 then took over.
    if opset in ("experimental", "extension"):
        return 6
    match = _OPSET.fullmatch(opset)
    return int(match.group(1)) if match else None
