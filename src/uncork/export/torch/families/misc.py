"""Quantization, Fourier transforms, CTC and random numbers."""

from __future__ import annotations

from uncork.export.torch.registry import lowers
from uncork.export.torch.writer import Code, Value, Writer
from uncork.ops._operation import Operation


@lowers("DFT", "IDFT", "RDFT", "IRDFT")
def fourier(w: Writer, op: Operation, data: Value, axes: Value, size: Value | None = None) -> str:
    """torch.fft's transforms, of complex numbers as pairs."""
    sizes = None if size is None else w.listed(size)
    return w.helper("fourier", data, w.listed(axes), sizes, kind=op.type_name)


@lowers("RandomUniform")
def random_uniform(w: Writer, op: Operation, shape: Value, low: Value, high: Value) -> str:
    """Numbers of torch's generator; with seeds the IR names numbers that it does not give."""
    if op.global_seed or op.op_seed:  # type: ignore[attr-defined]
        w.approximate("RandomUniform with seeds draws other numbers in torch")
    code = Code(w.dtype(w.outputs[0].element_type))
    return w.helper("random_uniform", w.listed(shape), low, high, dtype=code)


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
    return w.helper("drawn", probs, w.integer(count), **options)
