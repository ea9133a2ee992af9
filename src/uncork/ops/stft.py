"""STFT-15 and ISTFT-16: the spectra of overlapping pieces of a signal, and the signal of such
spectra.

    STFT    output[.., t, k] = sum over n < frame_size of
                window[n] * signal[.., t * frame_step + n] * exp(-2 pi i k n / frame_size)
    ISTFT   signal[.., s] = sum over t of window[n] * piece[t, n] / sum over t of window[n] ** 2
                with n = s - t * frame_step

for k = 0 .. frame_size // 2; `piece` is the inverse transform of a spectrum, of real numbers. A
shorter window stands in the middle of the frame, (frame_size - window_length) // 2 zeros before it.
ISTFT with `center` leaves out frame_size // 2 cells at both ends, and with `normalized` multiplies
by sqrt(frame_size). Complex numbers are pairs in a last dimension of 2.

Pages: operation-specs/signals/stft-15, istft-16. Decided:

- the page of ISTFT has no formula; this is that of torch, from where the operation comes, and of
  OpenVINO. So is the length without signal_length: an odd frame with `center` leaves one cell more
  than the page's example has. Where the divisor is 0, and past the last frame up to signal_length,
  the signal is 0;
- windows longer than a frame or empty, frames longer than the signal, and a signal_length below 0
  are refused.
"""

from __future__ import annotations

import math

import numpy as np

# NumPy imports it when it is first asked for: here, and not in the middle of a call
import numpy.fft

from uncork.ops._common.pairs import complex_of
from uncork.ops._common.shapes import check_array_fits, require_rank
from uncork.ops._common.vectors import scalar
from uncork.ops._common.vectors import size as size_of
from uncork.ops._operation import OfReals, Operation, register
from uncork.ops._ports import I32_I64, REAL, Attribute, Input, Output, boolean
from uncork.types import DYNAMIC, Array, Dimension, PartialShape, TensorSpec


def positive_scalar(operation: Operation, name: str, spec: TensorSpec) -> int | None:
    value = scalar(operation, name, spec)
    operation.require(
        value is None or value > 0, "input '{}': expected a positive number, got {}", name, value
    )
    return value


def check_window(operation: Operation, window: TensorSpec, frame_size: int | None) -> None:
    require_rank(operation, "window", window, 1)
    length = DYNAMIC if window.rank is None else window.shape[0]
    operation.require(
        length.covers(1) and (frame_size is None or Dimension.of(frame_size).covers(length)),
        "input 'window': expected 1 to {} numbers for frames of {}, got {}",
        frame_size,
        frame_size,
        length,
    )


def in_frame(window: Array, frame_size: int) -> Array:
    """The window in the middle of a frame, with zeros around it."""
    before = (frame_size - len(window)) // 2
    return np.pad(window, (before, frame_size - len(window) - before))


