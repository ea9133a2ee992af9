"""`uncork import-weights`: constants of a model replaced by arrays of a file."""

from __future__ import annotations

import argparse

from uncork.cli._files import read_named_arrays
from uncork.cli._parser import Parser
from uncork.cli._surgery import add_options, change_file
from uncork.export.safetensors import read_tensors
from uncork.surgery import with_constants
from uncork.types import Array

_EPILOG = """\
ARRAYS is a .safetensors or .npz file. Its names are those of layers, or the keys that the model's
torch module has for them: weights that were trained after `uncork export --to torch` go back with
this command.

examples:
  uncork import-weights model.xml folder/weights.safetensors -o trained.xml
  uncork import-weights model.xml table.npz -o new.xml
"""


def parser() -> Parser:
    parser = Parser(
        "uncork import-weights",
        "Replace constants of a model.",
        _EPILOG,
        "uncork import-weights [OPTION]... MODEL ARRAYS -o OUT",
    )
    parser.add_model()
    parser.add_argument("arrays", metavar="ARRAYS", help="a .safetensors or .npz file")
    add_options(parser)
    return parser


def execute(arguments: argparse.Namespace) -> int:
    return change_file(arguments, lambda model: with_constants(model, _arrays(arguments.arrays)))


def _arrays(path: str) -> dict[str, Array]:
    if path.endswith(".safetensors"):
        return read_tensors(path)[0]
    return read_named_arrays(path, "a .safetensors or .npz file")
