"""`uncork run`: a model on arrays, a summary of every output, and the outputs as a file."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from typing import Any

from uncork.cli import _inputs
from uncork.cli._files import check_destination, write_arrays
from uncork.cli._output import counted, emit, emit_json, printable
from uncork.cli._parser import Parser, one_of
from uncork.cli._summary import Summary, summarise, summary_table
from uncork.cli._tables import add_tables, given_tables
from uncork.compiler.arguments import ModelPort, unique_names
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
    parser.add_argument("-i", "--input", action="append", default=[], type=_input, metavar="INPUT", help="an input, see below; may be repeated")
    parser.add_argument("-o", "--output", type=_output, metavar="FILE", help="save the outputs: FILE.npz by name, or FILE.npy for a single one")
    parser.add_argument("--random", action="store_true", help="fill the inputs that are not given with random values")
    parser.add_argument(
        "--shape", action="append", default=[], type=_shape, metavar="NAME=N,N,...", help="the sizes of a random input with a dynamic shape"
    )
    parser.add_argument(
        "--random-range",
        action="append",
        default=[],
        type=_range,
        metavar="NAME=LOW:HIGH",
        help="random values from LOW up to but not including HIGH; without it -1:1, for integers 0:10",
    )
    parser.add_argument("--seed", type=_whole, metavar="N", help="other random values for each N (0)")
    parser.add_argument("--backend", type=one_of("cpu", "reference"), default="cpu", metavar="NAME", help="cpu (default) or reference")
    parser.add_argument("--strict", action="store_true", help="refuse odd data that is tolerated otherwise, such as unsorted segment ids")
    parser.add_argument("--loop-limit", type=_whole, metavar="N", help="refuse a Loop that makes more than N iterations")
    parser.add_weights()
    add_tables(parser)
    parser.add_json()
    return parser


def _input(text: str) -> str:
    if "=" not in text and not text.endswith((".npy", ".npz")):
        raise argparse.ArgumentTypeError(f"expected NAME=FILE.npy, NAME=VALUE or FILE.npz, got '{text}'")
    return text


def _output(text: str) -> str:
    if not text.endswith((".npy", ".npz")):
        raise argparse.ArgumentTypeError(f"expected a file that ends in .npz or .npy, got '{text}'")
    return text


def _shape(text: str) -> tuple[str, tuple[int, ...]]:
    name, _, sizes = text.rpartition("=")
    parts = sizes.split(",") if sizes else []
    if not name or any(not part.strip().isdecimal() or len(part) > 18 for part in parts):
        raise argparse.ArgumentTypeError(f"expected NAME= and sizes such as ids=2,50, got '{text}'")
    return name, tuple(map(int, parts))


def _range(text: str) -> tuple[str, tuple[float, float]]:
    name, _, bounds = text.rpartition("=")
    low, _, high = bounds.partition(":")
    try:
        limits = (_number(low), _number(high))
    except ValueError:
        limits = (0, 0)
    if not name or not (limits[0] < limits[1] and math.isfinite(limits[1] - limits[0])):
        raise argparse.ArgumentTypeError(f"expected NAME=LOW:HIGH with LOW below HIGH, such as ids=0:5000, got '{text}'")
    return name, limits


def _number(text: str) -> float:
    # Whole numbers stay whole: 64-bit bounds do not fit a float.
    try:
        return int(text)
    except ValueError:
        return float(text)


def _whole(text: str) -> int:
    if not text.isdecimal() or len(text) > 40:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 0, got '{text}'")
    return int(text)


def execute(arguments: argparse.Namespace) -> int:
    if not arguments.random:
        for option in ("shape", "random_range", "seed"):
            if getattr(arguments, option) not in (None, []):
                parser().error(f"--{option.replace('_', '-')} is for random inputs: give --random too")
    if arguments.output:
        check_destination(arguments.output)
    compiled = load(
        arguments.model,
        weights=arguments.weights,
        backend=arguments.backend,
        strict=arguments.strict,
        loop_limit=arguments.loop_limit,
        tables=given_tables(arguments),
    )
    names = unique_names(compiled.outputs)
    if arguments.output and arguments.output.endswith(".npy") and len(names) != 1:
        raise InputError(
            f"a .npy file holds one output and the model has {len(names)}: {', '.join(names)}; save an .npz file", arguments.output
        )
    values, filled = _collect(compiled.inputs, arguments)
    results = compiled(*(values[i] for i in range(len(compiled.inputs))))
    if arguments.output:
        write_arrays(arguments.output, dict(zip(names, results)))
    outputs = [summarise(n, p.names, p.element_type, a) for n, p, a in zip(names, compiled.outputs, results)]
    _report(arguments, filled, outputs)
    return 0


def _collect(ports: Sequence[ModelPort], arguments: argparse.Namespace) -> tuple[dict[int, Any], list[Summary]]:
    """The value of every input by position, and summaries of the random ones."""
    values = _inputs.given(ports, arguments.input)
    missing = [i for i in range(len(ports)) if i not in values]
    if not arguments.random:
        if missing:
            how = "give each with -i NAME=FILE.npy, all with -i FILE.npz, or random values with --random"
            raise InputError(f"{len(missing)} of {counted(len(ports), 'input')} missing: {_inputs.describe(ports, missing)}; {how}")
        return values, []
    said = _inputs.for_random(ports, "--shape", arguments.shape, missing)
    ranges = _inputs.for_random(ports, "--random-range", arguments.random_range, missing)
    shapes = _inputs.shapes_for_random(ports, missing, said)
    filled: list[Summary] = []
    for i in missing:
        name = _inputs.label(ports, i)
        values[i] = _inputs.random_array(name, ports[i].element_type, shapes[i], arguments.seed or 0, ranges.get(i))
        filled.append(summarise(name, ports[i].names, ports[i].element_type, values[i]))
    return values, filled


def _report(arguments: argparse.Namespace, filled: Sequence[Summary], outputs: Sequence[Summary]) -> None:
    if arguments.json:
        emit_json({"schema": "uncork-run-1", "model": arguments.model, "random_inputs": filled, "outputs": outputs, "saved": arguments.output})
        return
    text = summary_table("random input", filled) + "\n" if filled else ""
    text += summary_table("output", outputs)
    if arguments.output:
        text += f"\nsaved {counted(len(outputs), 'output')} in {printable(arguments.output)}\n"
    emit(text)
