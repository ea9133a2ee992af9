"""Functions of torch that compute element by element and that its exporter refuses or writes wrong,
held against torch at another size: on numbers around 0 and 1, zeros of both signs, infinities, NaN
and whole numbers.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.onnx.test_from_torch import agree

torch = pytest.importorskip("torch")
pytest.importorskip("onnx")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import uncork  # noqa: E402

pytestmark = pytest.mark.oracle

SPECIAL = torch.tensor([0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 1e-4, float("inf"), -float("inf")])


class Computed(nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Any, y: Any) -> Any:
        return self.function(x, y)


def held(function: Any, *, nan: bool = True) -> None:
    """At two sizes, both with all pairs of special numbers."""
    torch.manual_seed(4)
    calls = []
    for rows in (11, 13):
        x, y = torch.randn(rows, 10), torch.randn(rows, 10)
        for i in range(9):
            x[i, :9], y[i, :9] = SPECIAL, SPECIAL[i]
        if nan:
            x[9, 0], y[9, 1] = float("nan"), float("nan")
        calls.append((x, y))
    agree(Computed(function), *calls, dynamic={"x": [0], "y": [0]}, tolerance=1e-6)


ONE = [
    "trunc", "fix", "frac", "positive", "sgn", "signbit", "deg2rad", "rad2deg", "exp2", "expm1",
    "cosh", "sinh", "acosh", "asinh", "atanh", "arccosh", "erfc", "sinc", "isneginf", "isposinf",
    "count_nonzero",
]  # fmt: skip


@pytest.mark.parametrize("name", ONE)
def test_of_one_number(name: str) -> None:
    held(lambda x, y: getattr(torch, name)(x))


TWO = ["atan2", "copysign", "fmax", "fmin", "hypot", "xlogy", "heaviside", "isclose"]


@pytest.mark.parametrize("name", TWO)
def test_of_two_numbers(name: str) -> None:
    held(lambda x, y: getattr(torch, name)(x, y))


#: Of finite numbers.
FUNCTIONS = {
    "floor_divide": lambda x, y: torch.floor_divide(x * 1.01, 0.25),
    "//": lambda x, y: (x * 1.01) // 0.25,
    "// of whole numbers": lambda x, y: (x * 9).long() // 4,
    "// by whole numbers": lambda x, y: 7 // ((x * 2).long() * 2 + 1),
    "a fraction // whole numbers": lambda x, y: -7.5 // ((x * 2).long() * 2 + 1),
    "// of sizes": lambda x, y: x[: x.shape[0] // 2],
    ">>": lambda x, y: (x * 9).long() >> 1,
    ">> by each": lambda x, y: (x * 9).long() >> y.argmax(-1, keepdim=True) % 4,
    "any": lambda x, y: (x[10:] * 0.01).any(),
    "any of an axis": lambda x, y: (x.clamp(-0.9, 0)).any(1, keepdim=True),
    "all": lambda x, y: torch.all(x * 0.01, dim=1),
    "all of all": lambda x, y: x[9:].all(),
    "full of a whole number": lambda x, y: torch.full((x.shape[0], 2), 3),
    "full of a truth": lambda x, y: torch.full((x.shape[0],), True),
    "full of a fraction": lambda x, y: torch.full((x.shape[0],), 0.5),
    "cdist": lambda x, y: torch.cdist(x, y),
    "cdist by 1": lambda x, y: torch.cdist(x, y, p=1),
    "cdist by the largest": lambda x, y: torch.cdist(x[None], y[None], p=float("inf")),
    "pairwise_distance by 1": lambda x, y: F.pairwise_distance(x, y, p=1.0),
    "softplus": lambda x, y: F.softplus(x * 9, 2.0, 1.0),
    "softplus as it is": lambda x, y: F.softplus(x * 9),
    "pool with a divisor": lambda x, y: F.avg_pool2d(x[None, None], 3, 2, 1, divisor_override=5),
    "pool": lambda x, y: F.avg_pool2d(x[None, None], 3, 2, 1, True, False),
    "pool with axes": lambda x, y: F.avg_pool3d(x[None, None, None], (1, 3, 2)),
    "atan2 of whole numbers": lambda x, y: x.argmax(-1).arctan2(-x.argmin(-1)),
    "float powers of 2": lambda x, y: torch.exp2((x * 3).long()),
    "addcdiv": lambda x, y: torch.addcdiv(x, y, x.abs() + 1, value=0.3),
    "logaddexp": lambda x, y: torch.logaddexp(x, y[:, :1]),
    "logaddexp2": lambda x, y: torch.logaddexp2(x, y),
    "threshold": lambda x, y: F.threshold(x, 0.2, -3),
    "nansum": lambda x, y: x.log().nansum(),
    "nansum of an axis": lambda x, y: torch.nansum(x.log(), 1, True),
    "nanmean": lambda x, y: torch.nanmean(x[9:].log(), 1),
    "count_nonzero of an axis": lambda x, y: torch.count_nonzero(x, 1),
    "trace": lambda x, y: x.trace(),
    "isclose, NaN too": lambda x, y: torch.isclose(x.log(), y.log(), 0.1, equal_nan=True),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str) -> None:
    held(lambda x, y: FUNCTIONS[name](x.clamp(-9, 9), y.clamp(-9, 9)), nan=False)


def test_a_divisor_with_windows_that_reach_out_is_refused() -> None:
    module = Computed(
        lambda x, y: F.avg_pool2d(x[None, None], 3, 2, 1, ceil_mode=True, divisor_override=2)
    )
    with pytest.raises(uncork.UnsupportedError, match="divisor_override is not supported"):
        uncork.from_torch(module, (torch.randn(4, 4), torch.randn(4, 4)))
