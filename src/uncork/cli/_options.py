"""Options of how a model runs, which commands share: threads and what numbers are rounded to."""

from __future__ import annotations

import argparse
from typing import Any

from uncork.cli._parser import Parser, one_of, whole_number
from uncork.compiler.options import Options, words_of

#: What is said of each of these.
_ROUNDING = {
    "precision": "f32 (default), bf16 of products, bf16x3 of recurrent layers, or fast: the "
    "fastest of all that round",
    "decompression": "as-written (default), or f32: drop roundings to f16 of stored weights",
    "activations": "f32 (default), or what rows for stored weights may be rounded to: i16, i8",
}


#: `--threads` and other counts.
positive = whole_number(1, 9)


def add_threads(parser: Parser) -> None:
    """Give a command `--threads`, `--precision`, `--decompression`, `--activations` and
    `--kv-cache-precision`.
    """
    parser.add_argument(
        "--threads",
        type=positive,
        metavar="N",
        help="the most threads a call may use (all processors)",
    )
    add_rounding(parser)
    add_words(
        parser,
        "kv_cache_precision",
        "what keys and values of a decoder are kept in: as the file asks (default), f32, f16, "
        "bf16, u8",
    )


def add_rounding(parser: Parser) -> None:
    """Give a command `--precision`, `--decompression` and `--activations`."""
    for name, text in _ROUNDING.items():
        add_words(parser, name, text)


def add_words(parser: Parser, name: str, text: str, metavar: str = "NAME") -> None:
    """Give a command an option of `uncork.load` that is one of some words, with its default."""
    parser.add_argument(
        f"--{name.replace('_', '-')}",
        type=one_of(*words_of(name)),
        default=Options.defaults()[name],
        metavar=metavar,
        help=text,
    )


def rounding(arguments: argparse.Namespace) -> dict[str, Any]:
    """The options of `load` that say what numbers are rounded to, of those that a command has, as
    they were given.
    """
    names = ("precision", "decompression", "activations", "kv_cache_precision")
    return {name: getattr(arguments, name) for name in names if hasattr(arguments, name)}
