"""Fourier transforms of torch, while a module is followed: real and imaginary parts go through
functions that `torch_symbols` writes as nodes of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from uncork.errors import UnsupportedError


class _Frames(Struct):
    """The first arguments of `torch.stft` and `torch.istft`, behind the data."""

    n_fft: int
    hop_length: Any = None
    win_length: Any = None
    window: Any = None
    center: bool = True

    @property
    def step(self) -> Any:
        """From one frame to the next."""
        return self.n_fft // 4 if self.hop_length is None else self.hop_length

    def whole_window(self, torch: Any, like: Any) -> Any:
        """A window of as many numbers as a frame has."""
        size = self.n_fft if self.win_length is None else self.win_length
        window = torch.ones(size, dtype=like.dtype) if self.window is None else self.window
        rest = self.n_fft - size
        return torch.nn.functional.pad(window, (rest // 2, rest - rest // 2)) if rest else window


class _Stft(_Frames):
    pad_mode: str = "reflect"
    normalized: bool = False
    onesided: Any = None
    return_complex: Any = None
    align_to_window: Any = None


class _Istft(_Frames):
    normalized: bool = False
    onesided: Any = None
    length: Any = None
    return_complex: bool = False


class Fourier:
    """Each method `c_name` is a function of torch, of tensors or of pairs of them."""

    torch: Any
    c_complex: Callable[..., Any]
    c_view_as_complex: Callable[..., Any]

    def _is_real(self, a: Any) -> bool:
        return isinstance(a, self.torch.Tensor)

    def _joined(self, a: Any) -> Any:
        parts = (a, self.torch.zeros_like(a)) if self._is_real(a) else (a.real, a.imag)
        return self.torch.view_as_complex(self.torch.stack(parts, -1))

    def _apart(self, a: Any) -> Any:
        return self.c_view_as_complex(self.torch.view_as_real(a))

    def c_fftn(self, a: Any, s: Any = None, dim: Any = None, norm: Any = None) -> Any:
        return self._apart(self.torch.fft.fftn(self._joined(a), s, self._axes(a, s, dim), norm))

    def c_ifftn(self, a: Any, s: Any = None, dim: Any = None, norm: Any = None) -> Any:
        return self._apart(self.torch.fft.ifftn(self._joined(a), s, self._axes(a, s, dim), norm))

    def c_rfftn(self, a: Any, s: Any = None, dim: Any = None, norm: Any = None) -> Any:
        return self._apart(self.torch.fft.rfftn(a, s, self._axes(a, s, dim), norm))

    def c_irfftn(self, a: Any, s: Any = None, dim: Any = None, norm: Any = None) -> Any:
        return self.torch.fft.irfftn(self._joined(a), s, self._axes(a, s, dim), norm)

    def _axes(self, a: Any, s: Any, dim: Any) -> Any:
        rank = a.dim()
        if dim is None:
            dim = range(rank - (rank if s is None else len(s)), rank)
        return tuple(axis % rank for axis in ((dim,) if isinstance(dim, int) else dim))

    def c_fftshift(self, a: Any, dim: Any = None) -> Any:
        return self._turned(a, dim, lambda count: count - count // 2)

    def c_ifftshift(self, a: Any, dim: Any = None) -> Any:
        return self._turned(a, dim, lambda count: count // 2)

    def _turned(self, a: Any, dim: Any, first: Callable[[Any], Any]) -> Any:
        """Along each axis what comes from one place on, then what is before it."""
        if not self._is_real(a):
            parts = (self._turned(part, dim, first) for part in (a.real, a.imag))
            return self.c_complex(*parts)
        for axis in self._axes(a, None, dim):
            before = (slice(None),) * axis
            place = first(a.shape[axis])
            halves = (*before, slice(place, None)), (*before, slice(place))
            a = self.torch.cat([a[half] for half in halves], axis)
        return a

    def c_stft(self, input: Any, *settings: Any, **options: Any) -> Any:
        torch, asked = self.torch, _Stft(*settings, **options)
        if asked.onesided is False or not self._is_real(input):
            raise UnsupportedError("stft of complex signals, or of both sides", "from_torch")
        data = input if input.dim() == 2 else input.unsqueeze(0)
        n_fft = asked.n_fft
        if asked.center:
            around = (n_fft // 2, n_fft // 2)
            data = torch.nn.functional.pad(data.unsqueeze(1), around, asked.pad_mode).squeeze(1)
        window = asked.whole_window(torch, data)
        whole = {"center": False, "normalized": False, "onesided": True, "return_complex": True}
        made = torch._VF.stft(data, n_fft, asked.step, n_fft, window, **whole)
        made = torch.view_as_real(made)
        if asked.normalized:
            made = made * n_fft**-0.5
        made = made if input.dim() == 2 else made.squeeze(0)
        return self.c_view_as_complex(made) if asked.return_complex else made

    def c_istft(self, input: Any, *settings: Any, **options: Any) -> Any:
        asked = _Istft(*settings, **options)
        if asked.onesided is False or asked.return_complex:
            raise UnsupportedError("istft of complex signals, or of both sides", "from_torch")
        window = asked.whole_window(self.torch, input.real)
        frames = (asked.n_fft, asked.step, asked.n_fft, window, asked.center, asked.normalized)
        return self.torch._VF.istft(self._joined(input), *frames, True, asked.length, False)


def _of_one(name: str) -> Callable[..., Any]:
    def made(self: Fourier, a: Any, n: Any = None, dim: int = -1, norm: Any = None) -> Any:
        return getattr(self, f"c_{name}n")(a, None if n is None else (n,), (dim,), norm)

    return made


def _of_two(name: str) -> Callable[..., Any]:
    def made(
        self: Fourier, a: Any, s: Any = None, dim: Sequence[int] = (-2, -1), norm: Any = None
    ) -> Any:
        return getattr(self, f"c_{name}n")(a, s, dim, norm)

    return made


for _name in ("fft", "ifft", "rfft", "irfft"):
    setattr(Fourier, f"c_{_name}", _of_one(_name))
    setattr(Fourier, f"c_{_name}2", _of_two(_name))
