"""DFT, IDFT, RDFT, IRDFT, STFT, ISTFT by ONNX's DFT along one axis after the other."""

from __future__ import annotations

import numpy as np

from uncork.export.onnx.families.shapes import numbers
from uncork.export.onnx.graph import Graph, Tensor
from uncork.export.onnx.registry import lowers
from uncork.export.onnx.sizes import Size, combined, counted, dimension, each, vector, vectors
from uncork.ops._operation import Operation
from uncork.ops.stft import ISTFT16, STFT15
from uncork.types import ElementType


def _pairs(g: Graph, data: Tensor) -> Tensor:
    """Real numbers as complex ones, which are pairs."""
    column = g.op("Unsqueeze", data, [-1])
    return g.op("Concat", column, g.op("Sub", column, column), axis=-1)


def _sizes(signal_size: Tensor | None, g: Graph, count: int) -> list[int]:
    return [-1] * count if signal_size is None else numbers(g, signal_size, "signal_size")


def _transformed(g: Graph, data: Tensor, axis: int, size: int, inverse: bool) -> Tensor:
    """The Fourier transform of complex data along one axis, cut or filled up to a size."""
    length = None if size == -1 else g.constant(np.array(size, np.int64))
    return g.op("DFT", data, length, g.constant(np.array(axis, np.int64)), inverse=int(inverse))


def _wide(g: Graph, data: Tensor) -> Tensor:
    """The data in f64, as onnxruntime's transforms of sizes that are no power of two lose digits in
    f32.
    """
    return g.cast(data, ElementType.f64)


@lowers("DFT", "IDFT")
def dft(g: Graph, op: Operation, data: Tensor, axes: Tensor, signal_size: Tensor | None) -> Tensor:
    """ONNX's DFT along each axis, counted without the dimension of the pairs."""
    own, rank = data.type, g.rank(data) - 1
    places = [a % rank for a in numbers(g, axes, "axes")]
    result = _wide(g, data)
    for axis, size in zip(places, _sizes(signal_size, g, len(places)), strict=True):
        result = _transformed(g, result, axis, size, op.type_name == "IDFT")
    return g.cast(result, own)


