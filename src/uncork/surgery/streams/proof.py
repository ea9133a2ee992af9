"""The proof of a stream: frames of random sizes against the whole sequence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from uncork.compiler.compile import compile_model
from uncork.concurrency import lazy
from uncork.errors import InputError, UncorkError
from uncork.ir.model import Model, all_nodes
from uncork.ops.parameter import Const
from uncork.random_inputs import RandomBounds, random_array
from uncork.storage import decode
from uncork.surgery._model import input_names, port
from uncork.surgery.constants import with_values
from uncork.surgery.streams.initial import zeros
from uncork.surgery.streams.metadata import StreamedOutput, StreamInfo
from uncork.types import Array, ElementType

#: The largest difference of floats, of the largest value of the output: f32 rounds to 6e-8, and
#: recurrent layers add up what they round. Deep models may differ by more: see `_Rounding`.
TOLERANCE = {ElementType.f64: 1e-5, ElementType.f32: 1e-5}
#: How many times as far as one step of inputs and weights moves a result, a stream may be from the
#: whole sequence: it rounds in other places at every layer.
_STEPS = 8.0
#: That of shorter floats, and the most of any.
_OF_SHORT = 2e-2
#: Frames beyond those that are streamed: the end of the sequence, with its padding, does not count.
_BEYOND = 32
#: How many frames there are at the least, and at the most where inputs are random.
_LEAST, _MOST = 48, 1 << 17
#: Calls of one play at the most.
_CALLS = 400


def prove(
    whole: Model,
    stream: Model,
    info: StreamInfo,
    kept: int,
    inputs: Mapping[str, Any] | None,
) -> float:
    """The largest difference of a stream from the whole sequence, of the largest value of its
    output.

    The frames of a call are as few as may be at first, then of random numbers. `kept` is how many
    frames the stream remembers, all together. Raises InputError where the stream gives anything
    else.
    """
    reference = compile_model(whole)
    played = compile_model(stream)
    length = _length(info, kept)
    while True:
        arrays = _given(whole, info, inputs, length)
        try:
            total = _frames_of(whole, info, arrays)
            expected = _results(reference, whole, arrays)
            break
        except InputError:
            if inputs is not None or length <= _LEAST:
                raise
            length = max(_LEAST, length // 2)  # tables of positions and masks have an end
    streamed = _streamed(info, total, inputs is None)
    rounding = _Rounding(whole, arrays, expected)
    worst = 0.0
    for sizes in (_smallest(info, streamed), _random(info, streamed)):
        InputError.when(
            not sizes,
            f"{total} frames are too few for a stream that takes {info.multiple} at a time",
        )
        played.reset_state()
        got = []
        for part in _parts(sizes):
            given = _without_initial(whole, info, _cut(arrays, info, whole, part))
            got.append(_results(played, stream, given))
        ended = (
            _results(reference, whole, _cut(arrays, info, whole, slice(sum(sizes))))
            if any(output.kind == "latest" for output in info.outputs)
            else expected
        )
        for position, output in enumerate(info.outputs):
            about = ended if output.kind == "latest" else expected
            one = _compared(output, about[position], [g[position] for g in got])
            worst = max(worst, _judged(rounding, position, output, one, sizes))
    return worst


def _length(info: StreamInfo, kept: int) -> int:
    """How many frames are streamed: enough for every kept frame to be used."""
    enough = max(_LEAST, 2 * (kept + info.delay), 4 * info.frames[0], 8 * info.multiple)
    return min(enough, _MOST)


def _given(
    model: Model, info: StreamInfo, inputs: Mapping[str, Any] | None, length: int
) -> dict[int, Array]:
    """The arrays of the inputs, by position: those that are given, random ones for the others."""
    if inputs is None:
        return _random_inputs(model, info, length + max(_BEYOND, 2 * info.delay))
    found: dict[int, Array] = {}
    for name, value in inputs.items():
        found[port(input_names(model), name, "input")] = np.asarray(value)
    for position, own in enumerate(model.inputs):
        if own.name in info.initial:
            found.setdefault(position, zeros(model, position))
    missing = [p.name for i, p in enumerate(model.inputs) if i not in found]
    InputError.when(
        missing, f"expected an array for each input to prove it by, got none for {missing}"
    )
    return found


def _random_inputs(model: Model, info: StreamInfo, length: int) -> dict[int, Array]:
    shapes: dict[int, tuple[int, ...]] = {}
    for position, own in enumerate(model.inputs):
        if own.shape.rank is None:
            raise InputError(
                f"input '{own.name}' has a shape of unknown rank: give an array for it"
            )
        dims = [d.static_size if d.static_size is not None else max(1, d.low) for d in own.shape]
        if own.name in info.inputs:
            dims[info.inputs[own.name]] = length
        shapes[position] = tuple(dims)
    bounds = RandomBounds(model)
    return {
        position: zeros(model, position)
        if own.name in info.initial
        else bounds.ordered(
            position,
            random_array(
                own.name, own.element_type, shapes[position], 0, bounds.bounds(position, shapes)
            ),
            shapes,
        )
        for position, own in enumerate(model.inputs)
    }


def _frames_of(model: Model, info: StreamInfo, arrays: Mapping[int, Array]) -> int:
    """How many frames the inputs have."""
    lengths: dict[str, int] = {}
    for name, axis in info.inputs.items():
        array = arrays[port(input_names(model), name, "input")]
        InputError.when(
            not -array.ndim <= axis < array.ndim,
            f"input '{name}': expected time in axis {axis}, got {array.shape}",
        )
        lengths[name] = array.shape[axis]
    InputError.when(
        len(set(lengths.values())) > 1, f"expected inputs of one number of frames, got {lengths}"
    )
    return next(iter(lengths.values()))


def _streamed(info: StreamInfo, total: int, random: bool) -> int:
    """How many of the frames are streamed. What lies beyond them makes the end of the sequence,
    where layers pad and a stream goes on, come after all that is compared.
    """
    beyond = max(_BEYOND, 2 * info.delay) if random else min(_BEYOND, total // 3)
    most = total - beyond if info.limit is None else min(total - beyond, info.limit)
    return most // info.multiple * info.multiple


def _sizes(info: StreamInfo, total: int) -> range:
    """The numbers of frames that a call may have."""
    low, high = info.frames
    first = -(-low // info.multiple) * info.multiple
    most = min(total, max(first, 16 * info.multiple) if high is None else high)
    return range(first, most + 1, info.multiple)


def _smallest(info: StreamInfo, total: int) -> list[int]:
    sizes = _sizes(info, total)
    return [sizes[0]] * min(total // sizes[0], _CALLS) if sizes else []


def _random(info: StreamInfo, total: int) -> list[int]:
    sizes, generator = _sizes(info, total), np.random.default_rng(total)
    found: list[int] = []
    while sizes and len(found) < _CALLS:
        left = total - sum(found)
        fitting = [size for size in (sizes[0], sizes[-1], *sizes) if size <= left]
        if not fitting:
            break
        found.append(int(generator.choice(fitting)))
    return found


def _parts(sizes: Sequence[int]) -> Iterator[slice]:
    start = 0
    for size in sizes:
        yield slice(start, start + size)
        start += size


def _cut(
    arrays: Mapping[int, Array], info: StreamInfo, whole: Model, part: slice
) -> dict[int, Array]:
    """The frames of one call."""
    axes = {port(input_names(whole), name, "input"): axis for name, axis in info.inputs.items()}
    return {
        position: np.ascontiguousarray(array[(slice(None),) * axes[position] + (part,)])
        if position in axes
        else array
        for position, array in arrays.items()
    }


def _without_initial(
    model: Model, info: StreamInfo, arrays: Mapping[int, Array]
) -> dict[int, Array]:
    """The inputs of the stream, which has initial states inside."""
    return {i: a for i, a in arrays.items() if model.inputs[i].name not in info.initial}


def _results(compiled: Any, model: Model, arrays: Mapping[int, Array]) -> list[Array]:
    results = compiled([arrays[i] for i in sorted(arrays)])
    specs = [port.element_type for port in model.outputs]
    return [
        np.array(decode(np.asarray(results[i]), kind)) if kind.is_float else np.array(results[i])
        for i, kind in enumerate(specs)
    ]


def _compared(output: StreamedOutput, whole: Array, got: Sequence[Array]) -> tuple[Array, Array]:
    """What is compared of an output: of the stream, and of the whole sequence."""
    if output.kind != "time":
        return got[-1], whole
    streamed = _along(output, np.concatenate(got, output.axis), max(0, -output.shift), None)
    expected = _along(output, whole, max(0, output.shift), None)
    count = min(streamed.shape[output.axis], expected.shape[output.axis])
    return _along(output, streamed, 0, count), _along(output, expected, 0, count)


def _along(output: StreamedOutput, array: Array, start: int, stop: int | None) -> Array:
    return array[(slice(None),) * output.axis + (slice(start, stop),)]


class _Rounding:
    """What rounding does to the outputs of a whole sequence: how far they move when every float of
    the inputs and of the weights is the next one of its type.

    A layer makes of what the layers before it have rounded more, or less. What that comes to, in a
    deep model, nobody can say beforehand.
    """

    def __init__(self, model: Model, arrays: Mapping[int, Array], results: list[Array]) -> None:
        self.model, self._arrays, self._results = model, arrays, results

    def of(self, position: int) -> float:
        """The distance of an output, of its largest value."""
        return _distance(self._moved[position], self._results[position])

    @lazy
    def _moved(self) -> list[Array]:
        generator = np.random.default_rng(0)
        weights = {
            id(node.operation): _next(node.operation.value, generator)
            for node in all_nodes(self.model)
            if isinstance(node.operation, Const) and node.operation.element_type in TOLERANCE
        }
        types = [port.element_type for port in self.model.inputs]
        arrays = {
            position: _next(array, generator) if types[position] in TOLERANCE else array
            for position, array in self._arrays.items()
        }
        moved = with_values(self.model, weights)
        return _results(compile_model(moved), moved, arrays)


def _next(array: Array, generator: np.random.Generator) -> Array:
    """The floats above or below. Whole numbers stay: positions and masks are such, not weights."""
    wanted = np.where(generator.random(array.shape) < 0.5, -np.inf, np.inf)
    moved: Array = np.nextafter(array, wanted, dtype=array.dtype)
    return np.where(array == np.rint(array), array, moved)


def _judged(
    rounding: _Rounding,
    position: int,
    output: StreamedOutput,
    pair: tuple[Array, Array],
    sizes: Sequence[int],
) -> float:
    """The difference of an output, of its largest value. Raises InputError where it is more than
    rounding.
    """
    if not pair[1].size:
        return 0.0
    streamed, expected = pair
    kind = rounding.model.outputs[position].element_type
    if streamed.shape != expected.shape:
        raise _wrong(output, f"shape {streamed.shape}, not {expected.shape}", sizes)
    if not kind.is_float:
        if not np.array_equal(streamed, expected):
            raise _wrong(output, "other values than the whole sequence gives", sizes)
        return 0.0
    worst = _distance(streamed, expected)
    least = TOLERANCE.get(kind, _OF_SHORT)
    if worst > least and not worst <= min(_OF_SHORT, _STEPS * rounding.of(position)):
        raise _wrong(output, f"values that differ by {worst:.2g} of the largest one", sizes)
    return worst


def _distance(one: Array, other: Array) -> float:
    """The largest difference of two arrays, of the largest value of the second."""
    a, b = one.astype(np.float64), other.astype(np.float64)
    with np.errstate(invalid="ignore"):
        apart = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0, np.abs(a - b))
    finite = np.abs(b[np.isfinite(b)])
    largest = float(finite.max()) if finite.size else 0.0
    return float(np.nan_to_num(apart, nan=np.inf).max()) / max(largest, 1e-30)


def _wrong(output: StreamedOutput, what: str, sizes: Sequence[int]) -> UncorkError:
    shown = ", ".join(map(str, sizes[:8])) + (", .." if len(sizes) > 8 else "")
    return InputError(
        f"output '{output.name}': frame by frame ({shown} frames a call) it has {what}; a layer "
        "mixes frames in a way that was not seen: cut the model before it"
    )
