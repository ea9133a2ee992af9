"""`uncork bench`: how long a call takes, where its time goes, and how that is beside OpenVINO."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from uncork.cli._contenders import AGAINST, against, contender
from uncork.cli._input_options import add_inputs, chosen_shapes, collect, open_inputs
from uncork.cli._latency import Contender, measure
from uncork.cli._options import add_threads, rounding
from uncork.cli._output import answer, table
from uncork.cli._parser import Parser, Suggesting, mistyped_if, number_in
from uncork.cli._stream_figures import (
    duration,
    stream_figures,
    stream_text,
    with_frames,
)
from uncork.cli._summary import Summary, summary_table
from uncork.compiler.arguments import carriers
from uncork.compiler.compile import fast_precision
from uncork.compiler.compiled_model import CompiledModel
from uncork.compiler.load import load
from uncork.compiler.profile import Profile, microseconds
from uncork.compiler.threads import available_threads
from uncork.errors import InputError, Problem
from uncork.progress import progress_line
from uncork.random_inputs import RandomBounds

_EPILOG = """\
Inputs that are not given by -i, as for 'uncork run', are filled with random values. Sizes that the
model leaves open are 1, and then 128, unless --shape says them.

examples:
  uncork bench model.xml --shape ids=2,50
  uncork bench model.xml -i inputs.npz --threads 1 --against openvino
  uncork bench model.xml --shape ids=2,50 --profile
  uncork bench streaming.xml --stream 10ms --threads 1
