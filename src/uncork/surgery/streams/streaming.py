"""`streaming`: a model that takes whole sequences, made into one that takes frame after frame."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Union

import numpy as np
from msgspec.structs import replace

from uncork.errors import InputError
from uncork.ir.model import Model
from uncork.surgery._model import checked, input_names, port
from uncork.surgery.parts import layers_needed
from uncork.surgery.ports import reshape
from uncork.surgery.streams.flow import Flow
from uncork.surgery.streams.guard import guarded
from uncork.surgery.streams.initial import initial_inputs, zeros
from uncork.surgery.streams.metadata import (
    StreamedOutput,
    StreamInfo,
    stream_info,
    with_info,
)
from uncork.surgery.streams.proof import prove
from uncork.surgery.streams.row_lengths import length_inputs, with_all_frames
from uncork.surgery.streams.walk import Walk
from uncork.types import Array, Dimension, PartialShape

#: How many frames a call may have: a number, the least and the most, or any.
Frames = Union[int, Sequence[Union[int, None]], None]


def streaming(
    model: Model,
    input: str | Mapping[str, int] = "0",
    axis: int = 1,
    frames: Frames = None,
    inputs: Mapping[str, Any] | None = None,
    keep: int | None = None,
) -> Model:
    """The model with its state inside: called frame after frame, it gives what the whole sequence
    gives.

    `input` and `axis` say where time is; a mapping names several inputs and the axis of each.
    `frames` is how many frames a call has: a number (the fastest), (1, 16) for the least and the
    most, None for any. Inputs that are initial states alone go: they are those of `inputs`, or
    zeros, and the state is inside; so do lengths of rows, as all rows have all frames of a call.
    Causal attention keeps the `keep` frames before each, unless its mask is a band: later frames
    than these see fewer than in the whole sequence. Before it is returned, the stream is held
    against the whole sequence, with frames of random sizes: on `inputs`, arrays by name, or on
    random ones.

    Raises UnsupportedError that names each layer which does not stream, with the reason and what
    could be done; InputError where inputs, axes or frames are not right.
    """
    axes = _axes(model, {input: axis} if isinstance(input, str) else input)
    low, high = _bounds(frames)
    whole, axes, inputs = _opened(model, axes, inputs)
    initial = {
        position: _value(whole, position, inputs) for position in initial_inputs(whole, axes)
    }
    if keep is not None and (isinstance(keep, bool) or not isinstance(keep, int) or keep < 1):
        raise InputError(f"keep: expected a number of frames, 1 or more, got {keep!r}")
    walk = Walk(whole, axes, Dimension(low, high), initial, keep)
    walk.follow()
    flows = walk.results()
    _check_frames(low, high, walk.multiple)
    writer, outputs = walk.writer, []
    for position, flow in enumerate(flows):
        name = model.name_of_output(position)
        writer.builder.result(flow.source, name)
        outputs.append(_described(name, flow))
    names = {whole.name_of_input(position): a for position, a in axes.items()}
    begun = tuple(whole.name_of_input(position) for position in initial)
    info = StreamInfo(names, tuple(outputs), (low, high), walk.multiple, begun, limit=walk.limit)
    made = _pruned(writer.builder.model())
    made = checked(guarded(made, axes, walk.multiple))
    difference = prove(whole, made, info, writer.kept_frames, inputs)
    info = dataclasses.replace(info, difference=difference)
    return with_info(replace(made, source=model.source), info, model.extras)


def _value(model: Model, position: int, inputs: Mapping[str, Any] | None) -> Array:
    """The value of an initial state: that of `inputs`, or zeros."""
    names = model.names_of_input(position)
    given = next((inputs[name] for name in names if name in inputs), None) if inputs else None
    if given is None:
        return zeros(model, position)
    value = np.asarray(given, model.inputs[position].element_type.dtype)
    return value.reshape(model.inputs[position].shape.static)


def check_stream(
    stream: Model, model: Model, inputs: Mapping[str, Any] | None = None
) -> StreamInfo:
    """Hold a stream against the model of whole sequences that it was made of, once more: on
    `inputs`, arrays by name, or on random ones. Gives what the stream says of itself, with the
    difference that was found.

    Raises InputError where the stream gives anything else than the whole sequence.
    """
    info = stream_info(stream)
    axes = {port(input_names(model), name, "input"): a for name, a in info.inputs.items()}
    whole, _, inputs = _opened(model, axes, inputs)
    difference = prove(whole, stream, info, _kept(stream, info), inputs)
    return dataclasses.replace(info, difference=difference)


def _kept(stream: Model, info: StreamInfo) -> int:
    """No less than the frames that the variables of a stream keep: their largest sizes."""
    sizes = [
        max((d.static_size or 1 for d in node.outputs[0].spec.shape), default=1)
        for node in stream.nodes
        if node.type_name == "ReadValue"
    ]
    return min(sum(sizes) * info.multiple, 2048 * info.multiple)


def _axes(model: Model, given: Mapping[str, int]) -> dict[int, int]:
    """The axis of time of inputs, by position."""
    InputError.when(not given, "expected an input that has time in one of its axes")
    axes: dict[int, int] = {}
    for name, axis in given.items():
        position = port(input_names(model), name, "input")
        shape = model.inputs[position].shape
        if shape.rank is not None and not -shape.rank <= axis < shape.rank:
            raise InputError(
                f"input '{name}': expected an axis of its {shape.rank} ({shape}), got {axis}"
            )
        if shape.rank is None:
            raise InputError(f"input '{name}' has a shape of unknown rank: reshape it first")
        axes[position] = axis % shape.rank
    return axes


def _bounds(frames: Frames) -> tuple[int, int | None]:
    """The least and the most frames of a call."""
    low, high = (
        (1, None)
        if frames is None
        else (frames, frames)
        if isinstance(frames, int)
        else (frames[0], frames[1])
        if len(frames) == 2
        else (0, 0)
    )
    if low is None or low < 1 or (high is not None and high < low):
        raise InputError(
            f"expected frames as a number of at least 1, or the least and the most, got {frames}"
        )
    return low, high


def _check_frames(low: int, high: int | None, multiple: int) -> None:
    if high is not None and high // multiple == (low - 1) // multiple:
        said = str(low) if low == high else f"{low} to {high}"
        raise InputError(
            f"expected a multiple of {multiple} frames a call, as the layers thin the sequence out "
            f"by that, got {said}"
        )


def _opened(
    model: Model, axes: Mapping[int, int], inputs: Mapping[str, Any] | None
) -> tuple[Model, dict[int, int], Mapping[str, Any] | None]:
    """The model for sequences of any length, all of whose rows have all frames; the axes and inputs
    that it has.
    """
    gone = length_inputs(model, axes)
    names = {name for position in gone for name in model.names_of_input(position)}
    if inputs is not None:
        inputs = {name: value for name, value in inputs.items() if name not in names}
    model = _of_any_length(model, axes)
    left = [position for position in range(len(model.parameters)) if position not in gone]
    made = with_all_frames(model, axes)
    return made, {left.index(position): axis for position, axis in axes.items()}, inputs


def _of_any_length(model: Model, axes: Mapping[int, int]) -> Model:
    shapes: dict[str, PartialShape] = {}
    for position, axis in axes.items():
        shape = model.inputs[position].shape
        if shape[axis].is_static:
            opened = shape.with_dimension(axis, Dimension())
            shapes[str(model.names_of_input(position)[0])] = opened
    return reshape(model, shapes) if shapes else model


def _described(name: str, flow: Flow) -> StreamedOutput:
    if flow.kind == "time":
        return StreamedOutput(name, "time", flow.axis, flow.shift, flow.every)
    return StreamedOutput(name, flow.kind, -1, 0, 1)


def _pruned(model: Model) -> Model:
    """The model without layers that nothing needs."""
    left = layers_needed(model.nodes, [*model.results, *model.parameters])
    return replace(
        model,
        nodes=tuple(node for node in model.nodes if node.id in left),
        sinks=tuple(sink for sink in model.sinks if sink in left),
    )
