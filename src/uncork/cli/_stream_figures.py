"""`uncork bench --stream`: how a stream keeps up with real time."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from typing import Any

from uncork.cli._output import counted
from uncork.compiler.profile import microseconds
from uncork.ir.model import Model
from uncork.quoting import in_terminal
from uncork.surgery import stream_info

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(us|ms|s)")
_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
Shape = tuple[str, tuple[int, ...]]


def duration(text: str) -> float:
    """`--stream`: seconds that the frames of a call last."""
    match = _DURATION.fullmatch(text.strip())
    if match is None or float(match[1]) <= 0:
        raise argparse.ArgumentTypeError(f"expected a time such as 10ms, got '{text}'")
    return float(match[1]) * _UNITS[match[2]]


def with_frames(model: Model, said: Sequence[Shape]) -> list[Shape]:
    """What `--shape` says, and for the other inputs of a stream the fewest frames of a call. Other
    open sizes are 1. Raises InputError for a model that is no stream.
    """
    info = stream_info(model)
    fewest = -(-info.frames[0] // info.multiple) * info.multiple
    shapes = list(said)
    named = {name for name, _ in said}
    for position, port in enumerate(model.inputs):
        names = {*model.names_of_input(position), str(position)}
        axis = info.inputs.get(port.name)
        if axis is None or names & named or port.shape.rank is None or port.shape.is_static:
            continue
        dims = [d.static_size if d.static_size is not None else max(1, d.low) for d in port.shape]
        dims[axis] = fewest
        shapes.append((port.name, tuple(dims)))
    return shapes


def stream_figures(figures: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """The real-time factor of a contender: the part of the time that its calls take."""
    factor = figures["mean"] / seconds
    return {
        "name": figures["name"],
        "real_time_factor": factor,
        "p50": figures["median"],
        "p99": figures["p99"],
        "sessions_per_core": int(1 / factor),
    }


def stream_text(figures: Sequence[Mapping[str, Any]], seconds: float) -> str:
    """The same in words."""
    lines = []
    for one in figures:
        told = stream_figures(one, seconds)
        lines.append(
            f"{in_terminal(told['name'])}: real-time factor {told['real_time_factor']:.2g}, p50 "
            f"{microseconds(told['p50'])}, p99 {microseconds(told['p99'])}, "
            f"{counted(told['sessions_per_core'], 'session')} a core\n"
        )
    return "".join(lines)
