"""Fourier transforms."""

from __future__ import annotations

import numpy as np

from uncork.errors import ValidationError
from uncork.ir.model import Source
from uncork.onnx.call import Call
from uncork.onnx.graph import Graph
from uncork.onnx.registry import OWN, lowering
from uncork.types import ElementType

T = ElementType


@lowering("DFT")
def _dft(
    g: Graph, call: Call, data: Source, dft_length: Source | None = None, axis: Source | None = None
) -> Source:
    rank = g.rank(data)
    if call.version < 20:
        axes = g.i64([_signal_axis(call, call.integer("axis", 1), rank)])
    elif axis is None:
        axes = g.i64([_signal_axis(call, -2, rank)])
    elif (known := g.known(axis)) is not None:
        axes = g.i64([_signal_axis(call, int(known.reshape(-1)[0]), rank)])
    else:
        given = g.reshape(g.convert(axis, T.i64), [1])
        axes = g.make("FloorMod", given, g.i64(rank))
    parts = g.sizes(data)[-1]
    call.refuse_if(
        parts not in (1, 2), "data of which it is open whether they are complex", "say their size"
    )
    inverse, one_sided = bool(call.integer("inverse")), bool(call.integer("onesided"))
    length = () if dft_length is None else (g.reshape(g.convert(dft_length, T.i64), [1]),)
    if one_sided and inverse:
        real = g.make("IRDFT", data, axes, *length)
        return g.unsqueeze(real, rank - 1)
    if one_sided:
        if parts == 2:
            data = g.gather(data, [0], rank - 1)
        return g.make("RDFT", g.squeeze(data, rank - 1), axes, *length)
    if parts == 1:
        data = g.concat([data, g.times(data, 0.0)], rank - 1)
    return g.make("IDFT" if inverse else "DFT", data, axes, *length)


def _signal_axis(call: Call, axis: int, rank: int) -> int:
    axis = call.place(axis, rank)
    ValidationError.when(axis == rank - 1, "the last axis is that of real and imaginary parts")
    return axis


@lowering("STFT")
def _stft(
    g: Graph,
    call: Call,
    signal: Source,
    frame_step: Source,
    window: Source | None = None,
    frame_length: Source | None = None,
) -> Source:
    if g.rank(signal) == 3:
        call.refuse_if(
            g.sizes(signal)[-1] != 1,
            "a complex signal",
            "give the real and imaginary parts apart",
        )
        signal = g.squeeze(signal, 2)
    step = g.reshape(g.convert(frame_step, T.i64), [])
    if frame_length is not None:
        size = g.reshape(g.convert(frame_length, T.i64), [])
    elif window is not None:
        size = g.reshape(g.size_of(window, 0), [])
    else:
        raise ValidationError("input 3 (frame_length) is missing, and there is no window")
    if window is None:
        window = g.broadcast(g.like(1.0, signal), g.reshape(size, [1]))
    result = g.make("STFT", signal, window, size, step, transpose_frames=True)
    result = g.transpose(result, [0, 2, 1, 3])
    return result if call.integer("onesided", 1) else _mirrored(g, result, size)


def _mirrored(g: Graph, frames: Source, size: Source) -> Source:
    """All frequencies of real frames of a length: those of the second half are those of the first
    one, backwards and conjugate.
    """
    places = g.range(size)
    mirror = g.minus(size, places)
    second = g.unsqueeze(g.make("Less", mirror, places), 1)
    one, minus = g.like(1.0, frames), g.like(-1.0, frames)
    turned = g.select(second, minus, one)
    signs = g.concat([g.select(second, one, one), turned], 1)
    return g.times(g.gather(frames, g.least(places, mirror), 2), signs)


@lowering("FourierTransform", domain=OWN)
def _transform(g: Graph, call: Call, data: Source, lengths: Source | None = None) -> Source:
    """torch.fft: complex numbers are pairs of a last dimension."""
    kind = call.text("kind")
    axes, norm = call.integers("axes"), call.text("norm", "backward")
    name = {"fft": "DFT", "ifft": "IDFT", "rfft": "RDFT", "irfft": "IRDFT"}[kind]
    given = None if lengths is None else g.convert(lengths, T.i64)
    made = g.make(name, data, g.i64(axes), *(() if given is None else (given,)))
    if norm == "backward":  # what is divided by the number of elements is the inverse
        return made
    real = data if kind == "rfft" else made  # the other has half of them
    count = given or g.concat([g.size_of(real, a) for a in axes], 0)
    number = g.convert(g.reduce("ReduceProd", count, [0], keep=False), g.type(made))
    factor = g.root(number) if norm == "ortho" else number
    return g.times(made, factor) if kind.startswith("i") else g.over(made, factor)


@lowering("ShortTransform", domain=OWN)
def _short_transform(g: Graph, call: Call, data: Source, window: Source) -> Source:
    """torch.stft, after its padding."""
    size, step = (g.constant(np.int64(call.integer(name))) for name in ("size", "step"))
    return g.make("STFT", data, window, size, step, transpose_frames=True)


@lowering("ShortInverse", domain=OWN)
def _short_inverse(
    g: Graph, call: Call, data: Source, window: Source, length: Source | None = None
) -> Source:
    """torch.istft."""
    size, step = (g.constant(np.int64(call.integer(name))) for name in ("size", "step"))
    last = () if length is None else (g.reshape(g.convert(length, T.i64), []),)
    ways = {name: bool(call.integer(name)) for name in ("center", "normalized")}
    return g.make("ISTFT", data, window, size, step, *last, opset=16, **ways)


@lowering("HannWindow", "HammingWindow", "BlackmanWindow")
def _window(g: Graph, call: Call, length: Source) -> Source:
    from uncork.onnx.types import element_type_of

    kind = element_type_of(call.integer("output_datatype", 1))
    weights = {
        "HannWindow": (0.5, 0.5, 0.0),
        "HammingWindow": (25 / 46, 21 / 46, 0.0),
        "BlackmanWindow": (0.42, 0.5, 0.08),
    }[call.op_type]
    size = g.reshape(length, [])
    span = g.convert(size, T.f32)
    if not call.integer("periodic", 1):
        span = g.minus(span, 1.0)
    places = g.convert(g.range(g.convert(size, T.i64)), T.f32)
    turn = g.times(g.over(places, span), 2 * np.pi)
    value = g.minus(weights[0], g.times(g.make("Cos", turn), weights[1]))
    if weights[2]:
        double = g.make("Cos", g.times(turn, 2.0))
        value = g.plus(value, g.times(double, weights[2]))
    return g.convert(value, kind)
