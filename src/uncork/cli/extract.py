"""`uncork extract`: the part of a model that computes some tensors from others."""

from __future__ import annotations

import argparse

from uncork.cli._parser import Parser
from uncork.cli._surgery import add_options, change_file
from uncork.surgery import extract

_EPILOG = """\
A TENSOR is the name of a tensor, or of a layer that gives one.

examples:
  uncork extract model.xml --tensor scores -o scores.xml
  uncork extract model.xml --input hidden --tensor logits -o head.xml
"""


def parser() -> Parser:
    usage = "uncork extract [OPTION]... MODEL [--input TENSOR]... [--tensor TENSOR]... -o OUT"
    parser = Parser(
        "uncork extract",
        "The part of a model that computes some tensors from others.",
        _EPILOG,
        usage,
    )
    parser.add_model()
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="TENSOR",
        help="what becomes an input; may be repeated",
    )
    parser.add_argument(
        "--tensor",
        dest="tensors",
        action="append",
        default=[],
        metavar="TENSOR",
        help="what becomes an output; may be repeated",
    )
    add_options(parser)
    return parser


def execute(arguments: argparse.Namespace) -> int:
    if not arguments.input and not arguments.tensors:
        parser().error("expected --input or --tensor")
    return change_file(arguments, lambda model: extract(model, arguments.input, arguments.tensors))
