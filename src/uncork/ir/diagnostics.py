"""`Diagnostics`: all problems of a file, collected, and how messages quote a file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from operator import attrgetter

from msgspec import Struct, field

from uncork.errors import Problem, UnsupportedError, ValidationError, shortened
from uncork.ops import type_names, versions_of

#: Missing operations for which a message looks for one that is spelled alike: the search is slow.
_MAX_ADVICE = 20
#: Problems that an error lists: nobody reads more.
_MAX_LISTED = 1000


class Diagnostics(Struct):
    """Everything wrong with a file, and every operation that is missing, in the order found.

    One mistake is reported once: a problem may name subjects that explain it when they have a
    problem themselves, and is not reported then. A subject is a layer, an edge, what a layer reads.
    """

    missing: dict[str, list[str]] = field(default_factory=dict)
    #: The package whose custom operations the file says it uses.
    extension: str = ""
    _reported: list[_Reported] = field(default_factory=list)

    def add(
        self, where: str, message: str, subject: str = "", explained_by: Iterable[str] = ()
    ) -> None:
        """A problem of `subject` (of the place where it is, when no other is given)."""
        self._reported.append(
            _Reported(Problem(where, message), subject or where, frozenset(explained_by))
        )

    def extend(self, inferred: Iterable[Problem]) -> None:
        """Add problems of inference, which what the layer is said to read explains."""
        for problem in inferred:
            self._reported.append(
                _Reported(problem, problem.where, frozenset([inputs_of(problem.where)]))
            )

    @property
    def problems(self) -> list[Problem]:
        """What is reported, missing operations aside."""
        subjects = set(map(attrgetter("subject"), self._reported))
        return [f.problem for f in self._reported if not f.explained_by & subjects]

    def all(self) -> list[Problem]:
        """All problems, then one for each missing operation with its layers, and one for all custom
        operations; where they are very many, the first ones and how many more there are.
        """
        custom = {op: layers for op, layers in self.missing.items() if _is_custom(op)}
        opsets = [(op, layers) for op, layers in self.missing.items() if op not in custom]
        texts = [
            _missing_text(op, layers, i < _MAX_ADVICE) for i, (op, layers) in enumerate(opsets)
        ]
        texts += [_custom_text(custom, self.extension)] if custom else []
        found = [*self.problems, *(Problem("", text) for text in texts)]
        more = len(found) - _MAX_LISTED
        return (
            found
            if more <= 0
            else [
                *found[:_MAX_LISTED],
                Problem("", f"and {more:,} more problems, which are not listed"),
            ]
        )

    def raise_if_any(self, subject: str) -> None:
        """One error for all: UnsupportedError when nothing but operations is missing, else the
        class that fits.
        """
        if self._reported:
            raise ValidationError.of_all(subject, self.all())
        if self.missing:
            raise UnsupportedError.of_all(subject, self.all())


class _Reported(Struct, frozen=True):
    """A problem, what it is a problem of, and the subjects whose own problems explain it."""

    problem: Problem
    subject: str
    explained_by: frozenset[str]


class Refused(Struct):
    """Layers and edges of a graph that were reported and left out: what other layers lack because
    of them is not reported as another mistake.
    """

    #: By id; None stands for any, where the id cannot be read.
    layers: dict[int | None, str] = field(default_factory=dict)
    #: Ids of layers that edges name and the file does not have, with the first such edge.
    absent: dict[int, str] = field(default_factory=dict)
    #: Places of edges by the layer and the input port that they go to, None for any.
    edges: dict[tuple[int | None, int | None], list[str]] = field(default_factory=dict)
    #: Layers to which such edges go.
    readers: set[int | None] = field(default_factory=set)

    def edge(self, to_layer: int | None, to_port: int | None, where: str) -> None:
        """Note an edge that is left out."""
        self.edges.setdefault((to_layer, to_port), []).append(where)
        self.readers.add(to_layer)

    def layer(self, number: int) -> list[str]:
        """What explains that there is no layer of this id, or another one."""
        return [self.layers[i] for i in (number, None) if i in self.layers]

    def edge_to(self, layer: int, port: int) -> list[str]:
        """What explains that an input port has no edge: an edge that was left out explains one."""
        for target in ((layer, port), (layer, None), (None, port), (None, None)):
            if self.edges.get(target):
                return [self.edges[target].pop()]
        return []


def inputs_of(label: str) -> str:
    """The subject of problems with what a layer is said to read."""
    return f"inputs of {label}"


def ports_of(label: str) -> str:
    """The subject of problems with the numbers of a layer's ports."""
    return f"ports of {label}"


