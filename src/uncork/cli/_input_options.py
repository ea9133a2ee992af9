"""Options that describe a model's inputs (`run`, `shrink`), and the arrays made from them."""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from uncork.cli import _inputs
from uncork.cli._options import add_words
from uncork.cli._output import counted
from uncork.cli._parser import Parser, mistyped_if, whole_number
from uncork.cli._pictures import add_pictures, is_picture, pictures_of
from uncork.cli._summary import Summary, summarise
from uncork.compiler.arguments import ModelPort
from uncork.errors import InputError
from uncork.ir.ports import find_input
from uncork.random_inputs import RandomBounds, random_array

#: Whole numbers from 0 on, as `--seed` takes them.
whole = whole_number(0, 40)


def add_inputs(parser: Parser) -> None:
    """Give a command `--input` and the options for random inputs."""
    add = parser.add_argument
    add(
        "-i",
        "--input",
        action="append",
        default=[],
        type=input_text,
        metavar="INPUT",
        help="an input, see below; may be repeated",
    )
    add(
        "--random",
        action="store_true",
        help="fill the inputs that are not given with random values",
    )
    add(
        "--shape",
        action="append",
        default=[],
        type=shape_text,
        metavar="NAME=N,N,...",
        help="the sizes of a random input with a dynamic shape",
    )
    add(
        "--random-range",
        action="append",
        default=[],
        type=random_range,
        metavar="NAME=LOW:HIGH",
        help="random values from LOW up to but not including HIGH; without it -1:1, "
        "for integers 0:10",
    )
    add("--seed", type=whole, metavar="N", help="other random values for each N (0)")
    add_pictures(parser)


def add_ids(parser: Parser) -> None:
    """Give a command `--ids`."""
    text = "64-bit (default): look up ids as given; as-written: as the model's conversions cut them"
    add_words(parser, "ids", text, "HOW")


def input_text(text: str) -> str:
    """`--input`: read later, when the model's inputs are known."""
    is_file = text.endswith((".npy", ".npz", ".wav")) or is_picture(text) or os.path.isdir(text)
    mistyped_if(
        "=" not in text and not is_file,
        f"expected NAME=FILE.npy, NAME=PICTURE.jpg, NAME=VALUE or FILE.npz, got '{text}'",
    )
    return text


def shape_text(text: str) -> tuple[str, tuple[int, ...]]:
    """`--shape`: a name and sizes."""
    name, _, sizes = text.rpartition("=")
    parts = sizes.split(",") if sizes else []
    mistyped_if(
        not name or any(not part.strip().isdecimal() or len(part) > 18 for part in parts),
        f"expected NAME= and sizes such as ids=2,50, got '{text}'",
    )
    return name, tuple(map(int, parts))


def random_range(text: str) -> tuple[str, tuple[float, float]]:
    """`--random-range`: a name and bounds."""
    name, _, bounds = text.rpartition("=")
    low, _, high = bounds.partition(":")
    try:
        limits = (_number(low), _number(high))
    except ValueError:
        limits = (0, 0)
    mistyped_if(
        not name or not (limits[0] < limits[1] and math.isfinite(limits[1] - limits[0])),
        f"expected NAME=LOW:HIGH with LOW below HIGH, such as ids=0:5000, got '{text}'",
    )
    return name, limits


def _number(text: str) -> float:
    # Whole numbers stay whole: 64-bit bounds do not fit a float.
    try:
        return int(text)
    except ValueError:
        return float(text)


def check_random(parser: Parser, arguments: argparse.Namespace) -> None:
    """Refuse options for random inputs where `--random` is not given."""
    if not arguments.random:
        for option in ("shape", "random_range", "seed"):
            if getattr(arguments, option) not in (None, []):
                parser.error(
                    f"--{option.replace('_', '-')} is for random inputs: give --random too"
                )


def collect(
    ports: Sequence[ModelPort],
    arguments: argparse.Namespace,
    lookups: RandomBounds | None,
    known: Mapping[int, Any] | None = None,
) -> tuple[dict[int, Any], list[Summary]]:
    """The value of every input by position, and summaries of the random ones.

    `known` are those that nobody has to give. With `lookups` random ids cover their tables, and
    random offsets and segment ids are in order.
    """
    values = {
        **(known or {}),
        **_inputs.given(ports, arguments.input, pictures_of(arguments)),
    }
    missing = [i for i in range(len(ports)) if i not in values]
    if not arguments.random:
        if missing:
            how = (
                "give each with -i NAME=FILE.npy, all with -i FILE.npz, "
                "or random values with --random"
            )
            raise InputError(
                f"{len(missing)} of {counted(len(ports), 'input')} missing: "
                f"{_inputs.describe(ports, missing)}; {how}"
            )
        return values, []
    given = {n: np.shape(v) for n, v in values.items()}
    said = _inputs.for_random(ports, "--shape", arguments.shape, missing)
    ranges = _inputs.for_random(ports, "--random-range", arguments.random_range, missing)
    shapes = _inputs.shapes_for_random(ports, missing, said)
    all_shapes = {**shapes, **given}
    filled: list[Summary] = []
    for i in missing:
        name, element_type = _inputs.label(ports, i), ports[i].element_type
        bounds = ranges.get(i)
        if lookups is not None:
            bounds = bounds or lookups.bounds(i, all_shapes)
        array = random_array(name, element_type, shapes[i], arguments.seed or 0, bounds)
        values[i] = array if lookups is None else lookups.ordered(i, array, all_shapes)
        filled.append(summarise(name, ports[i].names, element_type, values[i]))
    return values, filled


#: Elements of an input at the most, where sizes are chosen.
_MOST_CHOSEN = 1 << 24


def open_inputs(ports: Sequence[ModelPort], arguments: argparse.Namespace) -> list[int]:
    """The inputs whose sizes somebody has to choose: neither given nor described, and of a known
    number of axes.
    """
    said = {find_input(ports, name) for name, _ in arguments.shape}
    given = {*_inputs.given(ports, arguments.input, pictures_of(arguments)), *said}
    open_ones = [i for i, port in enumerate(ports) if i not in given and not port.shape.is_static]
    return open_ones if all(ports[i].shape.rank is not None for i in open_ones) else []


def chosen_shapes(
    ports: Sequence[ModelPort], positions: Sequence[int], size: int
) -> list[tuple[str, tuple[int, ...]]]:
    """Shapes as `--shape` gives them, in which every open size is this one, or the nearest that the
    input allows. Raises InputError where an input would be very large.
    """
    shapes = []
    for position in positions:
        sizes = tuple(
            max(dim.low, size if dim.high is None else min(size, dim.high))
            for dim in ports[position].shape
        )
        name = _inputs.label(ports, position)
        InputError.when(
            math.prod(sizes) > _MOST_CHOSEN, f"input '{name}' would be of {list(sizes)}"
        )
        shapes.append((name, sizes))
    return shapes
