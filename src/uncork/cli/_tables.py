"""`--table NAME=FILE`: constants whose values come from files."""

from __future__ import annotations

import argparse

from uncork.cli._parser import Parser, mistyped_if
from uncork.destination import Read, path_of_table, reads_of_model
from uncork.errors import InputError


def add_tables(parser: Parser) -> None:
    """Give a command the option `--table`."""
    parser.add_argument(
        "--table",
        action="append",
        default=[],
        type=_table,
        metavar="NAME=FILE",
        help="take a constant's values from FILE.npy or FILE.safetensors:KEY; "
        "NAME is the constant or the layer that looks its rows up",
    )


def given_tables(arguments: argparse.Namespace) -> dict[str, str]:
    """What the option said: files by name. Raises InputError for a name given twice."""
    tables: dict[str, str] = {}
    for name, path in arguments.table:
        if name in tables:
            raise InputError(f"is given twice: '{tables[name]}' and '{path}'", f"table '{name}'")
        tables[name] = path
    return tables


def files_read(arguments: argparse.Namespace) -> list[Read]:
    """The files that `uncork run` and `shrink` read: they must never be written over."""
    result = reads_of_model(arguments.model, arguments.weights)
    result += [(f"table '{n}'", path_of_table(p)) for n, p in given_tables(arguments).items()]
    for text in arguments.input:  # NAME=FILE, NAME=FILE:KEY or FILE; both may have '=' in them
        ends = [text, *(text[i + 1 :] for i, character in enumerate(text) if character == "=")]
        result += [
            ("an input", path) for end in (text, *ends) for path in (end, path_of_table(end))
        ]
    return result


def _table(text: str) -> tuple[str, str]:
    name, _, path = text.rpartition("=")
    mistyped_if(
        not name or not (path.endswith((".npy", ".safetensors")) or ".safetensors:" in path),
        f"expected NAME=FILE.npy or NAME=FILE.safetensors:KEY, got '{text}'",
    )
    return name, path
