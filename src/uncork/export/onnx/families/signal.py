"""DFT, IDFT, RDFT, IRDFT, STFT: ONNX's DFT along one axis after the other."""

from __future__ import annotations

import numpy as np

from uncork.export.onnx.families.shapes import numbers
from uncork.export.onnx.graph import Graph, Tensor
from uncork.export.onnx.registry import lowers
from uncork.ops._operation import Operation
from uncork.ops.stft import ISTFT16, STFT15
from uncork.types import ElementType


def _pairs(g: Graph, data: Tensor) -> Tensor:
    """Real numbers as pairs."""
    column = g.op("Unsqueeze", data, [-1])
    return g.op("Concat", column, g.op("Sub", column, column), axis=-1)


def _sizes(signal_size: Tensor | None, g: Graph, count: int) -> list[int]:
    return [-1] * count if signal_size is None else numbers(g, signal_size, "signal_size")


def _transformed(g: Graph, data: Tensor, axis: int, size: int, inverse: bool) -> Tensor:
    """Complex data along one axis, cut or filled up to a size."""
    length = None if size == -1 else g.constant(np.array(size, np.int64))
    return g.op("DFT", data, length, g.constant(np.array(axis, np.int64)), inverse=int(inverse))


def _wide(g: Graph, data: Tensor) -> Tensor:
    """f64: onnxruntime's transforms of sizes that are no power of two lose digits in f32."""
    return g.cast(data, ElementType.f64)


@lowers("DFT", "IDFT")
def dft(g: Graph, op: Operation, data: Tensor, axes: Tensor, signal_size: Tensor | None) -> Tensor:
    """Axes are counted without the dimension of the pairs."""
    own, rank = data.type, g.rank(data) - 1
    places = [a % rank for a in numbers(g, axes, "axes")]
    result = _wide(g, data)
    for axis, size in zip(places, _sizes(signal_size, g, len(places))):
        result = _transformed(g, result, axis, size, op.type_name == "IDFT")
    return g.cast(result, own)


@lowers("RDFT")
def rdft(g: Graph, op: Operation, data: Tensor, axes: Tensor, signal_size: Tensor | None) -> Tensor:
    """The last axis keeps its first half, and is transformed first."""
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
    for axis, size in zip(places[:-1], sizes[:-1]):
        result = _transformed(g, result, axis, size, False)
    return g.cast(result, own)


@lowers("IRDFT")
def irdft(
    g: Graph, op: Operation, data: Tensor, axes: Tensor, signal_size: Tensor | None
) -> Tensor:
    """The last axis is filled up with the conjugates of what it has, then transformed back."""
    own, rank = data.type, g.rank(data) - 1
    places = [a % rank for a in numbers(g, axes, "axes")]
    sizes = _sizes(signal_size, g, len(places))
    last = places[-1]
    known = data.shape[last].static_size
    count = sizes[-1] if sizes[-1] != -1 else None if known is None else 2 * (known - 1)
    if count is None or known is None:
        g.refuse("the size of the last axis is not known")
    result = _wide(g, data)
    for axis, size in zip(places[:-1], sizes[:-1]):
        result = _transformed(g, result, axis, size, True)
    kept = count // 2 + 1
    if known < kept:
        pads = np.zeros(2 * (rank + 1), np.int64)
        pads[rank + 1 + last] = kept - known
        result = g.op("Pad", result, pads)
    half = g.op("Slice", result, [0], [kept], [last])
    rest = count - kept
    if rest > 0:
        mirrored = g.op("Slice", half, [rest], [0], [last], [-1])
        sign = np.array([1, -1], result.type.dtype)
        half = g.op("Concat", half, g.op("Mul", mirrored, g.constant(sign)), axis=last)
    real = g.op("Gather", _transformed(g, half, last, -1, True), g.constant(np.array(0)), axis=-1)
    return g.cast(real, own)


def _frames(g: Graph, size: Tensor, step: Tensor) -> tuple[int, int]:
    return numbers(g, size, "frame_size")[0], numbers(g, step, "frame_step")[0]


