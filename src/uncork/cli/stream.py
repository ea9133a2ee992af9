"""`uncork stream`: a model of whole sequences, made into one that takes frame after frame."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from typing import Any

from uncork.cli import _inputs
from uncork.cli._input_options import input_text
from uncork.cli._output import answer, counted, table
from uncork.cli._parser import Parser
from uncork.cli._surgery import check_output
from uncork.compiler.compile import read_model
from uncork.errors import InputError
from uncork.ir.model import Model
from uncork.ir.write import write_model
from uncork.quoting import in_terminal
from uncork.surgery import StreamInfo, check_stream, stream_info, streaming, with_state

_EPILOG = """\
The layers' states become variables inside the model, which standard IR has: OpenVINO runs it, too.
Before it is written, it is held against the whole sequence, with frames of random sizes.
'uncork run --frame' plays a file through it; docs/streams.md says what streams.

examples:
  uncork stream model.xml --input audio --axis 1 -o streaming.xml
  uncork stream model.xml --input audio --axis 1 --frames 1..16 -o streaming.xml
  uncork stream model.xml --input emb --axis 1 --input e3 --axis 2 -o streaming.xml
  uncork stream model.xml -o streaming.xml --check --sample audio=speech.npy
  uncork stream model.xml --state h=hn --state c=cn -o stateful.xml
