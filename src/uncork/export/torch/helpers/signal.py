"""Quantization, Fourier transforms, CTC and random numbers."""

from __future__ import annotations

import torch
from torch import Tensor


def fourier(x: Tensor, axes: list[int], sizes: list[int] | None, kind: str) -> Tensor:
    """A Fourier transform along axes; complex numbers are pairs in the last dimension."""
    own = x.dtype
    wide = x.double()
    values = wide if kind == "RDFT" else torch.complex(wide[..., 0], wide[..., 1])
    if not axes:
        return x
    places = [a % values.dim() for a in axes]
    given = sizes or [-1] * len(places)
    lengths = [values.shape[a] if n == -1 else n for a, n in zip(places, given, strict=True)]
    if kind == "IRDFT" and given[-1] == -1:
        lengths[-1] = 2 * (values.shape[places[-1]] - 1)
    shape = list(values.shape)
    for a, n in zip(places, lengths, strict=True):
        shape[a] = n
    if min(shape, default=1) <= 0:
        if kind == "RDFT":
            shape[places[-1]] = lengths[-1] // 2 + 1
        pair = [] if kind == "IRDFT" else [2]
        return x.new_zeros([max(0, n) for n in shape] + pair)
    run = {"DFT": torch.fft.fft, "IDFT": torch.fft.ifft}.get(kind)
    if run is not None:
        for a, n in zip(places, lengths, strict=True):
            values = run(values, n, a)
    elif kind == "RDFT":
        values = torch.fft.rfft(values, lengths[-1], places[-1])
        for a, n in zip(places[:-1], lengths[:-1], strict=True):
            values = torch.fft.fft(values, n, a)
    else:
        for a, n in zip(places[:-1], lengths[:-1], strict=True):
            values = torch.fft.ifft(values, n, a)
        return torch.fft.irfft(values, lengths[-1], places[-1]).to(own)
    return torch.view_as_real(values).to(own)


def random_uniform(shape: list[int], low: Tensor, high: Tensor, dtype: torch.dtype) -> Tensor:
    """Random numbers from low on, below high."""
    if dtype.is_floating_point:
        drawn = torch.rand(shape, dtype=dtype, device=low.device)
        return drawn * (high.reshape(()) - low.reshape(())) + low.reshape(())
    return torch.randint(int(low), int(high), shape, dtype=dtype, device=low.device)


def drawn(
    probs: Tensor, count: int, replacement: bool, logarithms: bool, dtype: torch.dtype
) -> Tensor:
    """Classes drawn by their probabilities."""
    exact = probs.double()
    if logarithms:
        exact = torch.exp(exact - exact.amax(dim=1, keepdim=True))
    if count == 0:
        return torch.zeros((len(probs), 0), dtype=dtype, device=probs.device)
    return torch.multinomial(exact, count, replacement).to(dtype)
