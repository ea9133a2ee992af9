"""How operations stream: a rule for each type, found by its name.

A rule takes the walk, the layer and its inputs in the stream, and gives the outputs. The files of
rules are imported when one is first asked for.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from uncork.ir.model import Node
from uncork.ops import Operation
from uncork.surgery.streams.flow import Flow

if TYPE_CHECKING:
    from uncork.surgery.streams.walk import Walk

Apply = Callable[["Walk", Node, Sequence[Flow]], "list[Flow]"]
#: The files of rules.
_FILES = ("at_once", "attention", "lengths", "moves", "sequences", "shifts", "sums", "windows")
#: What the page of operations says of those without a rule.
NO_RULE = "no: mixes frames in a way that no rule describes"


class Rule(Struct, frozen=True):
    """How operations of some types stream: in a few words, and what makes the layers."""

    how: str
    apply: Apply


_declared: dict[str, Rule] = {}


def streams(*types: str, how: str) -> Callable[[Apply], Apply]:
    """Decorator: this function is the rule of these types."""

    def add(apply: Apply) -> Apply:
        for type_name in types:
            if type_name in _declared:
                raise AssertionError(f"{type_name} has two rules")
            _declared[type_name] = Rule(how, apply)
        return apply

    return add


def stream_at_once(types: Iterable[str], how: str = "at once") -> None:
    """The rule of types whose frames come of those of their inputs, one by one."""
    streams(*types, how=how)(_at_once)


def _at_once(walk: Walk, node: Node, given: Sequence[Flow]) -> list[Flow]:
    return walk.at_once(node, given)


def rule_of(operation: type[Operation]) -> Rule | None:
    """The rule of an operation; None where it does not stream along time."""
    _load()
    if operation.elementwise:
        return Rule("at once", _at_once)
    return _declared.get(operation.type_name)


_loaded: list[str] = []


def _load() -> None:
    if not _loaded:
        for name in _FILES:
            importlib.import_module(f"uncork.surgery.streams.{name}")
        _loaded.extend(_FILES)


def how_it_streams(operation: type[Operation]) -> str:
    """How an operation streams, for the page of operations."""
    rule = rule_of(operation)
    return NO_RULE if rule is None else rule.how
