"""Complex numbers and Fourier transforms of torch, in modules of which all sizes are open: held
against torch at another size.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import uncork
from tests.onnx.test_from_torch import agree

torch = pytest.importorskip("torch")
pytest.importorskip("onnx")

from torch import nn  # noqa: E402

pytestmark = pytest.mark.oracle
real, c64 = torch.view_as_real, torch.complex64


class Computed(nn.Module):
    """What a function gives; it has complex parameters and buffers of its own."""

    def __init__(self, function: Callable[[Any, Any], Any]) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.function = function
        self.weight = nn.Parameter(torch.randn(3, 4, 2, 2, dtype=torch.cfloat))
        self.rates = nn.Parameter(torch.complex(-torch.rand(4, 3), torch.randn(4, 3)))
        self.register_buffer("turns", torch.polar(torch.ones(16, 4), torch.rand(16, 4)))
        self.register_buffer("window", torch.hann_window(16))

    def forward(self, x: Any) -> Any:
        return self.function(self, x)


def transformed(m: Any, x: Any) -> Any:
    return torch.stft(x, 16, 4, window=m.window, return_complex=True)


def spectral(m: Any, x: Any) -> Any:
    """The layer of Fourier neural operators."""
    spectrum = torch.fft.rfft2(x)
    made = torch.zeros(x.shape[0], 4, x.shape[-2], x.shape[-1] // 2 + 1, dtype=torch.cfloat)
    made[:, :, :2, :2] = torch.einsum("bixy,ioxy->boxy", spectrum[:, :, :2, :2], m.weight)
    made[:, :, -2:, :2] = torch.einsum("bixy,ioxy->boxy", spectrum[:, :, -2:, :2], m.weight)
    return torch.fft.irfft2(made, s=(x.shape[-2], x.shape[-1]))


def turned(m: Any, x: Any) -> Any:
    """Positions as rotations of pairs."""
    pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
    return real(pairs * m.turns[: x.shape[1]]).flatten(2)


def rotations(m: Any, x: Any) -> Any:
    angles = torch.outer(torch.arange(x.shape[1]).float(), torch.arange(4).float())
    turns = torch.polar(torch.ones_like(angles), angles)
    return real(torch.view_as_complex(x.unflatten(-1, (-1, 2))) * turns).flatten(2).type_as(x)


def state_space(m: Any, x: Any) -> Any:
    steps = torch.exp(m.rates.unsqueeze(-1) * torch.arange(x.shape[-1]))
    return x + 2 * torch.einsum("hn,hnl->hl", (torch.exp(m.rates) - 1.0) / m.rates, steps).real


def convolved(m: Any, x: Any) -> Any:
    count = 2 * x.shape[-1]
    spectrum = torch.fft.rfft(x, n=count) * torch.fft.rfft(m.window, n=count)
    return torch.fft.irfft(spectrum, n=count)[..., : x.shape[-1]]


def magnitude_and_phase(m: Any, x: Any) -> Any:
    z = transformed(m, x)
    return torch.istft(torch.polar(z.abs() + 1, z.angle()), 16, 4, window=m.window)


def in_place(m: Any, x: Any) -> Any:
    z = torch.complex(x, -x)
    z *= 2 - 1j
    z.mul_(3j)
    z[:, 2:4] = 1j * x[:, :2]
    return real(z)


ROWS = {
    "fft": lambda m, x: torch.fft.fft(x).abs(),
    "ifft": lambda m, x: torch.fft.ifft(torch.fft.fft(x) * 2).real,
    "exponentials": lambda m, x: torch.exp(1j * x).real + torch.exp(-1j * x).imag,
    "quotients": lambda m, x: real((x + 1j) / (2 - 1j * x)),
    "differences": lambda m, x: real(1 - (x.cfloat() - 2j)),
    "powers": lambda m, x: (torch.complex(x, x) ** 3).imag,
    "joined": lambda m, x: real(torch.cat([torch.complex(x, x), torch.complex(x, -x).conj()], 1)),
    "joined with real ones": lambda m, x: real(torch.stack([torch.complex(x, x), x.to(c64)])),
    "mean": lambda m, x: torch.stack([torch.complex(x, x), torch.complex(x, -x)]).mean(0).abs(),
    "chosen": lambda m, x: torch.where(x > 0, torch.complex(x, x), torch.complex(x, -x)).imag,
    "turned around": lambda m, x: (torch.complex(x, 2 * x).T * 2).imag,
    "conjugates turned around": lambda m, x: real(torch.complex(x, 2 * x).mH.resolve_conj()),
    "in place": in_place,
    "convolution by spectra": convolved,
}
SIGNALS = {
    "stft": lambda m, x: transformed(m, x).abs(),
    "stft by a short window": lambda m, x: real(
        torch.stft(x, 16, 4, 10, torch.hann_window(10), normalized=True, return_complex=True)
    ),
    "stft of one signal": lambda m, x: transformed(m, x[0]).real,
    "istft": lambda m, x: torch.istft(transformed(m, x) * 0.5, 16, 4, window=m.window),
    "istft of a length": lambda m, x: torch.istft(
        transformed(m, x), 16, 4, window=m.window, length=x.shape[-1]
    ),
    "istft of a known length": lambda m, x: torch.istft(
        transformed(m, x), 16, 4, window=m.window, length=30
    ),
    "magnitude and phase": magnitude_and_phase,
}
PLANES = {
    "fft of two axes": lambda m, x: torch.fft.fft2(x, dim=(1, 2)).real,
    "fft twice": lambda m, x: torch.fft.fft(torch.fft.fft(x, dim=-1), dim=1).real,
    "orthogonal": lambda m, x: torch.fft.fftn(x, dim=(1, 2), norm="ortho").imag,
    "rfft along an axis": lambda m, x: real(torch.fft.rfft(x, dim=1)),
    "rfft of another length": lambda m, x: real(torch.fft.rfft(x, n=2 * x.shape[1], dim=1)),
    "rfft, divided": lambda m, x: real(torch.fft.rfft(x, dim=1, norm="forward")),
    "irfft, orthogonal": lambda m, x: torch.fft.irfft(
        torch.fft.rfft(x, dim=1, norm="ortho") * 2, dim=1, norm="ortho"
    ),
    "irfft, not divided": lambda m, x: torch.fft.irfft(
        torch.fft.rfft(x, dim=1), n=x.shape[1], dim=1, norm="forward"
    ),
    "fftshift": lambda m, x: torch.fft.fftshift(torch.fft.fft2(x), dim=(1, 2)).abs(),
    "ifftshift of real ones": lambda m, x: torch.fft.ifftshift(x),
    "rotations of a buffer": turned,
    "rotations": rotations,
}


def held(function: Any, *shapes: tuple[int, ...]) -> uncork.Model:
    torch.manual_seed(3)
    example, later = (torch.randn(*shape) for shape in shapes)
    module = Computed(function)
    return agree(module, (example,), (later,), tolerance=2e-5)


@pytest.mark.parametrize("name", ROWS)
def test_rows(name: str) -> None:
    held(ROWS[name], (2, 16), (3, 20))


@pytest.mark.parametrize("name", SIGNALS)
def test_signals(name: str) -> None:
    held(SIGNALS[name], (2, 63), (3, 97))


@pytest.mark.parametrize("name", PLANES)
def test_planes(name: str) -> None:
    held(PLANES[name], (2, 6, 8), (3, 10, 8))


def test_layers_of_networks() -> None:
    held(spectral, (2, 3, 8, 8), (3, 3, 12, 10))
    held(state_space, (2, 4, 8), (3, 4, 12))


def test_transforms_are_single_layers() -> None:
    """No loop and no matrix of sines is written for them."""
    model = held(lambda m, x: magnitude_and_phase(m, x), (2, 64), (1, 96))
    types = [n.operation.type_name for n in model.nodes if n.operation is not None]
    assert types.count("STFT") == types.count("ISTFT") == 1 and "Loop" not in types


def test_complex_results_are_refused() -> None:
    module = Computed(lambda m, x: torch.complex(x, x))
    with pytest.raises(uncork.UnsupportedError, match="is of complex numbers"):
        uncork.from_torch(module, (torch.randn(2, 3),))


def test_functions_without_a_rule_are_named() -> None:
    module = Computed(lambda m, x: torch.linalg.inv(torch.complex(x, x)).real)
    with pytest.raises(uncork.UnsupportedError, match="inv of complex numbers"):
        uncork.from_torch(module, (torch.randn(3, 3),))


def test_parts_that_are_changed_in_their_place_are_refused() -> None:
    def change(m: Any, x: Any) -> Any:
        z = torch.complex(x, x)
        z[:, :2].mul_(2j)
        return z.real

    with pytest.raises(uncork.UnsupportedError, match="changed in its place"):
        uncork.from_torch(Computed(change), (torch.randn(3, 3),))


def test_what_is_given_stays_as_it_was() -> None:
    x = torch.randn(2, 3)
    before = x.clone()
    uncork.from_torch(Computed(in_place), (torch.randn(2, 5),))
    uncork.from_torch(Computed(lambda m, x: torch.complex(x, x).mul_(2j).real), (x,))
    assert torch.equal(x, before)
