"""Quantization, Fourier transforms, CTC and random numbers."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def fake_quantize(
    x: Tensor, in_low: Tensor, in_high: Tensor, out_low: Tensor, out_high: Tensor, levels: int
) -> Tensor:
    """Values rounded to one of `levels` steps from out_low to out_high, halves to even."""
    kind = x.dtype
    if kind in (torch.float16, torch.bfloat16):
        x, in_low, in_high, out_low, out_high = (
            t.float() for t in (x, in_low, in_high, out_low, out_high)
        )
    steps = levels - 1
    step = torch.round((x - in_low) / (in_high - in_low) * steps)
    between = step / steps * (out_high - out_low) + out_low
    above = x > torch.maximum(in_low, in_high)
    below = x <= torch.minimum(in_low, in_high)
    return torch.where(below, out_low, torch.where(above, out_high, between)).to(kind)


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


def in_frame(window: Tensor, size: int) -> Tensor:
    """The window padded to the size of a frame, in its middle."""
    before = (size - len(window)) // 2
    return torch.nn.functional.pad(window, [before, size - len(window) - before])


def short_time_fourier(
    signal: Tensor, window: Tensor, size: int, step: int, frames_last: bool
) -> Tensor:
    """Frames multiplied with the window and transformed, as pairs in the last dimension."""
    pieces = signal.unfold(-1, size, step) * in_frame(window, size)
    if pieces.numel() == 0:
        shape = [*pieces.shape[:-1], size // 2 + 1]
        shape[-2:] = shape[:-3:-1] if frames_last else shape[-2:]
        return signal.new_zeros((*shape, 2))
    spectra = torch.fft.rfft(pieces.double(), dim=-1)
    if frames_last:
        spectra = spectra.mT
    return torch.view_as_real(spectra.contiguous()).to(signal.dtype)


def inverse_short_time_fourier(
    x: Tensor,
    window: Tensor,
    size: int,
    step: int,
    length: int | None,
    center: bool,
    normalized: bool,
) -> Tensor:
    """Frames transformed back, multiplied with the window and added at their places."""
    spectra = torch.complex(x[..., 0].double(), x[..., 1].double())
    pieces = torch.fft.irfft(spectra, size, dim=-2)
    frames = x.shape[-2]
    framed = in_frame(window, size).double()
    reached = (frames - 1) * step + size
    total = pieces.new_zeros((*x.shape[:-3], reached))
    weight = pieces.new_zeros(reached)
    for t in range(frames):
        here = slice(t * step, t * step + size)
        total[..., here] = total[..., here] + pieces[..., t] * framed
        weight[here] = weight[here] + framed * framed
    signal = torch.where(weight == 0, 0.0, total / torch.where(weight == 0, 1.0, weight))
    if normalized:
        signal = signal * math.sqrt(size)
    first = size // 2 if center else 0
    beside = size - 2 * (size // 2) if center else size
    wanted = (frames - 1) * step + beside if length is None else length
    kept = signal[..., first : first + wanted]
    return torch.nn.functional.pad(kept, [0, wanted - kept.shape[-1]]).to(x.dtype)


def ctc_decoded(
    x: Tensor, lengths: Tensor, blank: int | None, merge: bool
) -> tuple[Tensor, Tensor]:
    """The best classes of each row [batch, steps, classes], without blanks and repetitions."""
    rows, steps, classes = x.shape
    blank = classes - 1 if blank is None else blank
    best = x.argmax(dim=-1) if steps else x.new_zeros((rows, 0), dtype=torch.int64)
    kept = (torch.arange(steps, device=x.device) < lengths.long().unsqueeze(1)) & (best != blank)
    if merge and steps:
        kept[:, 1:] &= best[:, 1:] != best[:, :-1]
    place = torch.cumsum(kept, 1) - 1
    output = torch.full((rows, steps + 1), -1, dtype=torch.int64, device=x.device)
    output = output.scatter(1, torch.where(kept, place, steps), torch.where(kept, best, -1))
    return output[:, :steps], kept.sum(dim=1)


def ctc_decoded_by_mask(x: Tensor, mask: Tensor, merge: bool) -> Tensor:
    """Greedy CTC decoding of [steps, batch, classes], whose rows end at the first 0 of a mask."""
    lengths = torch.cumprod((mask != 0).long(), 0).sum(dim=0)
    found, _ = ctc_decoded(x.transpose(0, 1), lengths, None, merge)
    return found.to(x.dtype)[:, :, None, None]


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
