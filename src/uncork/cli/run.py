"""`uncork run`: a model on arrays, a summary of every output, and the outputs as a file."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from uncork.cli._files import check_arrays_destination, write_arrays
from uncork.cli._input_options import check_random, collect, input_text, random_range, shape_text, whole
from uncork.cli._output import counted, emit, emit_json, printable
from uncork.cli._parser import Parser, one_of
from uncork.cli._summary import Summary, summarise, summary_table
from uncork.cli._tables import add_tables, files_read, given_tables
from uncork.compiler.arguments import unique_names
from uncork.compiler.compile import load
from uncork.errors import InputError

_EPILOG = """\
An INPUT is one of
  NAME=FILE.npy       an array
  NAME=FILE.npz:KEY   one of the arrays of a file
  NAME=VALUE          the value itself in JSON: 'lengths=[3,2]', 'axis=0', 'words=["a","b"]'
  FILE.npz            arrays for all inputs that it has names of
  FILE.npy            an array, when the model has one input
NAME is any name of the input, or its position (0 is the first).

examples:
  uncork run model.xml -i ids=ids.npy -i 'lengths=[3,2]' -o out.npz
  uncork run model.xml --input inputs.npz --json
  uncork run model.xml --random --shape ids=2,50 --random-range ids=0:5000 --seed 1
"""


def parser() -> Parser:
    parser = Parser("uncork run", "Run a model and print a summary of every output.", _EPILOG, "uncork run [OPTION]... MODEL")
    parser.add_model()
    parser.add_argument(
        "-i", "--input", action="append", default=[], type=input_text, metavar="INPUT", help="an input, see below; may be repeated"
    )
    parser.add_argument("-o", "--output", type=_output, metavar="FILE", help="save the outputs: FILE.npz by name, or FILE.npy for a single one")
    parser.add_overwrite("a FILE")
    parser.add_argument("--random", action="store_true", help="fill the inputs that are not given with random values")
    parser.add_argument(
        "--shape", action="append", default=[], type=shape_text, metavar="NAME=N,N,...", help="the sizes of a random input with a dynamic shape"
    )
    parser.add_argument(
        "--random-range",
        action="append",
        default=[],
        type=random_range,
        metavar="NAME=LOW:HIGH",
        help="random values from LOW up to but not including HIGH; without it -1:1, for integers 0:10",
    )
    parser.add_argument("--seed", type=whole, metavar="N", help="other random values for each N (0)")
    parser.add_argument("--backend", type=one_of("cpu", "reference"), default="cpu", metavar="NAME", help="cpu (default) or reference")
    parser.add_argument(
        "--strict",
        action="store_true",
        help="refuse odd data, such as unsorted segment ids or integers that a Convert changes",
    )
    parser.add_argument(
        "--ids",
        type=one_of("64-bit", "as-written"),
        default="64-bit",
        metavar="HOW",
        help="64-bit (default): look up ids as given; as-written: as the model's conversions cut them",
    )
    parser.add_argument("--loop-limit", type=whole, metavar="N", help="refuse a Loop that makes more than N iterations")
    parser.add_weights()
    add_tables(parser)
    parser.add_json()
    return parser


def _output(text: str) -> str:
    if not text.endswith((".npy", ".npz")):
        raise argparse.ArgumentTypeError(f"expected a file that ends in .npz or .npy, got '{text}'")
    return text


def execute(arguments: argparse.Namespace) -> int:
    check_random(parser(), arguments)
    if arguments.output:
        check_arrays_destination(arguments.output, arguments.overwrite, files_read(arguments))
    compiled = load(
        arguments.model,
        weights=arguments.weights,
        backend=arguments.backend,
        strict=arguments.strict,
        ids=arguments.ids,
        loop_limit=arguments.loop_limit,
        tables=given_tables(arguments),
    )
    names = unique_names(compiled.outputs)
    if arguments.output and arguments.output.endswith(".npy") and len(names) != 1:
        raise InputError(
            f"a .npy file holds one output and the model has {len(names)}: {', '.join(names)}; save an .npz file", arguments.output
        )
    values, filled = collect(compiled.inputs, arguments)
    results = compiled(*(values[i] for i in range(len(compiled.inputs))))
    if arguments.output:
        write_arrays(arguments.output, dict(zip(names, results)))
    outputs = [summarise(n, p.names, p.element_type, a) for n, p, a in zip(names, compiled.outputs, results)]
    _report(arguments, filled, outputs)
    return 0


def _report(arguments: argparse.Namespace, filled: Sequence[Summary], outputs: Sequence[Summary]) -> None:
    if arguments.json:
        emit_json({"schema": "uncork-run-1", "model": arguments.model, "random_inputs": filled, "outputs": outputs, "saved": arguments.output})
        return
    text = summary_table("random input", filled) + "\n" if filled else ""
    text += summary_table("output", outputs)
    if arguments.output:
        text += f"\nsaved {counted(len(outputs), 'output')} in {printable(arguments.output)}\n"
    emit(text)
