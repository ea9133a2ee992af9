"""Random operations without seeds: what can be said of numbers that nobody knows beforehand; with
seeds: PyTorch as the second opinion.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from uncork.ops.multinomial import Multinomial
from uncork.ops.random_uniform import RandomUniform
from uncork.types import ElementType, PartialShape, TensorSpec

F32, F64, I32 = ElementType.f32, ElementType.f64, ElementType.i32


def spec(value: Any, element_type: ElementType) -> TensorSpec:
    array = np.asarray(value, element_type.dtype)
    return TensorSpec(element_type, PartialShape(array.shape), array)


def uniform(
    count: int, low: float, high: float, element_type: ElementType = F32, **attributes: Any
) -> np.ndarray:
    operation = RandomUniform(output_type=element_type, **attributes)
    inputs = [spec([count], ElementType.i64), spec(low, element_type), spec(high, element_type)]
    value = operation.evaluate(inputs)[0].value
    assert value is not None
    return value


@pytest.mark.parametrize("alignment", ["tensorflow", "pytorch"])
def test_without_seeds_calls_differ_and_stay_in_range(alignment: str) -> None:
    first, second = (uniform(10_000, -3, 5, alignment=alignment) for _ in range(2))
    assert not np.array_equal(first, second)
    assert first.min() >= -3
    assert first.max() < 5
    assert abs(first.mean() - 1) < 0.2  # the standard error is 0.023
    counts = np.bincount(uniform(8000, 0, 8, I32, alignment=alignment), minlength=8)
    assert counts.min() > 800  # 1000 expected, standard deviation 30


def test_with_seeds_calls_agree() -> None:
    np.testing.assert_array_equal(
        uniform(100, 0, 1, global_seed=3), uniform(100, 0, 1, global_seed=3)
    )
    assert not np.array_equal(
        uniform(100, 0, 1, global_seed=3), uniform(100, 0, 1, global_seed=3, op_seed=1)
    )


def test_is_never_evaluated_at_load() -> None:
    inputs = [spec([2], ElementType.i64), spec(0, F32), spec(1, F32)]
    (output,) = RandomUniform(output_type=F32, global_seed=1).describe(inputs)
    assert output.value is None
    assert output.shape == [2]


@pytest.mark.oracle
@pytest.mark.parametrize(
    ("name", "element_type"), [("float32", F32), ("float64", F64)]
)  # for f16 PyTorch has changed its way since
def test_pytorch_alignment_is_pytorch(name: str, element_type: ElementType) -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(2**31 + 17)
    expected = torch.rand(1000, dtype=getattr(torch, name)).numpy()
    got = uniform(1000, 0, 1, element_type, global_seed=2**31 + 17, alignment="pytorch")
    np.testing.assert_array_equal(got, expected)


def test_multinomial_frequencies() -> None:
    operation = Multinomial(convert_type=I32, with_replacement=True, log_probs=False)
    (output,) = operation.evaluate([spec([[1, 0, 3]], F32), spec(8000, I32)])
    assert output.value is not None
    counts = np.bincount(output.value[0], minlength=3)
    assert counts[1] == 0
    assert abs(counts[0] - 2000) < 400  # standard deviation 39


def test_multinomial_without_replacement_never_repeats() -> None:
    operation = Multinomial(convert_type=I32, with_replacement=False, log_probs=True)
    (output,) = operation.evaluate([spec(np.zeros((50, 6)), F32), spec(6, I32)])
    assert output.value is not None
    np.testing.assert_array_equal(np.sort(output.value, 1), np.broadcast_to(np.arange(6), (50, 6)))
