"""Options of how a model runs, which commands share: threads and precision."""

from __future__ import annotations

import argparse

from uncork.cli._parser import Parser, one_of


def add_threads(parser: Parser) -> None:
    """Give a command `--threads` and `--precision`."""
    parser.add_argument(
        "--threads",
        type=positive,
        metavar="N",
        help="the most threads a call may use (all processors)",
    )
    parser.add_argument(
        "--precision",
        type=one_of("f32", "bf16", "bf16x3"),
        default="f32",
        metavar="NAME",
        help="f32 (default), or of recurrent layers' products bf16 or bf16x3",
    )


def positive(text: str) -> int:
    """A whole number of at least 1."""
    if not text.isdecimal() or len(text) > 9 or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1, got '{text}'")
    return int(text)
