"""Which port of a model a program means, and how ports are listed."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any

from uncork.errors import did_you_mean
from uncork.openvino._errors import NoSuchPosition, wrong_input
from uncork.openvino._node import Node, Result
from uncork.openvino._ports import ConstOutput


def ports_text(inputs: Sequence[ConstOutput], outputs: Sequence[ConstOutput]) -> str:
    """Inputs and outputs, one a line."""
    ins, outs = (
        "\n".join(repr(port).replace("<Output", "<ConstOutput") for port in ports)
        for ports in (inputs, outputs)
    )
    return f"inputs[\n{ins}\n]\noutputs[\n{outs}\n]"


def position_of(ports: Sequence[ConstOutput], key: Any, what: str) -> int:
    """The position of a port by a position, a name or the port itself. Raises RuntimeError."""
    listed = ", ".join(map(repr, ports)) or "none"
    if key is None:
        if len(ports) != 1:
            raise wrong_input(
                f"the model has {len(ports)} {what}s, so say which, by a position or a name: "
                f"{listed}"
            )
        return 0
    if isinstance(key, str):
        for position, port in enumerate(ports):
            if key in port.names:
                return position
        near = did_you_mean(key, [name for port in ports for name in port.names])
        raise wrong_input(f"no {what} is called '{key}'{near}; {what}s: {listed}")
    if isinstance(key, Node):
        key = key.output(0)
    if isinstance(key, ConstOutput):
        for position, port in enumerate(ports):
            if port == key:
                return position
        for position, port in enumerate(ports):  # of the model that this one was compiled from
            if port.names and port.names == key.names:
                return position
        for position, port in enumerate(ports):
            node = port.node
            if isinstance(node, Result) and node.sources[0] == key:
                return position
        raise wrong_input(f"{key!r} is no {what} of this model; {what}s: {listed}")
    try:
        position = index(key)
    except TypeError:
        raise TypeError(
            f"expected a position, a name or a port, got {type(key).__name__}"
        ) from None
    if not 0 <= position < len(ports):
        raise NoSuchPosition(f"there is no {what} {position}; {what}s: {listed}")
    return position