def _in_frame(g: Graph, window: Tensor, width: int, size: int) -> Tensor:
    """A window in the middle of its frame."""
    before = (size - width) // 2
    return g.op("Pad", _wide(g, window), [before, size - width - before])


@lowers("STFT")
def stft(
    g: Graph, op: STFT15, signal: Tensor, window: Tensor, frame_size: Tensor, frame_step: Tensor
) -> Tensor:
    """Frames picked by number, weighed and transformed."""
    own = signal.type
    size, step = _frames(g, frame_size, frame_step)
    length = signal.shape[-1].static_size if signal.rank is not None else None
    width = window.shape[0].static_size if window.rank == 1 else None
    if length is None or width is None:
        g.refuse("the length of the signal or of the window is not known")
    frames = (length - size) // step + 1
    places = np.arange(frames)[:, None] * step + np.arange(size)
    framed = _in_frame(g, window, width, size)
    pieces = g.op("Mul", g.op("Gather", _wide(g, signal), g.constant(places), axis=-1), framed)
    axis = g.rank(signal)
    spectra = _transformed(g, _pairs(g, pieces), axis, -1, False)
    spectra = g.op("Slice", spectra, [0], [size // 2 + 1], [axis])
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
    """Every frame transformed back and weighed, then added at its place."""
    own = data.type
    size, step = _frames(g, frame_size, frame_step)
    frames = data.shape[-2].static_size if data.rank is not None else None
    width = window.shape[0].static_size if window.rank == 1 else None
    if frames is None or width is None:
        g.refuse("the number of frames or the length of the window is not known")
    framed = _in_frame(g, window, width, size)
    batched = _wide(g, data) if g.rank(data) == 4 else g.op("Unsqueeze", _wide(g, data), [0])
    pieces = _real_inverse(g, batched, size)
    reached = (frames - 1) * step + size
    places = (np.arange(frames)[:, None] * step + np.arange(size)).reshape(1, -1)
    terms = g.op(
        "Reshape", g.op("Mul", pieces, framed), [0, frames * size], shape=[None, frames * size]
    )
    blank = g.op("Expand", g.constant(np.float64(0)), g.concat([g.dim(batched, 0), [reached]]))
    where = g.op("Expand", g.constant(places), g.op("Shape", terms))
    total = g.op("ScatterElements", blank, where, terms, axis=1, reduction="add")
    squares = g.op("Reshape", g.op("Expand", g.op("Mul", framed, framed), [frames, size]), [-1])
    weight = g.op(
        "ScatterElements",
        g.constant(np.zeros(reached)),
        g.constant(places[0]),
        squares,
        axis=0,
        reduction="add",
    )
    none = g.op("Equal", weight, g.constant(np.float64(0)))
    signal = g.op("Div", total, g.op("Where", none, g.constant(np.float64(1)), weight))
    signal = g.op("Where", none, g.constant(np.float64(0)), signal)
    if op.normalized:
        signal = g.op("Mul", signal, g.constant(np.float64(size**0.5)))
    first = size // 2 if op.center else 0
    length = (frames - 1) * step + op.beside(size)
    if signal_length is not None:
        length = numbers(g, signal_length, "signal_length")[0]
    missing = max(0, first + length - reached)
    padded = g.op("Pad", signal, [0, 0, 0, missing]) if missing else signal
    kept = g.op("Slice", padded, [first], [first + length], [1])
    return g.cast(kept if g.rank(data) == 4 else g.op("Squeeze", kept, [0]), own)


def _real_inverse(g: Graph, spectra: Tensor, size: int) -> Tensor:
    """Half spectra [B, frequencies, frames, 2] to real frames [B, frames, size]."""
    half = g.op("Transpose", spectra, perm=[0, 2, 1, 3])
    rest = size - (size // 2 + 1)
    if rest > 0:
        mirrored = g.op("Slice", half, [rest], [0], [2], [-1])
        half = g.op(
            "Concat", half, g.op("Mul", mirrored, g.constant(np.array([1.0, -1.0]))), axis=2
        )
    return g.op(
        "Gather",
        _transformed(g, half, 2, -1, True),
        g.constant(np.array(0)),
        axis=3,
        shape=[None, None, size],
    )
