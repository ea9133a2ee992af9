"""Quantization, Fourier transforms, CTC and random numbers."""

from __future__ import annotations

from uncork.export.torch.families.arithmetic import placed
from uncork.export.torch.families.shapes import unpacked
from uncork.export.torch.registry import lowers
from uncork.export.torch.writer import Code, Value, Writer
from uncork.ops._operation import Operation
from uncork.types import ElementType


@lowers("FakeQuantize")
def fake_quantize(w: Writer, op: Operation, x: Value, *limits: Value) -> str:
    """Values rounded to one of `levels` steps, halves to even."""
    given = [placed(w, op, x, limit) for limit in limits]
    return w.call("fake_quantize", x, *given, levels=op.levels)  # type: ignore[attr-defined]


@lowers("DFT", "IDFT", "RDFT", "IRDFT")
def fourier(w: Writer, op: Operation, data: Value, axes: Value, size: Value | None = None) -> str:
    """torch.fft's transforms, of complex numbers as pairs."""
    sizes = None if size is None else w.listed(size)
    return w.call("fourier", data, w.listed(axes), sizes, kind=op.type_name)


@lowers("STFT")
def stft(w: Writer, op: Operation, signal: Value, window: Value, size: Value, step: Value) -> str:
    """Frames multiplied with the window and transformed."""
    frames_last = op.transpose_frames  # type: ignore[attr-defined]
    numbers = (w.integer(size), w.integer(step))
    return w.call("short_time_fourier", signal, window, *numbers, frames_last=frames_last)


@lowers("ISTFT")
def istft(
    w: Writer,
    op: Operation,
    data: Value,
    window: Value,
    size: Value,
    step: Value,
    length: Value | None = None,
) -> str:
    """Each frame transformed back, multiplied with the window and added at its place."""
    numbers = [w.integer(v) for v in (size, step)]
    number = None if length is None else w.integer(length)
    options = {"center": op.center, "normalized": op.normalized}  # type: ignore[attr-defined]
    return w.call("inverse_short_time_fourier", data, window, *numbers, number, **options)


@lowers("CTCGreedyDecoder")
def ctc_decoder(w: Writer, op: Operation, data: Value, mask: Value) -> str:
    """The best class of each step, without blanks and repetitions."""
    merge = op.ctc_merge_repeated  # type: ignore[attr-defined]
    return w.call("ctc_decoded_by_mask", data, mask, merge=merge)


@lowers("CTCGreedyDecoderSeqLen")
def ctc_decoder_lengths(
    w: Writer, op: Operation, data: Value, lengths: Value, blank: Value | None = None
) -> list[str]:
    """The best class of each step, without blanks and repetitions, and how many there are."""
    number = None if blank is None else w.integer(blank)
    codes = [w.dtype(s.element_type) for s in w.outputs]
    options = {"merge": op.merge_repeated}  # type: ignore[attr-defined]
    texts = unpacked(w, w.call("ctc_decoded", data, lengths, number, **options))
    return [f"{t}.to({c})" for t, c in zip(texts, codes, strict=True)]


@lowers("RandomUniform")
def random_uniform(w: Writer, op: Operation, shape: Value, low: Value, high: Value) -> str:
    """Numbers of torch's generator; with seeds the IR names numbers that it does not give."""
    if op.global_seed or op.op_seed:  # type: ignore[attr-defined]
        w.approximate("RandomUniform with seeds draws other numbers in torch")
    code = Code(w.dtype(w.outputs[0].element_type))
    return w.call("random_uniform", w.listed(shape), low, high, dtype=code)


@lowers("Multinomial")
def multinomial(w: Writer, op: Operation, probs: Value, count: Value) -> str:
    """torch.multinomial; with seeds the IR names numbers that it does not give."""
    if op.global_seed or op.op_seed:  # type: ignore[attr-defined]
        w.approximate("Multinomial with seeds draws other numbers in torch")
    options: dict[str, object] = {
        "replacement": op.with_replacement,  # type: ignore[attr-defined]
        "logarithms": op.log_probs,  # type: ignore[attr-defined]
        "dtype": Code(w.dtype(w.outputs[0].element_type)),
    }
    return w.call("drawn", probs, w.integer(count), **options)


@lowers("PriorBox", "PriorBoxClustered")
def priors(w: Writer, op: Operation, output_size: Value, image_size: Value) -> str:
    """A constant, since the boxes follow from sizes that must be known."""
    import numpy as np

    sizes = [
        np.array(w.numbers(v, n))
        for v, n in ((output_size, "output_size"), (image_size, "image_size"))
    ]
    boxes = np.asarray(op.reference(*sizes))
    return w.weight(boxes, ElementType.f32, "boxes")
