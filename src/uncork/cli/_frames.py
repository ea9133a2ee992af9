"""`uncork run --frame`: a whole recording through a stream, frame by frame."""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from uncork.cli._output import answer, counted, table
from uncork.cli._sound import is_sound, read_sound
from uncork.cli._summary import summarise
from uncork.compiler.arguments import unique_names
from uncork.compiler.compile import CompiledModel
from uncork.compiler.profile import microseconds
from uncork.errors import InputError
from uncork.ir.ports import find_input
from uncork.quoting import in_terminal
from uncork.surgery import StreamInfo, stream_info
from uncork.types import Array

#: Calls that are printed, and the values of each output of one.
_CALLS, _VALUES = 40, 4
_FRAME = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s)?")


def frame(text: str) -> tuple[float, str]:
    """`--frame`: a number of frames, or a time of sound."""
    match = _FRAME.fullmatch(text.strip())
    if match is None or float(match[1]) <= 0 or (match[2] is None and "." in match[1]):
        raise argparse.ArgumentTypeError(f"expected frames such as 16, or 10ms, got '{text}'")
    return float(match[1]), match[2] or ""


def play(
    arguments: argparse.Namespace, compiled: CompiledModel, values: Mapping[int, Any]
) -> dict[str, Array]:
    """Call the stream frame by frame and print what each call gives. The outputs, joined."""
    info = stream_info(compiled.model)
    axes = {_position(compiled, name): axis for name, axis in info.inputs.items()}
    arrays = {i: np.asarray(value) for i, value in values.items()}
    for position, axis in axes.items():
        arrays[position] = _fitted(compiled, position, axis, arrays[position])
    count = _frames_of_call(arguments, info)
    total = min(arrays[position].shape[axis] for position, axis in axes.items())
    InputError.when(
        total < count, f"expected at least {counted(count, 'frame')}, got {total}", "--frame"
    )
    names = unique_names(compiled.outputs)
    seconds: list[float] = []
    got: list[list[Array]] = []
    for start in range(0, total - count + 1, count):
        part = [
            np.ascontiguousarray(_cut(arrays[i], axes[i], start, start + count))
            if i in axes
            else arrays[i]
            for i in range(len(compiled.inputs))
        ]
        if not got:  # the first call plans: that is no time of a frame
            compiled(*part)
            compiled.reset_state()
        begun = time.perf_counter()
        results = compiled(*part)
        seconds.append(time.perf_counter() - begun)
        got.append([np.array(array) for array in results])
    joined = {
        name: _joined(info, position, [call[position] for call in got])
        for position, name in enumerate(names)
    }
    left = total - len(got) * count
    _report(arguments, compiled, info, count, left, seconds, got, joined)
    return joined


def _position(compiled: CompiledModel, name: str) -> int:
    found = find_input(compiled.inputs, name)
    if found is None:
        raise InputError(f"what the file says of its stream names no input: '{name}'")
    return found


def _fitted(compiled: CompiledModel, position: int, axis: int, array: Array) -> Array:
    """A recording without the axes of one that the input has, such as the batch, gets them."""
    port = compiled.inputs[position]
    shape = port.shape
    if shape.rank is None or array.ndim >= shape.rank:
        return array
    others = [d.static_size or 1 for i, d in enumerate(shape) if i != axis]
    if array.ndim == 1 and all(size == 1 for size in others):
        return array.reshape([-1 if i == axis else 1 for i in range(shape.rank)])
    raise InputError(
        f"input '{port.name}': expected {shape.rank} axes as in {shape}, got {array.ndim}"
    )


def _frames_of_call(arguments: argparse.Namespace, info: StreamInfo) -> int:
    """How many frames `--frame` means."""
    number, unit = arguments.frame
    if unit:
        rates = {read_sound(path)[1] for path in _sounds(arguments.input)}
        InputError.when(
            len(rates) != 1,
            "a time needs a .wav file, which says how many samples a second has; give a number "
            "of frames",
            "--frame",
        )
        number = number * rates.pop() / (1000 if unit == "ms" else 1)
    count = round(number)
    low, high = info.frames
    if count < low or (high is not None and count > high) or count % info.multiple:
        most = "any number" if high is None else str(high)
        several = "" if info.multiple == 1 else f", a multiple of {info.multiple}"
        raise InputError(
            f"the stream takes {low} to {most} frames a call{several}, got {count}", "--frame"
        )
    return int(count)


def _sounds(texts: Sequence[str]) -> list[str]:
    return [text.rpartition("=")[2] for text in texts if is_sound(text)]


def _cut(array: Array, axis: int, start: int, stop: int) -> Array:
    return array[(slice(None),) * axis + (slice(start, stop),)]


def _joined(info: StreamInfo, position: int, parts: Sequence[Array]) -> Array:
    """All frames of an output, without those that are nothing yet; of one that is no sequence, the
    last.
    """
    output = info.outputs[position]
    if output.kind != "time":
        return parts[-1]
    whole = np.concatenate(parts, output.axis)
    return _cut(whole, output.axis, max(0, -output.shift), whole.shape[output.axis])


def _report(
    arguments: argparse.Namespace,
    compiled: CompiledModel,
    info: StreamInfo,
    count: int,
    left: int,
    seconds: Sequence[float],
    got: Sequence[Sequence[Array]],
    joined: Mapping[str, Array],
) -> None:
    p50, p99 = np.percentile(seconds, [50, 99])
    outputs = [
        summarise(name, port.names, port.element_type, joined[name])
        for name, port in zip(joined, compiled.outputs, strict=True)
    ]
    facts = {
        "schema": "uncork-run-frames-1",
        "model": arguments.model,
        "frames": count,
        "calls": len(got),
        "frames_left": left,
        "delay": info.delay,
        "latency": {"median": float(p50), "p99": float(p99)},
        "outputs": outputs,
        "saved": arguments.output,
    }
    rows = [["frames", "time", *(in_terminal(name) for name in joined)]]
    for number, call in enumerate(got[:_CALLS]):
        span = f"{number * count}..{(number + 1) * count - 1}"
        rows.append([span, microseconds(seconds[number]), *map(_first, call)])
    text = table(rows, right=(0, 1))
    more = len(got) - _CALLS
    text += f"and {counted(more, 'call')} more\n" if more > 0 else ""
    text += (
        f"{counted(len(got), 'call')} of {counted(count, 'frame')}: median {microseconds(p50)}, "
        f"p99 {microseconds(p99)}\n"
    )
    if info.delay:
        text += f"outputs are {counted(info.delay, 'frame')} late; those of before are left out\n"
    text += f"{counted(left, 'frame')} at the end make no call\n" if left else ""
    if arguments.output:
        text += f"saved {counted(len(joined), 'output')} in {in_terminal(arguments.output)}\n"
    answer(arguments, facts, text)


def _first(array: Array) -> str:
    """The first values of a result."""
    flat = array.reshape(-1)[:_VALUES].tolist()
    shown = " ".join(f"{v:.4g}" if isinstance(v, float) else str(v) for v in flat)
    return shown + (" .." if array.size > _VALUES else "") if flat else "(nothing)"
