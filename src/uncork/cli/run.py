"""`uncork run`: runs a model on arrays, shows its results as people read them, and writes the
outputs to a file.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from uncork.cli._expect import Expected, compared, expected_table, tolerance
from uncork.cli._files import check_arrays_destination, write_arrays
from uncork.cli._folder import folder_of, run_folder
from uncork.cli._frames import frame, play
from uncork.cli._input_options import add_ids, add_inputs, check_random, collect, whole
from uncork.cli._latency import Contender
from uncork.cli._options import add_threads, add_words, positive, rounding
from uncork.cli._output import answer, counted
from uncork.cli._parser import Parser, mistyped_if
from uncork.cli._results import classes_of, labels_for, read_beside, results_text
from uncork.cli._summary import Summary, summarise, summary_table
from uncork.cli._tables import add_tables, files_read, given_tables
from uncork.compiler.arguments import unique_names
from uncork.compiler.compiled_model import CompiledModel
from uncork.compiler.load import load
from uncork.compiler.profile import microseconds
from uncork.errors import InputError
from uncork.quoting import in_terminal
from uncork.random_inputs import RandomBounds

_EPILOG = """\
An INPUT is one of
  NAME=FILE.npy       an array
  NAME=FILE.wav       its samples, in [-1, 1)
  NAME=FILE.jpg       a picture, brought to the input's size (.png, .webp, .bmp, .tif, .gif)
  NAME=FOLDER         every picture in it, one a call
  NAME=FILE.npz:KEY   one of the arrays of a file
  NAME=VALUE          the value itself in JSON: 'lengths=[3,2]', 'axis=0', 'words=["a","b"]'
  FILE.npz            arrays for all inputs that it has names of
  FILE                an array, a sound, a picture or a folder, when the model has one input
NAME is any name of the input, or its position (0 is the first).

examples:
  uncork run model.xml -i ids=ids.npy -i 'lengths=[3,2]' -o out.npz
  uncork run model.xml --input inputs.npz --json
  uncork run model.xml -i inputs.npz --expect outputs.npz --tolerance 1%
  uncork run streaming.xml -i audio=speech.wav --frame 10ms
  uncork run model.xml -i image=cat.jpg --mean 123.7,116.3,103.5 --scale 58.4 --labels names.txt
  uncork run model.xml --random --shape ids=2,50 --random-range ids=0:5000 --seed 1
