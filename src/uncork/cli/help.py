"""`uncork help`: the text of `uncork --help`, or that of a command."""

from __future__ import annotations

import argparse
import importlib

from uncork.cli._parser import Parser, Suggesting

_EPILOG = """\
examples:
  uncork help
  uncork help run
"""


def parser() -> Parser:
    from uncork.cli import COMMANDS, known_command

    parser = Parser(
        "uncork help", "Say what a command does.", _EPILOG, "uncork help [OPTION]... [COMMAND]"
    )
    parser.add_argument(
        "command",
        metavar="COMMAND",
        nargs="?",
        type=Suggesting(known_command, *COMMANDS),
        help="one of the commands",
    )
    return parser


def execute(arguments: argparse.Namespace) -> int:
    if arguments.command is None:
        from uncork.cli import main_parser

        main_parser().print_help()
    else:
        importlib.import_module(
            f"uncork.cli.{arguments.command.replace('-', '_')}"
        ).parser().print_help()
    return 0
