"""The inputs of `uncork run`: from files, from values on the command line, and random ones."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from uncork.cli._files import read_arrays
from uncork.cli._pictures import is_picture, read_picture
from uncork.compiler.arguments import ModelPort, did_you_mean
from uncork.errors import InputError, Problem
from uncork.ir.ports import find_input
from uncork.preprocessing.pictures import Pictures
from uncork.types import Array, ElementType, PartialShape

V = TypeVar("V")
Bounds = tuple[float, float]


def label(ports: Sequence[ModelPort], position: int) -> str:
    """How messages and tables call an input: by its name, or its position when it has none."""
    return ports[position].name or str(position)


def describe(ports: Sequence[ModelPort], positions: Sequence[int]) -> str:
    """Inputs with their types and shapes, for a message."""
    return (
        ", ".join(f"{label(ports, i)} {ports[i].element_type}{ports[i].shape}" for i in positions)
        or "none"
    )


def unknown_input(ports: Sequence[ModelPort], name: str) -> Problem:
    known = [n for port in ports for n in port.names]
    return Problem(
        "",
        f"no input is called '{name}'{did_you_mean(name, known)}; inputs: "
        f"{describe(ports, range(len(ports)))}",
    )


def given(
    ports: Sequence[ModelPort], texts: Sequence[str], pictures: Pictures | None = None
) -> dict[int, Any]:
    """What each `-i` gives, by the position of the input; `pictures` says what is made of those.

    Raises InputError that lists every wrong name.
    """
    values: dict[int, Any] = {}
    origins: dict[int, str] = {}
    problems: list[Problem] = []
    for text in texts:
        for name, value in _read(ports, text, pictures or Pictures()):
            position = find_input(ports, name)
            if position is None:
                problems.append(unknown_input(ports, name))
            elif position in values:
                both = f"by '-i {origins[position]}' and by '-i {text}'"
                problems.append(
                    Problem("", f"input '{label(ports, position)}' is given twice: {both}")
                )
            else:
                values[position], origins[position] = value, text
    InputError.when_any("", problems)
    return values


def _read(ports: Sequence[ModelPort], text: str, pictures: Pictures) -> list[tuple[str, Any]]:
    """Name and value of everything that one `-i` gives."""
    name = _name(ports, text)
    if name is not None:
        return [(name, _value(ports, name, text[len(name) + 1 :], pictures))]
    if is_picture(text) and len(ports) == 1:
        return [(label(ports, 0), read_picture(text, ports[0], pictures))]
    loaded = read_arrays(text)
    if isinstance(loaded, dict):
        return list(loaded.items())
    if len(ports) != 1:
        raise InputError(
            f"a file of one array has no name for it: write -i NAME={text}; inputs: "
            f"{describe(ports, range(len(ports)))}",
            text,
        )
    return [(label(ports, 0), loaded)]


def _name(ports: Sequence[ModelPort], text: str) -> str | None:
    """NAME of `NAME=VALUE`; None when the whole text is a file's path.

    Names and paths may have '=' in them.
    """
    candidates = [text[:i] for i, character in enumerate(text) if character == "="]
    known = [name for name in candidates if find_input(ports, name) is not None]
    if known:
        return known[-1]
    return None if not candidates or os.path.isfile(text) else candidates[0]


def _value(ports: Sequence[ModelPort], name: str, text: str, pictures: Pictures) -> Any:
    """The array for `NAME=text`: text that is JSON is the value itself, anything else the path of a
    file.
    """
    where = f"input '{name}'"
    InputError.when(not text, "expected a file or a value after '='", where)
    try:
        literal = json.loads(text)
    except (ValueError, RecursionError) as error:
        if text[0] in '["{':
            raise InputError(
                f"expected a value in JSON such as [[1,2],[3,4]], got {text}: {error}", where
            ) from None
        position = find_input(ports, name)
        if is_picture(text) and position is not None:
            return read_picture(text, ports[position], pictures)
        return _from_file(where, text)
    position = find_input(ports, name)
    return (
        literal if position is None else _from_literal(where, ports[position].element_type, literal)
    )


def _from_literal(where: str, element_type: ElementType, literal: Any) -> Any:
    if literal is None or isinstance(literal, dict):
        raise InputError(
            "expected a number, a text in quotes, true, false or a list of these", where
        )
    try:
        # As objects, or NumPy would quietly write a number in a list of strings as a string.
        array = (
            np.array(literal, object) if element_type is ElementType.string else np.asarray(literal)
        )
    except ValueError:
        raise InputError("expected lists of equal lengths", where) from None
    if array.size == 0:
        # NumPy takes an empty list for floats. Floats of a type that it lacks are given as integers
        # as well as any.
        return np.zeros(
            array.shape,
            element_type.dtype
            if element_type.is_native or element_type is ElementType.string
            else np.int8,
        )
    # A list keeps 0.1 what it is, a number to be rounded to the input's type; an array of float64
    # would be refused for f32.
    return array if element_type is ElementType.string else literal


def _from_file(where: str, text: str) -> Array:
    path, separator, key = text.rpartition(".npz:")
    if not separator or os.path.isfile(text):
        path, key = text, ""
    else:
        path += ".npz"
    loaded = read_arrays(path)
    if not isinstance(loaded, dict):
        return loaded
    if key:
        if key not in loaded:
            raise InputError(
                f"has no array '{key}'{did_you_mean(key, list(loaded))}; arrays: "
                f"{', '.join(loaded) or 'none'}",
                path,
            )
        return loaded[key]
    InputError.when(
        len(loaded) != 1,
        f"which of its {len(loaded)} arrays? Write {path}:KEY, KEY one of: "
        f"{', '.join(loaded) or 'none'}",
        where,
    )
    return next(iter(loaded.values()))


# ---- random inputs


def for_random(
    ports: Sequence[ModelPort], option: str, pairs: Sequence[tuple[str, V]], filled: Sequence[int]
) -> dict[int, V]:
    """What an option says of single inputs, by position.

    Such inputs must be filled with random values.
    """
    said: dict[int, V] = {}
    problems: list[Problem] = []
    for name, value in pairs:
        position = find_input(ports, name)
        if position is None:
            problems.append(unknown_input(ports, name))
        elif position not in filled:
            problems.append(
                Problem(
                    option,
                    f"input '{name}' is given by -i; {option} is for inputs that --random fills",
                )
            )
        elif position in said:
            problems.append(Problem(option, f"input '{name}' is given twice"))
        else:
            said[position] = value
    InputError.when_any("", problems)
    return said


def shapes_for_random(
    ports: Sequence[ModelPort], filled: Sequence[int], said: Mapping[int, tuple[int, ...]]
) -> dict[int, tuple[int, ...]]:
    """The shape of every input that is to be filled.

    Raises InputError with the options to give when sizes are missing.
    """
    shapes: dict[int, tuple[int, ...]] = {}
    problems: list[Problem] = []
    missing: list[int] = []
    for position in filled:
        shape = ports[position].shape
        if position in said:
            shapes[position] = said[position]
            if not shape.contains(said[position]):
                name = label(ports, position)
                problems.append(
                    Problem(
                        "--shape", f"input '{name}' has shape {shape}, got {list(said[position])}"
                    )
                )
        elif shape.is_static:
            shapes[position] = shape.static
        else:
            missing.append(position)
    if missing:
        options = "".join(
            f"\n  --shape '{label(ports, i)}={_pattern(ports[i].shape)}'" for i in missing
        )
        many = (
            "an input has a dynamic shape"
            if len(missing) == 1
            else f"{len(missing)} inputs have dynamic shapes"
        )
        problems.append(
            Problem("--random", f"{many}: give all sizes, a number for each N{options}")
        )
    InputError.when_any("", problems)
    return shapes


def _pattern(shape: PartialShape) -> str:
    return (
        "N,..."
        if shape.rank is None
        else ",".join("N" if str(dim) == "?" else str(dim) for dim in shape)
    )