@register("STFT", 15)
class STFT15(Operation):
    """`signal [(batch,) length]`, `window` to `[(batch,) frames, frequencies, 2]`, or with
    transpose_frames frequencies first.
    """

    signal = Input(REAL, "T")
    window = Input(REAL, "T")
    frame_size = Input(I32_I64)
    frame_step = Input(I32_I64)
    output = Output("T")
    transpose_frames = Attribute(boolean)

    def infer(
        self, signal: TensorSpec, window: TensorSpec, frame_size: TensorSpec, frame_step: TensorSpec
    ) -> PartialShape:
        size, step = (
            positive_scalar(self, "frame_size", frame_size),
            positive_scalar(self, "frame_step", frame_step),
        )
        check_window(self, window, size)
        require_rank(self, "signal", signal, 1, 2)
        if signal.rank is None:
            return PartialShape()
        length = signal.shape[-1]
        frames = frequencies = DYNAMIC
        if size is not None:
            self.require(
                length.covers(size),
                "input 'frame_size': {} is longer than the signal {}",
                size,
                signal.shape,
            )
            frequencies = Dimension.of(size // 2 + 1)
            frames = DYNAMIC if step is None else (length - size) // step + 1
        layout = [frequencies, frames] if self.transpose_frames else [frames, frequencies]
        return PartialShape([*signal.shape[:-1], *layout, Dimension(2, 2)])

    def reference(
        self, signal: Array, window: Array, frame_size: Array, frame_step: Array
    ) -> Array:
        size, step = frame_size.item(), frame_step.item()
        pieces = np.lib.stride_tricks.sliding_window_view(signal, size, axis=-1)[..., ::step, :]
        spectra = np.fft.rfft(pieces * in_frame(window, size), axis=-1)
        if self.transpose_frames:
            spectra = np.swapaxes(spectra, -1, -2)
        return np.stack([spectra.real, spectra.imag], axis=-1)


@register("ISTFT", 16)
class ISTFT16(OfReals):
    """`data [(batch,) frequencies, frames, 2]`, `window` to `[(batch,) signal_length]`."""

    window = Input(REAL, "T")
    frame_size = Input(I32_I64)
    frame_step = Input(I32_I64)
    signal_length = Input(I32_I64, optional=True)
    center = Attribute(boolean)
    normalized = Attribute(boolean)

    def infer(
        self,
        data: TensorSpec,
        window: TensorSpec,
        frame_size: TensorSpec,
        frame_step: TensorSpec,
        signal_length: TensorSpec | None,
    ) -> PartialShape:
        size, step = (
            positive_scalar(self, "frame_size", frame_size),
            positive_scalar(self, "frame_step", frame_step),
        )
        check_window(self, window, size)
        wanted = None if signal_length is None else scalar(self, "signal_length", signal_length)
        self.require(
            wanted is None or wanted >= 0,
            "input 'signal_length': expected a length, got {}",
            wanted,
        )
        require_rank(self, "data", data, 3, 4)
        if data.rank is None:
            return PartialShape()
        frequencies, frames, pair = data.shape[-3:]
        self.require(
            pair.agrees(2),
            "input 'data': expected pairs in a last dimension of 2, got shape {}",
            data.shape,
        )
        self.require(
            frames.covers(1), "input 'data': expected at least one frame, got shape {}", data.shape
        )
        self.require(
            size is None or frequencies.agrees(size // 2 + 1),
            "input 'data': expected {} frequencies for frames of {}, got {}",
            None if size is None else size // 2 + 1,
            size,
            frequencies,
        )
        length = (
            DYNAMIC
            if signal_length is None
            else Dimension.of(size_of(self, "signal_length", signal_length))
        )
        if signal_length is None and size is not None and step is not None:
            length = (frames - 1) * step + self.beside(size)
        return PartialShape([*data.shape[:-3], length])

    def beside(self, size: int) -> int:
        """The length of the signal less one step for each frame but the first."""
        return size - 2 * (size // 2) if self.center else size

    def reference(
        self,
        data: Array,
        window: Array,
        frame_size: Array,
        frame_step: Array,
        signal_length: Array | None,
    ) -> Array:
        size, step = frame_size.item(), frame_step.item()
        lead, frames = data.shape[:-3], data.shape[-2]
        pieces = np.fft.irfft(complex_of(data), size, axis=-2)  # [.., size, frames]
        reached = (frames - 1) * step + size
        check_array_fits((*lead, reached), data)
        framed = in_frame(window, size)
        total, weight = np.zeros((*lead, reached), data.dtype), np.zeros(reached, data.dtype)
        for t in range(frames):
            here = slice(t * step, t * step + size)
            total[..., here] += pieces[..., t] * framed
            weight[here] += framed**2
        signal = np.where(weight == 0, 0, total / np.where(weight == 0, 1, weight))
        if self.normalized:
            signal = signal * data.dtype.type(math.sqrt(size))
        first = size // 2 if self.center else 0
        length = (
            (frames - 1) * step + self.beside(size)
            if signal_length is None
            else signal_length.item()
        )
        output = np.zeros((*lead, length), data.dtype)
        kept = signal[..., first : first + length]
        output[..., : kept.shape[-1]] = kept
        return output
