"""`uncork cut`: the part of a model from some layers to others."""

from __future__ import annotations

import argparse

from uncork.cli._parser import Parser
from uncork.cli._surgery import add_options, change_file
from uncork.surgery import cut

_EPILOG = """\
What the first layers take of other layers, but for constants, becomes inputs; all that the last
ones give, outputs. `uncork show` lists the layers.

examples:
  uncork cut model.xml --to encoder/pooled -o encoder.xml
  uncork cut model.xml --from decoder/first --to decoder/last -o decoder.xml
"""


def parser() -> Parser:
    usage = "uncork cut [OPTION]... MODEL [--from LAYER]... [--to LAYER]... -o OUT"
    parser = Parser(
        "uncork cut",
        "The part of a model from some layers to others, both included.",
        _EPILOG,
        usage,
    )
    parser.add_model()
    parser.add_argument(
        "--from",
        dest="start",
        action="append",
        default=[],
        metavar="LAYER",
        help="a first layer; may be repeated",
    )
    parser.add_argument(
        "--to",
        dest="end",
        action="append",
        default=[],
        metavar="LAYER",
        help="a last layer; may be repeated",
    )
    add_options(parser)
    return parser


def execute(arguments: argparse.Namespace) -> int:
    if not arguments.start and not arguments.end:
        parser().error("expected --from or --to")
    return change_file(arguments, lambda model: cut(model, arguments.start, arguments.end))
