"""`uncork bench`: how long a call takes, where its time goes, and how that is beside OpenVINO."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from typing import Any

from uncork.cli._input_options import add_inputs, collect
from uncork.cli._latency import Contender, measure, openvino_contender
from uncork.cli._options import add_threads, rounding
from uncork.cli._output import emit, emit_json, table
from uncork.cli._parser import Parser, one_of
from uncork.cli._stream_figures import (
    duration,
    stream_figures,
    stream_text,
    with_frames,
)
from uncork.cli._summary import Summary, summary_table
from uncork.compiler.compile import CompiledModel, load
from uncork.compiler.profile import Profile, microseconds
from uncork.compiler.threads import available_threads
from uncork.progress import progress_line
from uncork.random_inputs import RandomBounds

_EPILOG = """\
Inputs that are not given by -i, as for 'uncork run', are filled with random values: give the sizes
of dynamic shapes.

examples:
  uncork bench model.xml --shape ids=2,50
  uncork bench model.xml -i inputs.npz --threads 1 --against openvino
  uncork bench model.xml --shape ids=2,50 --profile
  uncork bench streaming.xml --stream 10ms --threads 1
"""
#: Steps that --profile prints.
_STEPS = 25


def parser() -> Parser:
    parser = Parser(
        "uncork bench", "Measure how long a call takes.", _EPILOG, "uncork bench [OPTION]... MODEL"
    )
    parser.add_model()
    add_inputs(parser)
    add = parser.add_argument
    add(
        "--seconds",
        type=_seconds,
        default=2.0,
        metavar="S",
        help="how long to measure each side (2)",
    )
    add_threads(parser)
    add(
        "--stream",
        type=duration,
        metavar="TIME",
        help="a stream whose frames of one call last so long, 10ms: real-time factor, and how many "
        "sessions a core keeps up with",
    )
    add(
        "--against",
        type=one_of("openvino"),
        metavar="WHAT",
        help="openvino: the same calls there, in turns",
    )
    add(
        "--profile",
        action="store_true",
        help=f"where the time goes: the {_STEPS} slowest steps, and what bounds them",
    )
    parser.add_weights()
    parser.add_json()
    return parser


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value <= 3600:
        raise argparse.ArgumentTypeError(
            f"expected seconds, above 0 and at most 3600, got '{text}'"
        )
    return value


def execute(arguments: argparse.Namespace) -> int:
    arguments.random = True
    threads = arguments.threads or available_threads()
    compiled = load(
        arguments.model, weights=arguments.weights, threads=threads, **rounding(arguments)
    )
    if arguments.stream is not None:
        arguments.shape = with_frames(compiled.model, arguments.shape)
    values, filled = collect(compiled.inputs, arguments, RandomBounds(compiled.model))
    inputs = [values[i] for i in range(len(compiled.inputs))]
    contenders = _contenders(arguments, compiled, inputs, threads)
    with progress_line("turns") as say:
        measure(contenders, arguments.seconds, say)
    profile: Profile | None = None
    if arguments.profile:
        with progress_line("steps") as say:
            profile = (
                compiled.profile(*inputs, progress=say)
                if inputs
                else compiled.profile(progress=say)
            )
    figures = [contender.figures() for contender in contenders]
    if arguments.json:
        emit_json(_as_json(arguments, threads, figures, filled, profile))
    else:
        _report(arguments, threads, figures, filled, profile)
    return 0


def _contenders(
    arguments: argparse.Namespace, compiled: CompiledModel, inputs: Sequence[Any], threads: int
) -> list[Contender]:
    goes_on = arguments.stream is not None  # as streams do
    before = compiled.reset_state if compiled.model.sinks and not goes_on else None
    ours = Contender("uncork", lambda: compiled(*inputs), before)
    if arguments.against is None:
        return [ours]
    results = compiled(*inputs)  # what is wrong with the inputs is told before anything else
    del results
    other = openvino_contender(
        arguments.model, arguments.weights, inputs, threads, arguments.precision
    )
    if goes_on:
        other.before = None
    return [ours, other]


def _report(
    arguments: argparse.Namespace,
    threads: int,
    figures: Sequence[dict[str, Any]],
    filled: Sequence[Summary],
    profile: Profile | None,
) -> None:
    text = summary_table("random input", filled) + "\n" if filled else ""
    names = ("min", "median", "p90", "p99")
    rows = [["", *names, "calls", "calls/s"]]
    for one in figures:
        rows.append(
            [
                one["name"],
                *(microseconds(one[name]) for name in names),
                f"{one['calls']:,}",
                f"{one['calls_per_second']:,.1f}",
            ]
        )
    text += table(rows, right=range(1, 7))
    if len(figures) > 1:
        ratio = figures[1]["median"] / figures[0]["median"]
        text += f"uncork is {ratio:.2f} times as fast as {figures[1]['name']}, by the medians\n"
    if arguments.stream is not None:
        text += stream_text(figures, arguments.stream)
    text += f"{threads} thread{'s' if threads > 1 else ''}, {arguments.precision}"
    if arguments.decompression != "as-written" or arguments.activations != "f32":
        text += f", weights {arguments.decompression}, their rows in {arguments.activations}"
    text += "\n"
    if profile is not None:
        text += "\n" + table(profile.rows(_STEPS), right=(4, 5, 6, 7))
        more = len(profile.steps) - _STEPS
        text += f"and {more:,} shorter steps\n" if more > 0 else ""
        text += profile.summary() + "\n"
    emit(text)


def _as_json(
    arguments: argparse.Namespace,
    threads: int,
    figures: Sequence[dict[str, Any]],
    filled: Sequence[Summary],
    profile: Profile | None,
) -> dict[str, Any]:
    return {
        "schema": "uncork-bench-1",
        "model": arguments.model,
        "threads": threads,
        **rounding(arguments),
        "random_inputs": list(filled),
        "latency": list(figures),
        "stream": None
        if arguments.stream is None
        else [stream_figures(one, arguments.stream) for one in figures],
        "profile": None if profile is None else _profile(profile),
    }


def _profile(profile: Profile) -> dict[str, Any]:
    return {
        "call_seconds": profile.call_seconds,
        "limits": {
            "bytes_per_second": profile.limits.bandwidth,
            "operations_per_second": profile.limits.operations,
        },
        "steps": [
            {
                "layer": step.layer,
                "operation": step.operation,
                "kernel": step.kernel,
                "reason": step.reason,
                "outputs": step.outputs,
                "seconds": step.seconds,
                "bytes": step.bytes,
                "operations": step.operations,
            }
            for step in profile.steps
        ],
    }