"""


def parser() -> Parser:
    parser = Parser(
        "uncork run", "Run a model and print its results.", _EPILOG, "uncork run [OPTION]... MODEL"
    )
    parser.add_model()
    add_inputs(parser)
    parser.add_argument(
        "-o",
        "--output",
        type=_output,
        metavar="FILE",
        help="save the outputs: FILE.npz by name, or FILE.npy for a single one",
    )
    parser.add_overwrite("a FILE")
    add_words(parser, "backend", "cpu (default) or reference")
    parser.add_argument(
        "--strict",
        action="store_true",
        help="refuse odd data, such as unsorted segment ids or integers that a Convert changes",
    )
    add_ids(parser)
    add_threads(parser)
    parser.add_argument(
        "--summary",
        action="store_true",
        help="print a summary of every output: smallest, mean and largest value",
    )
    parser.add_argument(
        "--beside", metavar="FILE", help="a text to show beside the results: a line for each row"
    )
    parser.add_argument(
        "--labels",
        metavar="FILE",
        help="the names of the classes, a line for each: shows those with the largest values",
    )
    parser.add_argument(
        "--repeat", type=positive, metavar="N", help="call N times and print how long calls take"
    )
    parser.add_argument(
        "--frame",
        type=frame,
        metavar="N",
        help="play the inputs through a stream ('uncork stream'), N frames a call: 16, or 10ms of "
        "a .wav file",
    )
    parser.add_argument(
        "--expect",
        metavar="FILE.npz",
        help="outputs to compare with, by name: exit status 1 where one differs",
    )
    parser.add_argument(
        "--tolerance",
        type=tolerance,
        metavar="T",
        help="the largest difference from --expect: 0.001, or 1%% of the largest value (0.01%%)",
    )
    parser.add_argument(
        "--loop-limit",
        type=whole,
        metavar="N",
        help="refuse a Loop that makes more than N iterations",
    )
    parser.add_weights()
    add_tables(parser)
    parser.add_json()
    return parser


def _output(text: str) -> str:
    mistyped_if(
        not text.endswith((".npy", ".npz")),
        f"expected a file that ends in .npz or .npy, got '{text}'",
    )
    return text


#: Options that have no meaning where there are several calls.
_OF_ONE_CALL = ("beside", "expect", "repeat", "summary")


def execute(arguments: argparse.Namespace) -> int:
    _check_options(arguments)
    compiled = load(
        arguments.model,
        weights=arguments.weights,
        backend=arguments.backend,
        strict=arguments.strict,
        ids=arguments.ids,
        loop_limit=arguments.loop_limit,
        threads=arguments.threads,
        **rounding(arguments),
        tables=given_tables(arguments),
    )
    labels = labels_for(compiled, arguments.labels)
    names = unique_names(compiled.outputs)
    InputError.when(
        arguments.output and arguments.output.endswith(".npy") and len(names) != 1,
        f"a .npy file holds one output and the model has {len(names)}: {', '.join(names)}; "
        "save an .npz file",
        arguments.output,
    )
    if folder := folder_of(compiled, arguments):
        options = (*_OF_ONE_CALL, "frame")
        parser().refuse(arguments, options, "is for one call: leave it out with a folder")
        joined, all_read = run_folder(arguments, compiled, folder, labels)
        if joined:
            write_arrays(arguments.output, joined)
        return 0 if all_read else 1
    values, filled = collect(compiled.inputs, arguments, RandomBounds(compiled.model))
    if arguments.frame is not None:
        joined = play(arguments, compiled, values)
        if arguments.output:
            write_arrays(arguments.output, joined)
        return 0
    inputs = [values[i] for i in range(len(compiled.inputs))]
    return _one_call(arguments, compiled, labels, inputs, filled)


def _check_options(arguments: argparse.Namespace) -> None:
    """Refuse options that do not go together, before anything is read."""
    check_random(parser(), arguments)
    if arguments.tolerance is not None and arguments.expect is None:
        parser().error("--tolerance is for --expect: give the file too")
    if arguments.beside is not None and (arguments.summary or arguments.json):
        parser().error("--beside is for results: leave out --summary and --json")
    if arguments.frame is not None:
        why = "is for one call: leave it out with --frame"
        parser().refuse(arguments, _OF_ONE_CALL, why)
    if arguments.output:
        check_arrays_destination(arguments.output, arguments.overwrite, files_read(arguments))


def _one_call(
    arguments: argparse.Namespace,
    compiled: CompiledModel,
    labels: Sequence[str],
    inputs: Sequence[Any],
    filled: Sequence[Summary],
) -> int:
    """Make the call, and write and print what is asked of it; the exit status."""
    beside = None if arguments.beside is None else read_beside(arguments.beside)
    results = compiled(*inputs)
    named = dict(zip(unique_names(compiled.outputs), results, strict=True))
    expected = (
        None
        if arguments.expect is None
        else compared(arguments.expect, named, compiled, arguments.tolerance)
    )
    if arguments.output:
        write_arrays(arguments.output, named)
    outputs = [
        summarise(name, port.names, port.element_type, array)
        for port, (name, array) in zip(compiled.outputs, named.items(), strict=True)
    ]
    latency = None if arguments.repeat is None else _latency(compiled, inputs, arguments.repeat)
    shown = (
        ""
        if arguments.summary or arguments.json
        else results_text(compiled, list(results), labels, beside)
    )
    best = classes_of(list(named), results, labels) if arguments.labels else None
    _report(arguments, filled, outputs, shown, expected, latency, best)
    return 1 if expected is not None and any(one.differs for one in expected) else 0


def _latency(compiled: CompiledModel, inputs: Sequence[Any], calls: int) -> dict[str, Any]:
    """How long so many calls take, after the one whose results are shown.

    Variables go on as they do.
    """
    contender = Contender("uncork", lambda: compiled(*inputs))
    for _ in range(calls):
        contender.turn(0.0)
    return contender.figures()


def _report(
    arguments: argparse.Namespace,
    filled: Sequence[Summary],
    outputs: Sequence[Summary],
    shown: str,
    expected: Sequence[Expected] | None,
    latency: dict[str, Any] | None,
    best: dict[str, Any] | None,
) -> None:
    facts = {
        "schema": "uncork-run-1",
        "model": arguments.model,
        "random_inputs": filled,
        "outputs": outputs,
        "saved": arguments.output,
        "latency": latency,
        **({} if best is None else {"classes": best}),
        "expected": None if expected is None else [one.as_json() for one in expected],
    }
    text = summary_table("random input", filled) + "\n" if filled else ""
    text += shown or summary_table("output", outputs)
    if expected is not None:
        text += "\n" + expected_table(expected)
    if latency is not None:
        times = ", ".join(
            f"{name} {microseconds(latency[name])}" for name in ("min", "median", "p90", "p99")
        )
        text += f"\n{counted(latency['calls'], 'call')}: {times}\n"
    if arguments.output:
        text += f"\nsaved {counted(len(outputs), 'output')} in {in_terminal(arguments.output)}\n"
    answer(arguments, facts, text)