@lowers("RDFT")
def rdft(g: Graph, op: Operation, data: Tensor, axes: Tensor, signal_size: Tensor | None) -> Tensor:
    """ONNX's DFT along each axis; the last one is transformed first and keeps its first half."""
    own, rank = data.type, g.rank(data)
    places = [a % rank for a in numbers(g, axes, "axes")]
    sizes = _sizes(signal_size, g, len(places))
    result = _transformed(g, _pairs(g, _wide(g, data)), places[-1], sizes[-1], False)
    count = sizes[-1] if sizes[-1] != -1 else data.shape[places[-1]].size
    if count is not None:
        half = g.constant(np.array([count // 2 + 1]))
    else:
        two, one = g.constant(np.array([2])), g.constant(np.array([1]))
        half = g.op("Add", g.op("Div", g.dim(data, places[-1]), two), one)
    result = g.op("Slice", result, [0], half, [places[-1]])
    for axis, size in zip(places[:-1], sizes[:-1], strict=True):
        result = _transformed(g, result, axis, size, False)
    return g.cast(result, own)


@lowers("IRDFT")
def irdft(
    g: Graph, op: Operation, data: Tensor, axes: Tensor, signal_size: Tensor | None
) -> Tensor:
    """The inverse of ONNX's DFT along each axis; the last one is first filled up with the
    conjugates of its half.
    """
    own, rank = data.type, g.rank(data) - 1
    places = [a % rank for a in numbers(g, axes, "axes")]
    sizes = _sizes(signal_size, g, len(places))
    last = places[-1]
    given = dimension(g, data, last)
    count: Size = sizes[-1]
    if count == -1:
        count = combined(g, "Mul", combined(g, "Sub", given, 1), 2)
    result = _wide(g, data)
    for axis, size in zip(places[:-1], sizes[:-1], strict=True):
        result = _transformed(g, result, axis, size, True)
    kept = combined(g, "Add", combined(g, "Div", count, 2), 1)
    missing = combined(g, "Max", combined(g, "Sub", kept, given), 0)
    if missing != 0:
        result = g.op(
            "Pad", result, vectors(g, *[0] * (rank + 1 + last), missing, *[0] * (rank - last))
        )
    half = g.op("Slice", result, [0], vector(g, kept), [last])
    half = _whole(g, half, last, combined(g, "Sub", count, kept))
    real = g.op("Gather", _transformed(g, half, last, -1, True), g.constant(np.array(0)), axis=-1)
    # One number that turns out to stand alone is the half of nothing.
    kept_all = isinstance(count, int) and count > 0
    return g.cast(real if kept_all else g.op("Slice", real, [0], vector(g, count), [last]), own)


def _whole(g: Graph, half: Tensor, axis: int, rest: Size) -> Tensor:
    """The spectrum of real numbers from its first half: the `rest` is their conjugates."""
    if isinstance(rest, int) and rest <= 0:
        return half
    mirrored = g.op("Slice", half, vector(g, rest), [0], [axis], [-1])
    conjugates = g.op("Mul", mirrored, g.constant(np.array([1.0, -1.0])))
    return g.op("Concat", half, conjugates, axis=axis)


def _in_frame(g: Graph, window: Tensor, frame: Size) -> Tensor:
    """The window padded to the size of a frame, in its middle."""
    spare = combined(g, "Sub", frame, dimension(g, window, 0))
    before = combined(g, "Div", spare, 2)
    # A window that turns out to be longer than the frame must not be cut: it fits nothing then.
    pads = [combined(g, "Max", n, 0) for n in (before, combined(g, "Sub", spare, before))]
    return g.op("Pad", _wide(g, window), vectors(g, *pads))


def _places(g: Graph, frames: Size, step: Size, frame: Size) -> Tensor:
    """The indices in the signal of each frame's elements, [frames, frame]."""
    if isinstance(frames, int) and isinstance(step, int) and isinstance(frame, int):
        return g.constant(np.arange(frames)[:, None] * step + np.arange(frame))
    starts = g.op("Mul", counted(g, frames), vector(g, step))
    return g.op("Add", g.unsqueeze(starts, [1]), counted(g, frame))


@lowers("STFT")
def stft(
    g: Graph, op: STFT15, signal: Tensor, window: Tensor, frame_size: Tensor, frame_step: Tensor
) -> Tensor:
    """Frames gathered by index, multiplied with the window and transformed."""
    own, axis = signal.type, g.rank(signal)
    (frame,), (step,) = each(g, frame_size, 1), each(g, frame_step, 1)
    spare = combined(g, "Sub", dimension(g, signal, -1), frame)
    # A signal that turns out to be shorter than a frame is read outside, which is refused.
    frames = combined(g, "Max", combined(g, "Add", combined(g, "Div", spare, step), 1), 1)
    cells = g.op("Gather", _wide(g, signal), _places(g, frames, step, frame), axis=-1)
    pieces = g.op("Mul", cells, _in_frame(g, window, frame))
    spectra = _transformed(g, _pairs(g, pieces), axis, -1, False)
    half = combined(g, "Add", combined(g, "Div", frame, 2), 1)
    spectra = g.op("Slice", spectra, [0], vector(g, half), [axis])
    if op.transpose_frames:
        spectra = g.op("Transpose", spectra, perm=[*range(axis - 1), axis, axis - 1, axis + 1])
    return g.cast(spectra, own)


@lowers("ISTFT")
def istft(
    g: Graph,
    op: ISTFT16,
    data: Tensor,
    window: Tensor,
    frame_size: Tensor,
    frame_step: Tensor,
    signal_length: Tensor | None,
) -> Tensor:
    """Each frame transformed back, multiplied with the window and added at its place."""
    own, rank = data.type, g.rank(data)
    (frame,), (step,) = each(g, frame_size, 1), each(g, frame_step, 1)
    frames, middle = dimension(g, data, -2), combined(g, "Div", frame, 2)
    batched = _wide(g, data) if rank == 4 else g.op("Unsqueeze", _wide(g, data), [0])
    moved = combined(g, "Mul", combined(g, "Sub", frames, 1), step)
    reached = combined(g, "Add", moved, frame)
    signal = _overlapped(g, batched, _in_frame(g, window, frame), (frames, step, frame), reached)
    if op.normalized:
        signal = g.op("Mul", signal, _root(g, frame))
    first: Size = middle if op.center else 0
    # How many cells there are beside one step for each frame but the first.
    both = combined(g, "Mul", middle, 2)
    beside = combined(g, "Sub", frame, both) if op.center else frame
    length = combined(g, "Add", moved, beside)
    if signal_length is not None:
        (length,) = each(g, signal_length, 1)
    end = combined(g, "Add", first, length)
    missing = combined(g, "Max", combined(g, "Sub", end, reached), 0)
    padded = signal if missing == 0 else g.op("Pad", signal, vectors(g, 0, 0, 0, missing))
    kept = g.op("Slice", padded, vector(g, first), vector(g, end), [1])
    return g.cast(kept if rank == 4 else g.op("Squeeze", kept, [0]), own)


def _root(g: Graph, frame: Size) -> Tensor:
    if isinstance(frame, int):
        return g.constant(np.float64(frame**0.5))
    return g.op("Sqrt", g.cast(frame, ElementType.f64))


def _overlapped(
    g: Graph, spectra: Tensor, framed: Tensor, cut: tuple[Size, Size, Size], reached: Size
) -> Tensor:
    """The signal [B, reached] of half spectra [B, frequencies, frames, 2]; 0 where no window is."""
    frames, step, frame = cut
    places, zero = g.reshape(_places(g, frames, step, frame), [-1]), g.constant(np.float64(0))
    pieces = g.op("Mul", _real_inverse(g, spectra, frame), framed)
    count = combined(g, "Mul", frames, frame)
    terms = g.op("Reshape", pieces, vectors(g, 0, count), shape=[None, None])
    blank = g.op("Expand", zero, g.concat([g.dim(spectra, 0), vector(g, reached)]))
    where = g.op("Expand", g.unsqueeze(places, [0]), g.op("Shape", terms))
    total = g.op("ScatterElements", blank, where, terms, axis=1, reduction="add")
    squares = g.op("Expand", g.op("Mul", framed, framed), vectors(g, frames, frame))
    weight = g.op(
        "ScatterElements",
        g.op("Expand", zero, vector(g, reached)),
        places,
        g.op("Reshape", squares, [-1]),
        axis=0,
        reduction="add",
    )
    none = g.op("Equal", weight, zero)
    signal = g.op("Div", total, g.op("Where", none, g.constant(np.float64(1)), weight))
    return g.op("Where", none, zero, signal)


def _real_inverse(g: Graph, spectra: Tensor, frame: Size) -> Tensor:
    """Half spectra [B, frequencies, frames, 2] to real frames [B, frames, frame]."""
    half = g.op("Transpose", spectra, perm=[0, 2, 1, 3])
    kept = combined(g, "Add", combined(g, "Div", frame, 2), 1)
    whole = _whole(g, half, 2, combined(g, "Sub", frame, kept))
    pairs = _transformed(g, whole, 2, -1, True)
    return g.op("Gather", pairs, g.constant(np.array(0)), axis=3, shape=[None, None, None])
