"""DFT-7, IDFT-7, RDFT-9, IRDFT-9: discrete Fourier transforms along some axes.

    DFT     Y[m] = sum over j of X[j] * exp(-2 pi i * sum over q of m_q * j_q / S_q)
            IDFT has + and divides by all S_q

Complex numbers are pairs in a last dimension of 2. S are the sizes of the axes, or `signal_size`
where that is not -1: an axis is cut or filled up with zeros at its end before it is transformed.
RDFT takes real numbers and keeps the first S // 2 + 1 results along the last of `axes`, from which
the others follow. IRDFT is its inverse: it fills the last of `axes` up to S, which is 2 * (M - 1)
of its M numbers by default, with the conjugates of the first S // 2 + 1, and gives real numbers.

Pages: operation-specs/signals/dft-7, idft-7, rdft-9, irdft-9. Axes are counted without the
dimension of 2. Decided:

- IRDFT with a signal_size uses the first S // 2 + 1 numbers, as torch, NumPy and OpenVINO do; the
  page's text would fill up to 2 * (M - 1) first and cut then, which has no real result;
- DFT and IDFT without axes give back the data, RDFT and IRDFT are refused;
- a signal_size of 0 is refused; an axis without cells that keeps its size gives an empty result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np

# NumPy imports it when it is first asked for: here, and not in the middle of a call
import numpy.fft

from uncork.ops._common.pairs import complex_of
from uncork.ops._common.vectors import known_axes, vector
from uncork.ops._operation import OfReals, register
from uncork.ops._ports import I32_I64, Input
from uncork.ops._size_arithmetic import certainly_at_least
from uncork.symbolic import Size
from uncork.types import DYNAMIC, Array, Dimension, PartialShape, TensorSpec


class _Fourier(OfReals):
    """The base of the transforms: `data`, `axes`, and optionally the `signal_size` of each axis."""

    axes = Input(I32_I64)
    signal_size = Input(I32_I64, optional=True)
    #: The data's last dimension holds pairs, and is no axis.
    from_complex = True
    to_complex = True
    #: The transform of an array to given sizes along some axes.
    transform: ClassVar[Callable[..., Array]]

    def infer(
        self, data: TensorSpec, axes: TensorSpec, signal_size: TensorSpec | None
    ) -> PartialShape:
        numbers = vector(self, "axes", axes)
        sizes = None if signal_size is None else vector(self, "signal_size", signal_size)
        for i, n in enumerate(sizes or ()):
            self.require(
                n is None or n > 0 or n == -1,
                "input 'signal_size': signal_size[{}] is {}, expected a size or -1",
                i,
                n,
            )
        if signal_size is not None and numbers is not None and sizes is not None:
            self.require(
                len(sizes) == len(numbers),
                "input 'signal_size': expected a size for each of axes {}, got {}",
                numbers,
                sizes,
            )
        self.require(
            (self.from_complex and self.to_complex) or numbers is None or len(numbers) > 0,
            "input 'axes': expected at least one axis",
        )
        if data.rank is None:
            return PartialShape()
        results = list(data.shape)
        if self.from_complex:
            self.require(
                len(results) >= 1 and results[-1].agrees(2),
                "input 'data': expected pairs in a last dimension of 2, got shape {}",
                data.shape,
            )
            results = results[:-1]
        places = known_axes(self, numbers, len(results))
        if places is None or None in places:
            results = [DYNAMIC] * len(results)
        for i, axis in enumerate(a for a in places or () if a is not None):
            if None not in (places or ()):
                wanted = -1 if signal_size is None else None if sizes is None else sizes[i]
                element = signal_size.elements[i] if signal_size and signal_size.elements else None
                expressed = (
                    Dimension.of(element)
                    if isinstance(element, Size) and certainly_at_least(element, 0)
                    else DYNAMIC
                )
                last = i == len(places or ()) - 1
                results[axis] = self._size(results[axis], wanted, last, expressed)
        return PartialShape(results + ([Dimension(2, 2)] if self.to_complex else []))

    def _size(
        self, size: Dimension, wanted: int | None, last: bool, expressed: Dimension
    ) -> Dimension:
        """The output's size along an axis. A signal_size `wanted` of -1 keeps it; where that is
        None, not known as a number, the size is `expressed`.
        """
        given = expressed if wanted is None else size if wanted == -1 else Dimension.of(wanted)
        if last and not self.to_complex:
            return (size - 1) * 2 if wanted == -1 else given
        return given // 2 + 1 if last and not self.from_complex else given

    def sizes(self, data: Array, axes: list[int], signal_size: Array | None) -> list[int]:
        """The length of the transform along each axis, S in the formula of the module."""
        given = [-1] * len(axes) if signal_size is None else signal_size.tolist()
        full = [data.shape[axis] for axis in axes]
        if not self.to_complex and full:
            full[-1] = 2 * (full[-1] - 1)
        return [size if wanted == -1 else wanted for size, wanted in zip(full, given, strict=True)]

    def reference(self, data: Array, axes: Array, signal_size: Array | None) -> Array:
        values = complex_of(data) if self.from_complex else data
        places = [a % values.ndim for a in axes.tolist()]
        sizes = self.sizes(values, places, signal_size)
        results = list(values.shape)
        for axis, size in zip(places, sizes, strict=True):
            results[axis] = size
        if not places:
            return data
        # Nothing is filled up with zeros, of which the transform is 0; NumPy would read on.
        if values.size == 0 or min(results, default=1) <= 0:
            if not self.from_complex:
                results[places[-1]] = sizes[-1] // 2 + 1
            return np.zeros(
                [max(0, n) for n in results] + ([2] if self.to_complex else []), data.dtype
            )
        transformed = self.transform(values, sizes, places)
        return (
            np.stack([transformed.real, transformed.imag], axis=-1)
            if self.to_complex
            else transformed
        )


@register("DFT", 7)
class DFT7(_Fourier):
    """`data [.., 2]` to its transform `[.., 2]`."""

    transform = staticmethod(np.fft.fftn)


@register("IDFT", 7)
class IDFT7(_Fourier):
    """`data [.., 2]` to its inverse transform `[.., 2]`."""

    transform = staticmethod(np.fft.ifftn)


@register("RDFT", 9)
class RDFT9(_Fourier):
    """Real `data [..]` to the first half of its transform `[.., 2]`."""

    from_complex = False

    transform = staticmethod(np.fft.rfftn)


@register("IRDFT", 9)
class IRDFT9(_Fourier):
    """The first half of a transform, `data [.., 2]`, to real numbers `[..]`."""

    to_complex = False

    transform = staticmethod(np.fft.irfftn)