def _missing_text(operation: str, layers: list[str], advise: bool) -> str:
    return (
        f"operation {shortened(operation)} is not supported "
        f"({_named(layers)}){advice(operation) if advise else ''}"
    )


def _named(layers: list[str]) -> str:
    named = ", ".join(f"'{shortened(name)}'" for name in layers[:5]) + (
        f" and {len(layers) - 5} more" if len(layers) > 5 else ""
    )
    return f"{'layer' if len(layers) == 1 else 'layers'} {named}"


def _is_custom(operation: str) -> bool:
    """Whether the name of its opset says that an operation comes from an extension of OpenVINO."""
    return _NUMBERED.fullmatch(operation.partition("@")[2]) is None


def _custom_text(operations: Mapping[str, list[str]], extension: str) -> str:
    """One message for all custom operations: whoever cannot load the extension has none of them."""
    types = ", ".join(map(shortened, list(operations)[:_MAX_LISTED]))
    layers = [layer for named in operations.values() for layer in named]
    one = len(operations) == 1
    return (
        f"{'operation' if one else 'operations'} {types} ({_named(layers)}) "
        f"{'is a custom operation' if one else 'are custom operations'} of "
        f"{extension or 'an extension'}, and "
        f"{extension or 'extensions of OpenVINO'} cannot be loaded: "
        "run this part of the model with OpenVINO, "
        "and give what it computes to a model that begins behind it"
    )


def advice(operation: str, whose: str = "did the file mean") -> str:
    """What to say behind an operation, `Name@opset`, that is not known: the opset that brought it,
    or a name that is near.
    """
    # a search takes time by the length
    type_name, _, opset = map(shortened, operation.partition("@"))
    versions = versions_of(type_name)
    if versions:
        known = opset_number(opset) is not None
        return (
            (f"; {type_name} is known from opset{min(versions)} on")
            if known
            else f"; there is no {opset}"
        )
    import difflib  # for mistakes only

    by_lower = {name.lower(): name for name in type_names()}
    near = difflib.get_close_matches(type_name.lower(), by_lower, 1, cutoff=0.7)
    return f"; {whose} {by_lower[near[0]]}?" if near else ""


def listed(ids: Iterable[int]) -> str:
    """Numbers as a message shows them, not more than twenty."""
    numbers = [i for i in ids if i >= 0]
    return (", ".join(map(str, numbers[:20])) or "none") + (
        f" and {len(numbers) - 20} more" if len(numbers) > 20 else ""
    )


def shown(text: str | None) -> str:
    """What a message quotes of the file: it may be anything, of any length."""
    return "nothing" if text is None else repr(text if len(text) <= 40 else text[:37] + "...")


_UNSIGNED = re.compile(r"\s*\d{1,40}\s*", re.ASCII)
_OPSET = re.compile(r"opset(\d{1,4})", re.ASCII)
_NUMBERED = re.compile(r"opset\d+", re.ASCII)


def unsigned(text: str | None) -> int | None:
    return int(text) if text is not None and _UNSIGNED.fullmatch(text) else None


def opset_number(opset: str) -> int | None:
    # Early converters wrote these two words for operations that opset6 then took over.
    if opset in ("experimental", "extension"):
        return 6
    match = _OPSET.fullmatch(opset)
    return int(match.group(1)) if match else None
