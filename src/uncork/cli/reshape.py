"""`uncork reshape`: other sizes of a model's inputs."""

from __future__ import annotations

import argparse

from uncork.cli._parser import Parser
from uncork.cli._surgery import add_options, change_file, pair
from uncork.errors import InputError
from uncork.surgery import reshape
from uncork.types import PartialShape

_EPILOG = """\
Everything behind is inferred anew, and a layer that does not fit is named. '?' is an open size,
1..8 one from 1 to 8.

examples:
  uncork reshape model.xml --shape x=1,3,224,224 -o fixed.xml
  uncork reshape model.xml --shape 'ids=?,50' --shape 'lengths=?' -o open.xml
"""


def parser() -> Parser:
    parser = Parser(
        "uncork reshape",
        "Give inputs of a model other sizes.",
        _EPILOG,
        "uncork reshape [OPTION]... MODEL --shape NAME=N,N,... -o OUT",
    )
    parser.add_model()
    parser.add_argument(
        "--shape",
        action="append",
        required=True,
        type=pair,
        metavar="NAME=N,N,...",
        help="the sizes of an input",
    )
    add_options(parser)
    return parser


def execute(arguments: argparse.Namespace) -> int:
    shapes = {name: _shape(name, text) for name, text in arguments.shape}
    return change_file(arguments, lambda model: reshape(model, shapes))


def _shape(name: str, text: str) -> PartialShape:
    try:
        return PartialShape.parse(text)
    except (ValueError, KeyError, OverflowError):
        raise InputError(
            f"input '{name}': expected sizes such as 1,3,224,224 or ?,50, got '{text}'"
        ) from None
