"""`uncork rename`: other names of a model's inputs and outputs."""

from __future__ import annotations

import argparse

from uncork.cli._parser import Parser
from uncork.cli._surgery import add_options, change_file, pair
from uncork.surgery import rename

_EPILOG = """\
OLD is a name of the input or output, or its position.

examples:
  uncork rename model.xml --input x=image --output-name 0=scores -o named.xml
"""


def parser() -> Parser:
    usage = "uncork rename [OPTION]... MODEL [--input OLD=NEW]... [--output-name OLD=NEW]... -o OUT"
    parser = Parser(
        "uncork rename", "Give inputs and outputs of a model other names.", _EPILOG, usage
    )
    parser.add_model()
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        type=pair,
        metavar="OLD=NEW",
        help="of an input; may be repeated",
    )
    parser.add_argument(
        "--output-name",
        dest="renamed",
        action="append",
        default=[],
        type=pair,
        metavar="OLD=NEW",
        help="of an output",
    )
    add_options(parser)
    return parser


def execute(arguments: argparse.Namespace) -> int:
    if not arguments.input and not arguments.renamed:
        parser().error("expected --input or --output-name")
    return change_file(
        arguments, lambda model: rename(model, dict(arguments.input), dict(arguments.renamed))
    )
