"""`uncork convert`: an ONNX model written as an IR."""

from __future__ import annotations

import argparse

from uncork.cli._output import answer
from uncork.cli._parser import Parser
from uncork.cli._surgery import add_options, check_output
from uncork.compiler.compile import read_model
from uncork.ir.write import write_model
from uncork.quoting import in_terminal

_EPILOG = """\
Every command takes ONNX models as they are; an IR is read faster, and OpenVINO reads it too.

examples:
  uncork convert model.onnx -o model.xml
"""


def parser() -> Parser:
    parser = Parser(
        "uncork convert",
        "Write an ONNX model as an IR: model.xml and model.bin.",
        _EPILOG,
        "uncork convert [OPTION]... MODEL -o OUT",
    )
    parser.add_model()
    add_options(parser)
    return parser


def execute(arguments: argparse.Namespace) -> int:
    check_output(arguments)
    model = read_model(arguments.model, arguments.weights)
    write_model(model, arguments.output)
    facts = {
        "schema": "uncork-convert-1",
        "model": arguments.model,
        "saved": arguments.output,
        "layers": len(model.nodes),
    }
    text = f"saved {in_terminal(arguments.output)}: {len(model.nodes):,} layers\n"
    answer(arguments, facts, text)
    return 0