"""
_FRAMES = re.compile(r"(\d{1,9})(?:\.\.(\d{1,9}|\?)?)?")


def parser() -> Parser:
    parser = Parser(
        "uncork stream",
        "Make a model of whole sequences take frame after frame, its state inside.",
        _EPILOG,
        "uncork stream [OPTION]... MODEL --input NAME --axis N -o OUT",
    )
    parser.add_model()
    add = parser.add_argument
    add(
        "--input",
        action="append",
        default=[],
        metavar="NAME",
        help="the input that has time in it; may be repeated, each with its --axis",
    )
    add(
        "--axis",
        action="append",
        default=[],
        type=int,
        metavar="N",
        help="the axis of time (1); one for all inputs, or one for each",
    )
    add(
        "--frames",
        type=frames,
        metavar="N",
        help="frames of a call: 1, 1..16 or 1..? (any); one number runs fastest (1..?)",
    )
    add(
        "--keep",
        type=int,
        metavar="N",
        help="frames that causal attention keeps, where its mask does not tell how far it looks",
    )
    add(
        "--state",
        action="append",
        default=[],
        metavar="IN=OUT",
        help="an input that reads what an output gave in the call before: both go, and the state "
        "is inside; may be repeated. For models that take frame after frame already",
    )
    add("-o", "--output", required=True, metavar="OUT", help="the .xml file to write")
    add(
        "--sample",
        action="append",
        default=[],
        type=input_text,
        metavar="INPUT",
        help="an input to prove it on, as 'uncork run' takes them; without one, random ones",
    )
    add(
        "--check",
        action="store_true",
        help="write nothing: prove the stream OUT, which is there, against MODEL once more",
    )
    parser.add_overwrite("an OUT")
    parser.add_weights()
    parser.add_json()
    return parser


def frames(text: str) -> tuple[int, int | None]:
    """`--frames`: a number, or the least and the most."""
    match = _FRAMES.fullmatch(text.strip())
    if match is None or int(match[1]) < 1:
        raise argparse.ArgumentTypeError(f"expected frames such as 1, 1..16 or 1..?, got '{text}'")
    low = int(match[1])
    if ".." not in text:
        return low, low
    high = None if match[2] in (None, "?") else int(match[2])
    if high is not None and high < low:
        raise argparse.ArgumentTypeError(f"expected the least number of frames first, got '{text}'")
    return low, high


def execute(arguments: argparse.Namespace) -> int:
    InputError.when(
        not arguments.output.endswith(".xml"), "expected a name that ends in .xml", arguments.output
    )
    if arguments.check:
        return _check(arguments)
    if arguments.state:
        return _with_state(arguments)
    axes = _axes(arguments)
    check_output(arguments)
    model = read_model(arguments.model, arguments.weights)
    made = streaming(
        model, axes, frames=arguments.frames, inputs=_sample(model, arguments), keep=arguments.keep
    )
    write_model(made, arguments.output)
    _report(arguments, made, stream_info(made))
    return 0


def _check(arguments: argparse.Namespace) -> int:
    options = ("input", "axis", "frames", "keep", "state")
    parser().refuse(arguments, options, "is what OUT says of itself: leave it out with --check")
    model = read_model(arguments.model, arguments.weights)
    made = read_model(arguments.output)
    _report(arguments, made, check_stream(made, model, _sample(model, arguments)))
    return 0


def _with_state(arguments: argparse.Namespace) -> int:
    """Make variables of the states of a model that takes frame after frame already."""
    options = ("input", "axis", "frames", "keep")
    parser().refuse(arguments, options, "makes a stream of a whole sequence: leave out --state")
    states: dict[str, str] = {}
    for text in arguments.state:
        given, equals, result = text.partition("=")
        if not given or not equals or not result or given in states:
            parser().error(f"expected --state IN=OUT, once for each input, got '{text}'")
        states[given] = result
    check_output(arguments)
    model = read_model(arguments.model, arguments.weights)
    made = with_state(model, states, _sample(model, arguments))
    write_model(made, arguments.output)
    facts = {
        "schema": "uncork-stream-state-1",
        "model": arguments.model,
        "saved": arguments.output,
        "states": states,
    }
    rows = [["state", "from output"]]
    rows += [[in_terminal(given), in_terminal(result)] for given, result in states.items()]
    saved = f"saved {in_terminal(arguments.output)}\n"
    answer(arguments, facts, table(rows) + f"{counted(len(states), 'variable')}\n" + saved)
    return 0


def _axes(arguments: argparse.Namespace) -> dict[str, int]:
    """The axis of time of each input."""
    names, axes = arguments.input, arguments.axis or [1]
    if not names:
        parser().error("expected --input NAME: the input that has time in it")
    if len(axes) not in (1, len(names)):
        parser().error(
            f"expected one --axis, or one for each of {counted(len(names), 'input')}, "
            f"got {len(axes)}"
        )
    if len(set(names)) < len(names):
        parser().error("an --input is given twice")
    return dict(zip(names, axes * len(names) if len(axes) == 1 else axes, strict=False))


def _sample(model: Model, arguments: argparse.Namespace) -> Mapping[str, Any] | None:
    """The arrays of `--sample` by name; None without one."""
    if not arguments.sample:
        return None
    values = _inputs.given(model.inputs, arguments.sample)
    return {model.names_of_input(position)[0]: value for position, value in values.items()}


def _report(arguments: argparse.Namespace, model: Model, info: StreamInfo) -> None:
    facts = {
        "schema": "uncork-stream-1",
        "model": arguments.model,
        "saved": None if arguments.check else arguments.output,
        "inputs": info.inputs,
        "frames": list(info.frames),
        "multiple": info.multiple,
        "delay": info.delay,
        "outputs": [
            {
                "name": output.name,
                "kind": output.kind,
                "axis": output.axis,
                "shift": output.shift,
                "every": output.every,
                "delay": output.delay,
            }
            for output in info.outputs
        ],
        "variables": len(model.sinks),
        "difference": info.difference,
        "limit": info.limit,
    }
    rows = [["", "name", "axis", "frames"]]
    for name, axis in info.inputs.items():
        rows.append(["input", in_terminal(name), str(axis), frames_text(info)])
    for output in info.outputs:
        axis_text = str(output.axis) if output.kind == "time" else ""
        rows.append(["output", in_terminal(output.name), axis_text, output_text(output)])
    text = table(rows, right=(2,))
    text += f"{counted(len(model.sinks), 'variable')}, a delay of {counted(info.delay, 'frame')}\n"
    against = f"{info.difference:.1e} of the largest value" if info.difference else "none"
    text += f"proved against the whole sequence: largest difference {against}\n"
    if info.limit is not None:
        text += (
            f"attention keeps so many frames: the first {counted(info.limit, 'frame')} are those "
            "of the whole sequence, later ones see no further back\n"
        )
    if not arguments.check:
        text += f"saved {in_terminal(arguments.output)}\n"
    answer(arguments, facts, text)


def frames_text(info: StreamInfo) -> str:
    """How many frames a call may have, in words."""
    low, high = info.frames
    said = str(low) if low == high else f"{low}..{'?' if high is None else high}"
    return said if info.multiple == 1 else f"{said}, a multiple of {info.multiple}"


def output_text(output: Any) -> str:
    """How an output streams, in words."""
    if output.kind != "time":
        return "as of the last frame" if output.kind == "latest" else "the same in every call"
    parts = [f"one for {output.every} of the input"] if output.every > 1 else []
    if output.delay:
        parts.append(f"{counted(output.delay, 'frame')} late")
    elif output.shift > 0:
        parts.append(f"without the first {output.shift} of the whole sequence, which are padding")
    return ", ".join(parts) or "at once"
