"""Functions of torch that its exporter refuses or writes wrong, in modules of which all sizes are
open: held against torch at another size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest

import uncork
from tests.onnx.test_from_torch import agree

torch = pytest.importorskip("torch")
pytest.importorskip("onnx")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

pytestmark = pytest.mark.oracle


class Computed(nn.Module):
    """What a function gives, and how large that is."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Any) -> Any:
        made = self.function(x)
        return made, torch.zeros(tuple(made.shape))


def held(function: Callable[[Any], Any], *shapes: Sequence[int], open_axes: Sequence[int]) -> None:
    torch.manual_seed(3)
    calls = [(torch.randn(*shape),) for shape in shapes]
    agree(Computed(function), *calls, dynamic={"x": list(open_axes)}, tolerance=1e-5)


SEQUENCES = {
    "unflatten the last axis": lambda x: x.unflatten(-1, (2, 4)),
    "unflatten by a size": lambda x: x.unflatten(1, (2, x.shape[1] // 2)),
    "unflatten by what is left": lambda x: x.unflatten(2, (-1, 2)),
    "mT": lambda x: x @ x.mT,
    "movedim": lambda x: torch.movedim(x, -1, 1),
    "movedim of several": lambda x: x.moveaxis((0, -1), (-1, 0)),
    "rot90": lambda x: x.rot90(1, (1, 2)),
    "rot90 twice": lambda x: torch.rot90(x, 2),
    "roll by more than there is": lambda x: x.roll(3, 0),
    "roll back": lambda x: torch.roll(x, -9, -2),
    "roll of several axes": lambda x: x.roll((5, -1, 2), (0, 1, 2)),
    "roll of all": lambda x: x.roll(7),
    "logcumsumexp": lambda x: x.logcumsumexp(1),
    "trapezoid": lambda x: torch.trapezoid(x, dx=0.5, dim=1),
    "trapezoid of places": lambda x: torch.trapz(x, x[0, 0].cumsum(-1)),
    "trapezoid of many places": lambda x: torch.trapezoid(x, x * x, dim=-2),
    "cov": lambda x: torch.cov(x.flatten(0, 1)),
    "cov of one": lambda x: x[0, 0].cov(correction=0).reshape(1),
    "solve": lambda x: torch.linalg.solve(x @ x.mT + 9 * torch.eye(x.shape[1]), x),
    "solve from the right": lambda x: torch.linalg.solve(
        x.mT @ x + 9 * torch.eye(8), x, left=False
    ),
    "solve a vector": lambda x: torch.linalg.solve(x.mT @ x + 9 * torch.eye(8), x[:, 0]),
    "solve one vector": lambda x: torch.linalg.solve(x[0].mT @ x[0] + 9 * torch.eye(8), x[0, 0]),
    "cholesky": lambda x: torch.linalg.cholesky(x.mT @ x + torch.eye(8)),
    "cholesky, the upper one": lambda x: torch.linalg.cholesky(x.mT @ x + torch.eye(8), upper=True),
    "cholesky of one number": lambda x: torch.linalg.cholesky(x[..., :1, :1].abs()),
    "slogdet": lambda x: torch.cat(torch.linalg.slogdet(x.mT @ x - torch.eye(8))),
    "slogdet of one number": lambda x: torch.slogdet(x[..., :1, :1])[0],
    "slogdet of singular ones": lambda x: torch.stack(
        torch.slogdet((x.mT @ x)[:, :6, :6] * torch.arange(6.0))
    ),
    "logdet": lambda x: torch.logdet(x[:, :5, :5]),
    "det of many rows": lambda x: torch.linalg.det(x.mT @ x - torch.eye(8)),
    "det of few rows": lambda x: torch.det(x.mT[:, :3] @ x[..., :3]),
    "cummax": lambda x: torch.cummax(x.round(), 1)[0],
    "cummax, where": lambda x: torch.cummax(x.round(), 1)[1],
    "cummin of whole numbers, where": lambda x: (x * 3).int().cummin(-1).indices,
    "cummin of whole numbers": lambda x: (x * 3).long().cummin(-1).values,
    "cummax behind NaN": lambda x: torch.cummax(torch.where(x > 1.5, float("nan"), x), 2)[0],
    "cummax behind NaN, where": lambda x: torch.cummax(torch.where(x > 1.5, float("nan"), x), 2)[1],
    "lgamma": lambda x: torch.lgamma(x * 30),
    "lgamma of small and whole numbers": lambda x: torch.lgamma(torch.cat([x, x.round()])),
    "lgamma of large numbers": lambda x: torch.lgamma(torch.exp(x * 30) / x.round()),
    "erfinv": lambda x: torch.erfinv(x.tanh()),
    "erfinv beyond 1": lambda x: x.round().erfinv(),
    "rms_norm": lambda x: F.rms_norm(x, (8,)),
    "rms_norm of several axes": lambda x: F.rms_norm(
        x.unflatten(2, (2, 4)), (2, 4), torch.arange(8.0).reshape(2, 4), 0.5
    ),
    "bilinear": lambda x: F.bilinear(
        x, x.flip(1)[..., :3], torch.linspace(-1, 1, 120).reshape(5, 8, 3), torch.arange(5.0)
    ),
    "rot90 back": lambda x: x.rot90(-1, (0, 2)),
    "hsplit": lambda x: torch.hsplit(x.transpose(1, 2), 2)[1],
    "dsplit": lambda x: torch.dsplit(x, [3])[1],
    "splits by name": lambda x: torch.tensor_split(x, indices=(1, 4), dim=1)[1],
    "parts by name": lambda x: x.tensor_split(sections=2, dim=1)[1],
    "vsplit by name": lambda x: x.vsplit(indices=(1,))[1],
    "diag_embed": lambda x: torch.diag_embed(x),
    "diag_embed above": lambda x: torch.diag_embed(x, 1),
    "diag_embed below, elsewhere": lambda x: torch.diag_embed(x, -2, 0, 2),
    "gather by fewer indices": lambda x: x.gather(2, x.argsort(-1)[:, 2:, :1]),
    "kron": lambda x: torch.kron(x, x[0, :2, :3] + 1),
    "kron of a larger one": lambda x: torch.kron(x[0, :2, :3], x),
    "inverse": lambda x: torch.inverse(x @ x.mT + torch.eye(x.shape[1])),
    "and of bits": lambda x: (x * 100).long() & (x * 70).int().roll(1, 1),
    "or of bits and a number": lambda x: (x * 100).int() | 5,
    "xor of truths and numbers": lambda x: torch.bitwise_xor(x > 0, (x * 9).long()),
    "not of bits": lambda x: ~(x * 100).short(),
    "bits in place": lambda x: (x * 100).long().bitwise_and_(6),
    "and of truths": lambda x: (x > 0) & (x < 1) | ~(x > -1),
    "take_along_dim": lambda x: torch.take_along_dim(x, x.argsort(1)[:, :2], 1),
    "take_along_dim, broadcast": lambda x: x.take_along_dim(x[:1].argsort(1)[:, :2], 1),
    "repeat_interleave by each": lambda x: x.repeat_interleave(x[0].argmax(-1), 1),
    "repeat_interleave of numbers": lambda x: torch.repeat_interleave(x[0].argmax(-1)),
    "repeat_interleave, flat": lambda x: x.repeat_interleave(x.flatten().long().abs()),
    "tril_indices": lambda x: torch.tril_indices(x.shape[1], x.shape[1], -1),
    "triu_indices": lambda x: torch.triu_indices(x.shape[1], 4, 1),
    "isin": lambda x: torch.isin(x.argmax(-1), torch.tensor([1, 2])),
    "isin, inverted": lambda x: torch.isin(x.argmax(-1), x[0].argmax(-1), invert=True),
    "cumprod": lambda x: x.cumprod(1),
    "cumprod of truths": lambda x: (x > -1).cumprod(-1),
    "cumprod in another type": lambda x: torch.cumprod(x, 2, dtype=torch.float64),
    "cumprod of whole numbers": lambda x: x.argmax(-1).cumprod(0),
    "argsort of what is alike": lambda x: (x > 0).int().argsort(dim=1, stable=True),
    "sort of what is alike": lambda x: torch.sort(
        (x > 0).int(), dim=1, descending=True, stable=True
    )[1],
    "median": lambda x: x.median(1).values,
    "median with NaN": lambda x: torch.log(x).median(1)[0],
    "median's place": lambda x: x.median(1).indices,
    "median of all": lambda x: x.median(),
    "kthvalue": lambda x: x.kthvalue(3, 2, True).values,
    "quantile": lambda x: x.quantile(0.3, 1),
    "quantile with NaN": lambda x: torch.log(x).quantile(0.4, 1),
    "quantile of all": lambda x: torch.quantile(x, 0.25),
    "quantiles": lambda x: torch.quantile(x, torch.tensor([0.1, 0.6]), dim=1, keepdim=True),
    "quantile, nearest": lambda x: x.quantile(0.33, 2, interpolation="nearest"),
    "renorm": lambda x: x.renorm(2, 0, 1.0),
    "bincount": lambda x: torch.bincount(x.argmax(-1).flatten(), minlength=3),
    "bincount with weights": lambda x: torch.bincount(x.argmax(-1)[0], x[0, :, 0]),
    "histc": lambda x: torch.histc(x, 5, -1, 1),
    "histc of its own range": lambda x: torch.histc(x, 7),
    "searchsorted": lambda x: torch.searchsorted(
        x.mT.sort(-1).values.contiguous(), x[:, :2].mT.contiguous()
    ),
    "searchsorted, right": lambda x: torch.searchsorted(
        torch.tensor([-1.0, 0.0, 0.5]), x, right=True, out_int32=True
    ),
    "affine_grid": lambda x: F.affine_grid(
        x[:, :2, :3], [x.shape[0], 1, x.shape[1], 3], align_corners=False
    ),
    "affine_grid of one row": lambda x: F.affine_grid(
        x[:, :2, :3], [x.shape[0], 1, 1, x.shape[1]], align_corners=True
    ),
    "affine_grid with a depth": lambda x: F.affine_grid(
        x[:, :3, :4], [x.shape[0], 1, 2, x.shape[1], 3], align_corners=True
    ),
    "adaptive_max_pool1d": lambda x: F.adaptive_max_pool1d(x.mT, 3),
}


@pytest.mark.filterwarnings("ignore:Since version 1.3.0, affine_grid:UserWarning")
@pytest.mark.parametrize("name", SEQUENCES)
def test_sequences(name: str) -> None:
    held(SEQUENCES[name], (2, 6, 8), (3, 10, 8), open_axes=[0, 1])


def _overlapping(x: Any) -> Any:
    """Windows of 4 rows, of which two are those of the next one, as Longformer takes them."""
    steps = list(x.stride())
    sizes = (x.shape[0], x.shape[1] // 2 - 1, 4, x.shape[2])
    return x.as_strided(sizes, (steps[0], 2 * steps[1], steps[1], steps[2]))


STRIDED = {
    "as they are": lambda x: _overlapping(x),
    "turned": lambda x: _overlapping(x.transpose(1, 2)),
    "heads beside each other": lambda x: _overlapping(
        x.unflatten(2, (2, -1)).transpose(1, 2).reshape(x.shape[0] * 2, x.shape[1], -1)
    ),
    "from a place on": lambda x: torch.as_strided(x, (2, 3), (5, 1), 4),
    "a stride as a number": lambda x: x * x.stride(0),
}


@pytest.mark.parametrize("sizes", [(1, 6, 8), (2, 6, 8)])
@pytest.mark.parametrize("name", STRIDED)
def test_elements_by_where_they_lie(name: str, sizes: tuple[int, ...]) -> None:
    """With a batch of one, heads that lie beside each other become rows without being moved."""
    held(STRIDED[name], sizes, (3, 10, 8), open_axes=[0, 1])


def test_what_lies_between_the_elements_of_a_part_is_refused() -> None:
    module = Computed(lambda x: x[:, :4].as_strided((2, 3), (8, 1)))
    with pytest.raises(uncork.UnsupportedError, match="as_strided of a part of a tensor"):
        uncork.from_torch(module, torch.randn(2, 8))


COUNTED = {
    "from 0": lambda n: torch.arange(n, dtype=torch.float32),
    "down to below 0": lambda n: torch.arange(n - 1, -n, -1, dtype=torch.float32),
    "every second one": lambda n: torch.arange(start=1, end=2 * n, step=2, dtype=torch.float64),
    "of f16": lambda n: torch.arange(2, n + 2, dtype=torch.float16),
    "of whole numbers": lambda n: torch.arange(n, dtype=torch.int32),
    "as the default": lambda n: torch.arange(1, n),
    "in steps of fractions": lambda n: torch.arange(0, n, 0.5, dtype=torch.float32),
}


@pytest.mark.parametrize("name", COUNTED)
def test_places_that_are_counted_as_floats(name: str) -> None:
    """Their number is known before the call, so that they are no step of their own."""
    held(lambda x: COUNTED[name](x.shape[1]), (2, 6, 8), (2, 10, 8), open_axes=[1])
    if name != "in steps of fractions":
        module = Computed(lambda x: COUNTED[name](x.shape[1]) * 1)
        model = uncork.from_torch(module, torch.randn(2, 6), dynamic=True)
        assert "Range" in [n.operation.type_name for n in model.nodes if n.operation]
        for node in model.nodes:
            if node.operation is not None and node.operation.type_name == "Range":
                assert node.outputs[0].spec.element_type.is_integer


PICTURES = {
    "unflatten twice": lambda x: x.unflatten(2, (-1, 4)).unflatten(4, (-1, 4)),
    "channel_shuffle": lambda x: F.channel_shuffle(x, 2),
    "adaptive_avg_pool2d": lambda x: F.adaptive_avg_pool2d(x, (3, 2)),
    "adaptive_avg_pool2d by sizes": lambda x: F.adaptive_avg_pool2d(x, (x.shape[2] // 2, 3)),
    "adaptive_avg_pool2d, one axis": lambda x: F.adaptive_avg_pool2d(x, (None, 1)),
    "adaptive_avg_pool1d": lambda x: F.adaptive_avg_pool1d(x.flatten(2), 5),
    "adaptive_avg_pool3d": lambda x: F.adaptive_avg_pool3d(x[:, None], (2, 2, 3)),
    "adaptive_max_pool2d": lambda x: F.adaptive_max_pool2d(x, (3, 2)),
    "adaptive_max_pool2d's places": lambda x: F.adaptive_max_pool2d(x, 2, return_indices=True)[1],
    "fold": lambda x: F.fold(F.unfold(x, 3, padding=1), x.shape[2:], 3, padding=1),
    "smooth, to a size": lambda x: F.interpolate(x, size=(5, 7), mode="bilinear", antialias=True),
    "smooth, to a size of the call": lambda x: F.interpolate(
        x, size=(x.shape[2] // 2, x.shape[3] - 1), mode="bicubic", antialias=True
    ),
    "smooth, by scales": lambda x: F.interpolate(
        x, scale_factor=(0.4, 0.3), mode="bilinear", antialias=True
    ),
    "smooth and larger": lambda x: F.interpolate(
        x, scale_factor=1.7, mode="bicubic", antialias=True
    ),
}


@pytest.mark.parametrize("name", PICTURES)
def test_pictures(name: str) -> None:
    held(PICTURES[name], (2, 4, 8, 12), (3, 4, 12, 16), open_axes=[0, 2, 3])


class Solved(nn.Module):
    def __init__(self, **options: bool) -> None:
        super().__init__()
        self.options = options

    def forward(self, matrices: Any, right: Any) -> Any:
        return torch.linalg.solve_triangular(matrices, right, **self.options)


@pytest.mark.parametrize("size", [1, 5, 8])
@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("left", [False, True])
def test_triangular_systems(size: int, upper: bool, unit: bool, left: bool) -> None:
    """Of any number; what is beyond the triangle is not read."""
    calls = [
        (
            torch.randn(*batch, size, size) * 0.3 + 2 * torch.eye(size),
            torch.randn(*batch, *((size, 3) if left else (3, size))),
        )
        for batch in ((2, 3), (4, 1))
    ]
    axes = {"matrices": [0, 1], "right": [0, 1]}
    options = {"upper": upper, "unitriangular": unit, "left": left}
    agree(Solved(**options), *calls, dynamic=axes, tolerance=1e-5)


class Experts(nn.Module):
    """Rows in the order of their experts, each of which has a matrix; one has none."""

    def forward(self, rows: Any, chosen: Any, matrices: Any) -> Any:
        order = chosen.argsort(stable=True)
        counts = torch.histc(chosen.float(), 4, 0, 3)
        made = F.grouped_mm(rows[order], matrices, offs=counts.cumsum(0, dtype=torch.int32))
        return counts, torch.zeros_like(made).index_copy(0, order, made)


@pytest.mark.skipif(not hasattr(F, "grouped_mm"), reason="of newer versions")
def test_rows_by_the_matrix_of_their_group() -> None:
    calls = [
        (torch.randn(rows, 8), torch.arange(rows) * 7 % 4 // 2 * 2 + 1, torch.randn(4, 8, 16))
        for rows in (5, 9)
    ]
    axes = {"rows": [0], "chosen": [0]}
    agree(Experts(), *calls, dynamic=axes, tolerance=1e-5)


class Attended(nn.Module):
    """Attention over the sequence itself, of which one product makes all three parts."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x: Any, blank: Any) -> Any:
        return self.attention(x, x, x, key_padding_mask=blank)


def test_attention_over_sequences_of_any_length() -> None:
    calls = [
        (torch.randn(rows, steps, 8), torch.arange(steps).expand(rows, steps) > steps - 2)
        for rows, steps in ((2, 5), (3, 7), (1, 4))
    ]
    agree(Attended(), *calls)


@pytest.mark.parametrize("factor", [1.3, 1.75, 0.6, 2])
@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "linear", "cubic"])
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_resizing_by_factors(axes: int, mode: str, factor: float) -> None:
    """Some axes keep their size: of 3 cells 1.3 times as many are 3."""
    if mode == "cubic" and axes != 2:
        pytest.skip("torch has cubic pictures only")
    name = {"linear": ["linear", "bilinear", "trilinear"][axes - 1], "cubic": "bicubic"}
    held(
        lambda x: F.interpolate(x, scale_factor=factor, mode=name.get(mode, mode)),
        (1, 2, *(3, 4, 5)[:axes]),
        (2, 2, *(2, 3, 7)[:axes]),
        open_axes=[0, *range(2, axes + 2)],
    )


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "bicubic"])
def test_resizing_of_fixed_sizes(mode: str) -> None:
    for sizes in ((1, 2, 3, 5), (1, 2, 7, 2)):
        held(lambda x: F.interpolate(x, scale_factor=1.3, mode=mode), sizes, open_axes=[])


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "bicubic"])
def test_resizing_to_a_size_of_the_call(mode: str) -> None:
    held(
        lambda x: F.interpolate(x, size=(x.shape[3] + 1, 5), mode=mode),
        (1, 2, 3, 5),
        (1, 2, 4, 7),
        open_axes=[2, 3],
    )


def test_running_logsumexp_of_a_long_axis() -> None:
    """Of blocks, and blocks of blocks: the sizes are about theirs, and 300,000 numbers are not each
    beside each, which would be 360 GB.
    """
    model = uncork.compile_model(
        uncork.from_torch(
            Computed(lambda x: x.logcumsumexp(-1)), torch.randn(2, 40), dynamic={"x": [1]}
        )
    )
    for length in (0, 1, 31, 32, 33, 1024, 1025, 2100, 300_000):
        x = torch.randn(2, length) * 30
        x[0, 1:20] = -math.inf
        x[1, :3] = -math.inf
        x[0, 1500:1501] = math.inf
        x[1, 2000:2001] = math.nan
        made = torch.from_numpy(model(x.numpy())[0])
        torch.testing.assert_close(made, x.logcumsumexp(-1), equal_nan=True)
