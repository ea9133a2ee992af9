"""Fourier transforms."""

from __future__ import annotations

import numpy as np

from uncork.errors import ValidationError
from uncork.ir.model import Source
from uncork.onnx.call import Call
from uncork.onnx.registry import OWN, lowering
from uncork.types import ElementType

T = ElementType


@lowering("DFT")
def _dft(call: Call) -> Source:
    graph, data = call.graph, call[0]
    rank = graph.rank(data)
    if call.version < 20:
        axes = graph.i64([_signal_axis(call, call.integer("axis", 1), rank)])
    elif not call.has(2):
        axes = graph.i64([_signal_axis(call, -2, rank)])
    elif (known := graph.known(call[2])) is not None:
        axes = graph.i64([_signal_axis(call, int(known.reshape(-1)[0]), rank)])
    else:
        given = graph.reshape(graph.convert(call[2], T.i64), [1])
        axes = graph.make("FloorMod", given, graph.i64(rank))
    parts = graph.sizes(data)[-1]
    call.refuse_if(
        parts not in (1, 2), "data of which it is open whether they are complex", "say their size"
    )
    inverse, one_sided = bool(call.integer("inverse")), bool(call.integer("onesided"))
    length = () if not call.has(1) else (graph.reshape(graph.convert(call[1], T.i64), [1]),)
    if one_sided and inverse:
        real = graph.make("IRDFT", data, axes, *length)
        return graph.unsqueeze(real, rank - 1)
    if one_sided:
        if parts == 2:
            data = graph.gather(data, [0], rank - 1)
        return graph.make("RDFT", graph.squeeze(data, rank - 1), axes, *length)
    if parts == 1:
        data = graph.concat([data, graph.times(data, 0.0)], rank - 1)
    return graph.make("IDFT" if inverse else "DFT", data, axes, *length)


def _signal_axis(call: Call, axis: int, rank: int) -> int:
    axis = call.place(axis, rank)
    ValidationError.when(axis == rank - 1, "the last axis is that of real and imaginary parts")
    return axis


@lowering("STFT")
def _stft(call: Call) -> Source:
    graph, signal = call.graph, call[0]
    if graph.rank(signal) == 3:
        call.refuse_if(
            graph.sizes(signal)[-1] != 1,
            "a complex signal",
            "give the real and imaginary parts apart",
        )
        signal = graph.squeeze(signal, 2)
    step = graph.reshape(graph.convert(call[1], T.i64), [])
    window = call.optional(2)
    if call.has(3):
        size = graph.reshape(graph.convert(call[3], T.i64), [])
    elif window is not None:
        size = graph.reshape(graph.size_of(window, 0), [])
    else:
        raise ValidationError("input 3 (frame_length) is missing, and there is no window")
    if window is None:
        window = graph.broadcast(graph.like(1.0, signal), graph.reshape(size, [1]))
    result = graph.make("STFT", signal, window, size, step, transpose_frames=True)
    if call.integer("onesided", 1):
        return graph.transpose(result, [0, 2, 1, 3]) if _bins_first(call) else result
    raise call.refuse("onesided = 0", "the second half mirrors the first: leave it out")


def _bins_first(call: Call) -> bool:
    """Whether the operation with transpose_frames lays frequencies before frames."""
    return True


@lowering("FourierTransform", domain=OWN)
def _transform(call: Call) -> Source:
    """torch.fft: complex numbers are pairs of a last dimension."""
    graph, data, kind = call.graph, call[0], call.text("kind")
    axes, norm = call.integers("axes"), call.text("norm", "backward")
    lengths = (graph.convert(call[1], T.i64),) if call.has(1) else ()
    name = {"fft": "DFT", "ifft": "IDFT", "rfft": "RDFT", "irfft": "IRDFT"}[kind]
    made = graph.make(name, data, graph.i64(axes), *lengths)
    if norm == "backward":  # what is divided by the number of elements is the inverse
        return made
    real = data if kind == "rfft" else made  # the other has half of them
    count = lengths[0] if lengths else graph.concat([graph.size_of(real, a) for a in axes], 0)
    number = graph.convert(graph.reduce("ReduceProd", count, [0], keep=False), graph.type(made))
    factor = graph.root(number) if norm == "ortho" else number
    return graph.times(made, factor) if kind.startswith("i") else graph.over(made, factor)


@lowering("ShortTransform", domain=OWN)
def _short_transform(call: Call) -> Source:
    """torch.stft, after its padding."""
    graph = call.graph
    size, step = (graph.constant(np.int64(call.integer(name))) for name in ("size", "step"))
    return graph.make("STFT", call[0], call[1], size, step, transpose_frames=True)


@lowering("ShortInverse", domain=OWN)
def _short_inverse(call: Call) -> Source:
    """torch.istft."""
    graph = call.graph
    size, step = (graph.constant(np.int64(call.integer(name))) for name in ("size", "step"))
    length = (graph.reshape(graph.convert(call[2], T.i64), []),) if call.has(2) else ()
    ways = {name: bool(call.integer(name)) for name in ("center", "normalized")}
    return graph.make("ISTFT", call[0], call[1], size, step, *length, opset=16, **ways)


@lowering("HannWindow", "HammingWindow", "BlackmanWindow")
def _window(call: Call) -> Source:
    from uncork.onnx.types import element_type_of

    kind = element_type_of(call.integer("output_datatype", 1))
    graph = call.graph
    weights = {
        "HannWindow": (0.5, 0.5, 0.0),
        "HammingWindow": (25 / 46, 21 / 46, 0.0),
        "BlackmanWindow": (0.42, 0.5, 0.08),
    }[call.op_type]
    size = graph.reshape(call[0], [])
    span = graph.convert(size, T.f32)
    if not call.integer("periodic", 1):
        span = graph.minus(span, 1.0)
    places = graph.convert(graph.range(graph.convert(size, T.i64)), T.f32)
    turn = graph.times(graph.over(places, span), 2 * np.pi)
    value = graph.minus(weights[0], graph.times(graph.make("Cos", turn), weights[1]))
    if weights[2]:
        double = graph.make("Cos", graph.times(turn, 2.0))
        value = graph.plus(value, graph.times(double, weights[2]))
    return graph.convert(value, kind)
