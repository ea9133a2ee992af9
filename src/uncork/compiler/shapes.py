"""The shapes of inputs, given like the inputs of a call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import index
from typing import Any

from uncork.errors import InputError
from uncork.ir.ports import ModelPort, find_port, listed, no_such_port
from uncork.types import PartialShape


def shapes_of(
    ports: Sequence[ModelPort],
    positional: Sequence[Any],
    named: Mapping[Any, Any],
) -> dict[int, Sequence[int | None]]:
    """The shapes that are given, by the numbers of inputs.

    Raises InputError for ones that inputs cannot have.
    """
    InputError.when(
        not isinstance(named, Mapping),
        f"expected shapes by the names of inputs, such as {{'ids': [1, 20]}}, got {named!r}",
    )
    only = positional[0] if len(positional) == 1 else None
    if isinstance(only, Mapping):
        positional, named = [], {**only, **named}
    elif isinstance(only, (list, tuple)) and len(ports) > 1 and _are_shapes(only):
        positional = only
    if len(positional) > len(ports):
        expected = f"{len(ports)} inputs ({listed(ports)})"
        raise InputError(f"expected the shapes of {expected}, got {len(positional)}")
    result: dict[int, Sequence[int | None]] = {}
    for key, shape in [*enumerate(positional), *named.items()]:
        number = find_port(ports, key)
        if number is None:
            raise InputError(no_such_port(ports, key, "input"))
        InputError.when(
            number in result, f"the shape of input '{ports[number].name}' is given twice"
        )
        result[number] = _checked(ports[number], shape)
    return result


def _are_shapes(given: Sequence[Any]) -> bool:
    return bool(given) and all(isinstance(shape, (list, tuple)) for shape in given)


def _checked(port: ModelPort, shape: Any) -> Sequence[int | None]:
    where = f"input '{port.name}'"
    try:
        sizes = [None if size is None else index(size) for size in shape]
    except TypeError:
        sizes = [-1]
    InputError.when(
        any(size is not None and size < 0 for size in sizes),
        f"expected a shape, a list of sizes and None, got {shape!r}",
        where,
    )
    InputError.when(
        not port.shape.compatible(PartialShape(sizes)),
        f"expected shape {port.shape}, got {sizes}",
        where,
    )
    return sizes
