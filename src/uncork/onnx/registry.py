"""The lowerings: functions that say what an ONNX operator is in operations of the IR.

A lowering is registered with the operator's domain and the first version it is for; a call takes
the newest one that is not newer than the operator's version.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import TypeVar, Union

from msgspec import Struct

from uncork.ir.model import Source


class Rows(Struct, frozen=True):
    """A sequence as long as the call tells: tensors of one shape, as the rows of another."""

    tensor: Source


class Added(Struct, frozen=True):
    """A sequence that a loop carries, in its body: what the turn has added to it."""

    tensors: tuple[Source, ...] = ()


#: What a name of an ONNX graph stands for: an output of a layer, a sequence of known length or one
#: that a loop fills, or nothing (an optional that is empty).
Value = Union[Source, "list[Value]", Rows, Added, None]
#: Takes the graph, the node, and the inputs that it names, None for one that is absent; gives one
#: value per output, or the only one.
Lowering = Callable[..., Union[Value, "tuple[Value, ...]"]]
Written = TypeVar("Written", bound=Lowering)

#: The default domain has two names.
ONNX = ""
ML = "ai.onnx.ml"
MICROSOFT = "com.microsoft"
#: Of nodes that `from_torch` has made.
OWN = "uncork"
#: Of (domain, operator): first version -> lowering.
LOWERINGS: dict[tuple[str, str], dict[int, Lowering]] = {}
_SUBJECTS = (
    "attention",
    "classical",
    "control_flow",
    "convolution",
    "creation",
    "elementwise",
    "indexing",
    "microsoft",
    "movement",
    "normalisation",
    "pooling",
    "products",
    "quantized",
    "quantized_layers",
    "recurrent",
    "reduction",
    "resize",
    "running",
    "sequences",
    "signal",
    "torch",
)


def lowering(*op_types: str, since: int = 1, domain: str = ONNX) -> Callable[[Written], Written]:
    """Register a function as the lowering of operators, from a version of theirs on."""

    def register(function: Written) -> Written:
        for op_type in op_types:
            versions = LOWERINGS.setdefault((domain, op_type), {})
            if since in versions:
                raise AssertionError(f"{op_type}-{since} has two lowerings")
            versions[since] = function
        return function

    return register


def lowering_of(domain: str, op_type: str, version: int) -> Lowering | None:
    """The lowering of an operator at a version; None when there is none."""
    load_all()
    versions = LOWERINGS.get((domain, op_type), {})
    usable = [since for since in versions if since <= version]
    return versions[max(usable)] if usable else None


def load_all() -> None:
    """Import every file of lowerings: that registers them."""
    for subject in _SUBJECTS:
        importlib.import_module(f"uncork.onnx.operators.{subject}")


def plain_domain(domain: str) -> str:
    """The domain as lowerings have it."""
    return ONNX if domain == "ai.onnx" else domain


def shown_domain(domain: str) -> str:
    """The domain as messages have it."""
    return domain or "ai.onnx"


def operators() -> Sequence[tuple[str, str, tuple[int, ...]]]:
    """Domain, operator and the versions at which lowerings begin, of all that there are."""
    load_all()
    return [(d, o, tuple(sorted(v))) for (d, o), v in sorted(LOWERINGS.items())]