"""
#: Steps that --profile prints, and the sizes that are chosen.
_STEPS, _SIZES = 25, (1, 128)


@dataclass(frozen=True)
class _Round:
    """What was measured with inputs of some sizes: the one that was chosen for open sizes, or
    None, the inputs that were made up, and the figures of each contender.
    """

    size: int | None
    filled: Sequence[Summary]
    figures: Sequence[dict[str, Any]]
    profile: Profile | None


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
        type=Suggesting(against, "openvino"),
        metavar="WHAT",
        help=f"the same calls there, in turns: {AGAINST}",
    )
    add("--trust", action="store_true", help="run what a torch:FILE.pt2 says, pickles included")
    add(
        "--profile",
        action="store_true",
        help=f"where the time goes: the {_STEPS} slowest steps, and what bounds them",
    )
    parser.add_weights()
    parser.add_json()
    return parser


def _seconds(text: str) -> float:
    value = number_in(text)
    mistyped_if(not 0 < value <= 3600, f"expected seconds, above 0 and at most 3600, got '{text}'")
    return value


def execute(arguments: argparse.Namespace) -> int:
    arguments.random = True
    threads = arguments.threads or available_threads()
    compiled = load(
        arguments.model, weights=arguments.weights, threads=arguments.threads, **rounding(arguments)
    )
    if arguments.stream is not None:
        arguments.shape = with_frames(compiled.model, arguments.shape)
    rounds, declined = _rounds(arguments, compiled, threads)
    facts = _as_json(arguments, threads, rounds, declined)
    answer(arguments, facts, lambda: _text(arguments, threads, rounds, declined))
    return 0


def _rounds(
    arguments: argparse.Namespace, compiled: CompiledModel, threads: int
) -> tuple[list[_Round], dict[int, str]]:
    """What was measured: once with sizes that are known, or for each size that is chosen; and why
    a size could not be, by the size. Raises InputError where none could.
    """
    positions = [] if arguments.stream else open_inputs(compiled.inputs, arguments)
    if not positions:
        return [_round(arguments, compiled, threads, None)], {}
    said, rounds, declined = arguments.shape, [], {}
    for size in _SIZES:
        try:
            arguments.shape = [*said, *chosen_shapes(compiled.inputs, positions, size)]
            rounds.append(_round(arguments, compiled, threads, size))
        except InputError as error:
            declined[size] = str(error)
    if not rounds:
        arguments.shape = said
        try:
            collect(compiled.inputs, arguments, RandomBounds(compiled.model))
        except InputError as error:
            tried = [Problem(f"sizes of {size}", why) for size, why in declined.items()]
            raise InputError.of_all("", [*error.problems, *tried]) from None
    return rounds, declined


def _round(
    arguments: argparse.Namespace, compiled: CompiledModel, threads: int, size: int | None
) -> _Round:
    """Measure calls of one size. Raises InputError where the model takes no such call."""
    values, filled = collect(compiled.inputs, arguments, RandomBounds(compiled.model))
    inputs = [values[i] for i in range(len(compiled.inputs))]
    if size is not None:
        compiled(*inputs)  # sizes that were chosen may not fit each other
        compiled.reset_state()
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
    return _Round(size, filled, [contender.figures() for contender in contenders], profile)


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
    accepted = carriers(compiled.inputs, inputs)
    other = contender(arguments, compiled.model, accepted, threads)
    if goes_on:
        other.before = None
    return [ours, other]


def _text(
    arguments: argparse.Namespace,
    threads: int,
    rounds: Sequence[_Round],
    declined: Mapping[int, str],
) -> str:
    parts = [f"sizes of {size} cannot be called: {why}\n" for size, why in declined.items()]
    for one in rounds:
        text = ""
        if one.size is not None:
            text += f"sizes that the model leaves open: {one.size} (--shape gives others)\n"
        parts.append(text + _round_text(arguments, one))
    text = f"{threads} thread{'s' if threads > 1 else ''}, {arguments.precision}"
    if arguments.precision == "fast":
        text += f", which is {fast_precision()} here"
    elif arguments.precision == "f32" and (fast := fast_precision()) != "f32":
        text += f" ('fast' would multiply {fast})"
    if arguments.decompression != "as-written" or arguments.activations != "f32":
        text += f", weights {arguments.decompression}, their rows in {arguments.activations}"
    if arguments.kv_cache_precision != "as-written":
        text += f", keys and values in {arguments.kv_cache_precision}"
    text = "\n".join(parts) + text + "\n"
    for one in rounds:
        if one.profile is not None:
            text += "" if one.size is None else f"\nsizes of {one.size}"
            text += "\n" + table(one.profile.rows(_STEPS), right=(4, 5, 6, 7))
            more = len(one.profile.steps) - _STEPS
            text += f"and {more:,} shorter steps\n" if more > 0 else ""
            text += one.profile.summary() + "\n"
    return text


def _round_text(arguments: argparse.Namespace, one: _Round) -> str:
    text = summary_table("random input", one.filled) + "\n" if one.filled else ""
    names = ("min", "median", "p90", "p99")
    rows = [["", *names, "calls", "calls/s"]]
    for figures in one.figures:
        rows.append(
            [
                figures["name"],
                *(microseconds(figures[name]) for name in names),
                f"{figures['calls']:,}",
                f"{figures['calls_per_second']:,.1f}",
            ]
        )
    text += table(rows, right=range(1, 7))
    if len(one.figures) > 1:
        ratio = one.figures[1]["median"] / one.figures[0]["median"]
        text += f"uncork is {ratio:.2f} times as fast as {one.figures[1]['name']}, by the medians\n"
    if arguments.stream is not None:
        text += stream_text(one.figures, arguments.stream)
    return text


def _as_json(
    arguments: argparse.Namespace,
    threads: int,
    rounds: Sequence[_Round],
    declined: Mapping[int, str],
) -> dict[str, Any]:
    told = {
        "schema": "uncork-bench-1",
        "model": arguments.model,
        "threads": threads,
        **rounding(arguments),
        **_round_json(arguments, rounds[0]),
    }
    if rounds[0].size is not None:
        told["sizes"] = [{"size": one.size, **_round_json(arguments, one)} for one in rounds]
        told["declined"] = [{"size": size, "why": why} for size, why in declined.items()]
    return told


def _round_json(arguments: argparse.Namespace, one: _Round) -> dict[str, Any]:
    return {
        "random_inputs": list(one.filled),
        "latency": list(one.figures),
        "stream": None
        if arguments.stream is None
        else [stream_figures(figures, arguments.stream) for figures in one.figures],
        "profile": None if one.profile is None else _profile(one.profile),
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
