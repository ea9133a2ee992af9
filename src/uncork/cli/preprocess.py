"""`uncork preprocess`: a model that takes pictures as they are read."""

from __future__ import annotations

import argparse

from uncork.cli._parser import Parser
from uncork.cli._pictures import add_pictures, pictures_of
from uncork.cli._surgery import add_options, change_file
from uncork.errors import InputError
from uncork.ir.model import Model
from uncork.surgery import preprocess

_EPILOG = """\
The new input takes pixels of 0 to 255 as u8, of any height and width, its axes in the order
N, H, W, C; what 'uncork run' makes of pictures by the same options are layers of the model.

examples:
  uncork preprocess model.xml --mean 123.7,116.3,103.5 --scale 58.4,57.1,57.4 -o pictures.xml
  uncork preprocess model.xml --input image --layout NCHW --bgr --fit crop -o pictures.xml
"""


def parser() -> Parser:
    parser = Parser(
        "uncork preprocess",
        "Have a model take pictures as they are read.",
        _EPILOG,
        "uncork preprocess [OPTION]... MODEL -o OUT",
    )
    parser.add_model()
    parser.add_argument(
        "--input",
        metavar="NAME",
        help="the input that takes pictures, where the model has several: a name or a position",
    )
    add_pictures(parser)
    add_options(parser)
    return parser


def execute(arguments: argparse.Namespace) -> int:
    return change_file(arguments, lambda model: _changed(model, arguments))


def _changed(model: Model, arguments: argparse.Namespace) -> Model:
    if arguments.input is None and len(model.inputs) != 1:
        names = ", ".join(model.name_of_input(i) for i in range(len(model.inputs)))
        raise InputError(
            f"the model has {len(model.inputs)} inputs: name one with --input; it has {names}",
            arguments.model,
        )
    return preprocess(model, {arguments.input or "0": pictures_of(arguments)})
