"""Numbers that a module reads while it is followed: `from_torch` warns where another call may have
others, at the line of the module, and nowhere else.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import uncork

torch = pytest.importorskip("torch")
pytest.importorskip("onnx")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402


class Reading(nn.Module):
    """`read` gives what it read, by which nothing is decided."""

    def __init__(self, read: Callable[[Any, Any], Any]) -> None:
        super().__init__()
        self.read = read
        self.weight = nn.Parameter(torch.ones(5))

    def forward(self, x: Any) -> Any:
        self.read(x, self.weight)
        return x * self.weight


def heard(read: Callable[[Any, Any], Any], axes: list[int]) -> list[warnings.WarningMessage]:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        uncork.from_torch(Reading(read), torch.ones(2, 5), dynamic={"x": axes})
    return seen


OF_SIZES = {
    "the count of a loop": lambda x, w: list(range(x.shape[0])),
    "half a size": lambda x, w: list(range(x.shape[0] // 2)),
    "a place of a list": lambda x, w: [0, 1, 2][x.size(0)],
    "a branch": lambda x, w: x.shape[0] > 1 or x.shape[0] > 7,
    "int": lambda x, w: int(x.shape[0]),
    "len": lambda x, w: len(x),
}
OF_VALUES = {
    "a sum": lambda x, w: float(x.sum()),
    "item": lambda x, w: x[0, 0].item(),
    "numbers": lambda x, w: x.long()[0].tolist(),
    "equal": lambda x, w: torch.equal(x, w),
    "how many there are": lambda x, w: int(x.nonzero().shape[0]),
}


@pytest.mark.parametrize("read", OF_SIZES.values(), ids=OF_SIZES)
def test_sizes_that_are_open(read: Callable[[Any, Any], Any]) -> None:
    (found,) = heard(read, [0])
    assert found.category is torch.jit.TracerWarning
    assert str(found.message).startswith("a size that is open is read as a number")
    assert (found.filename, found.lineno) == (__file__, inspect.getsourcelines(read)[1])
    assert not heard(read, [1]), "the size is that of the example in every call"


@pytest.mark.parametrize("read", OF_VALUES.values(), ids=OF_VALUES)
def test_values_are_never_those_of_the_example(read: Callable[[Any, Any], Any]) -> None:
    (found,) = heard(read, [])
    assert str(found.message).startswith("a value is read as a number")
    assert (found.filename, found.lineno) == (__file__, inspect.getsourcelines(read)[1])


def test_sizes_behind_other_functions() -> None:
    (found,) = heard(lambda x, w: int((x * 2).flatten().shape[0]), [0])
    assert "a size that may be open is read as a number" in str(found.message)
    assert "the example, 10, in every call" in str(found.message)


NO_READS = {
    "sizes of weights": lambda x, w: int(w.shape[0]) + len(w),
    "numbers of weights": lambda x, w: float(w.sum()),
    "a slice by a size": lambda x, w: x[:, : x.shape[0]],
    "an index by a size": lambda x, w: x[0, x.shape[0] - 1],
    "zeros by a size": lambda x, w: (torch.zeros(x.shape[0], 3), x.new_zeros(x.size(0))),
    "a view by a size": lambda x, w: x.view(x.size(0), -1).expand(x.size(0), 5),
    "checks of torch": lambda x, w: F.layer_norm(F.pad(x, (1, 1)), (7,)),
}


@pytest.mark.parametrize("read", NO_READS.values(), ids=NO_READS)
def test_what_is_no_read(read: Callable[[Any, Any], Any]) -> None:
    assert not heard(read, [0, 1])


def test_a_loop_over_an_open_size_gives_another_answer_elsewhere() -> None:
    """What the warning is for: torch itself does not warn of it."""

    class Sums(nn.Module):
        def forward(self, x: Any) -> Any:
            total = x[:, 0] * 0
            for place in range(x.shape[1]):
                total = total + x[:, place]
            return total

    with pytest.warns(torch.jit.TracerWarning, match="keeps that of the example, 3, in every"):
        model = uncork.from_torch(Sums(), torch.ones(2, 3), dynamic=True)
    (total,) = uncork.compile_model(model, backend="reference")(torch.ones(1, 4).numpy())
    assert total == 3
