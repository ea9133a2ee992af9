"""`ModelPort`: an input or output of a model, and how callers name one.

A port is named by a name, by its position, or by itself.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from operator import index
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct

from uncork.errors import InputError
from uncork.errors import did_you_mean as did_you_mean
from uncork.types import ElementType, PartialShape

#: Names that converters number: they tell a reader nothing.
_NUMBERED = re.compile(r"\d+|Result_\d+|Parameter_\d+|.*/sink_port_\d+", re.ASCII)


def best_name(names: Sequence[str]) -> str:
    """The first name that is more than a converter's number ("464", "Result_12").

    Where there is none it is the first of all; "" without names.
    """
    return next(
        (name for name in names if not _NUMBERED.fullmatch(name)), names[0] if names else ""
    )


class ModelPort(Struct, frozen=True):
    """An input or output of a model.

    It is a key for results and inputs, as its names and its position are.
    """

    names: tuple[str, ...]
    element_type: ElementType
    shape: PartialShape
    position: int = 0

    @property
    def name(self) -> str:
        """The name that tells most: the first that is not merely a converter's number."""
        return best_name(self.names)

    @property
    def any_name(self) -> str:
        """The same as `name`; OpenVINO's word for it."""
        return self.name

    @property
    def partial_shape(self) -> PartialShape:
        """The same as `shape`; OpenVINO's word for it."""
        return self.shape

    @property
    def rank(self) -> int | None:
        """The number of dimensions; None where it is unknown."""
        return self.shape.rank

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's type of the arrays that a call gives here: float32 for the floats that NumPy
        lacks.
        """
        if self.element_type is ElementType.string:
            return np.dtype(str)
        native = self.element_type.is_native or not self.element_type.is_float
        return self.element_type.dtype if native else np.dtype(np.float32)

    if not TYPE_CHECKING:  # a name that is not there is a mistake that mypy finds

        def __getattr__(self, name: str) -> Any:
            from uncork.ir.elsewhere import PORT, missing

            raise missing(self, "a port", name, PORT)

    def __str__(self) -> str:
        return f"{self.name} {self.element_type}{self.shape}"


def listed(ports: Sequence[ModelPort]) -> str:
    """Ports with their types and shapes, for a message."""
    shown = ", ".join(map(str, ports[:8]))
    return shown + (f" and {len(ports) - 8} more" if len(ports) > 8 else "") or "none"


#: What `port_rows` gives.
PORT_HEADING = ("", "name", "type", "shape", "also called")


def port_rows(inputs: Sequence[ModelPort], outputs: Sequence[ModelPort]) -> list[list[str]]:
    """Inputs and outputs as rows of a table."""
    return [
        [
            what,
            port.name,
            str(port.element_type),
            str(port.shape),
            ", ".join(dict.fromkeys(name for name in port.names if name != port.name)),
        ]
        for what, ports in (("input", inputs), ("output", outputs))
        for port in ports
    ]


def find_port(ports: Sequence[ModelPort], key: Any) -> int | None:
    """The position of a port by a name, a position or the port itself.

    None where there is no such port.
    """
    if isinstance(key, str):
        return next((i for i, port in enumerate(ports) if key in port.names), None)
    if isinstance(key, ModelPort):
        here = key.position < len(ports) and (
            ports[key.position] is key or ports[key.position] == key
        )
        return key.position if here else None
    if isinstance(key, (bool, np.ndarray)):
        return None
    try:
        position = index(key)
    except TypeError:
        return None
    return position if 0 <= position < len(ports) else None


def find_input(ports: Sequence[ModelPort], name: str) -> int | None:
    """The position of the input that a text means: its name, or a number that is nobody's name."""
    named = find_port(ports, name)
    if named is None and name.isascii() and name.isdigit() and len(name) < 10:
        return find_port(ports, int(name))
    return named


def no_such_port(ports: Sequence[ModelPort], key: Any, what: str) -> str:
    """The message for a key that finds nothing; `what` is "input" or "output"."""
    every = f"{what}s: {listed(ports)}"
    if isinstance(key, str):
        near = did_you_mean(key, [name for port in ports for name in port.names])
        return f"no {what} is called '{key}'{near}; {every}"
    if isinstance(key, ModelPort):
        return f"'{key}' is no {what} of this model; {every}"
    try:
        return f"there is no {what} {index(key)}; {every}"
    except TypeError:
        return f"expected a name, a position or a port, got {type(key).__name__}; {every}"


def port_of(ports: Sequence[ModelPort], key: Any, what: str) -> ModelPort:
    """The port for a key; without a key (None) the only one. Raises InputError."""
    if key is None:
        InputError.when(
            len(ports) != 1,
            f"the model has {len(ports)} {what}s, so say which: {listed(ports)}",
        )
        return ports[0]
    found = find_port(ports, key)
    if found is None:
        raise InputError(no_such_port(ports, key, what))
    return ports[found]
