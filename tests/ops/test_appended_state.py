"""What the operations on storages of variables mean, by hand, and what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from uncork.errors import InputError
from uncork.internal_ops.appended_state import AppendState, LengthAfter, StateLength, StateValue
from uncork.internal_ops.attention import FusedAttention, Repeated
from uncork.internal_ops.state_product import StateProduct
from uncork.ops import Operation
from uncork.ops.attention import ScaledDotProductAttention
from uncork.ops.matmul import MatMul
from uncork.types import ElementType, PartialShape, TensorSpec

Array = np.ndarray[Any, Any]


def spec(value: Any, dtype: Any = np.float32) -> TensorSpec:
    array = np.asarray(value, dtype)
    element_type = ElementType.of_dtype(array.dtype)
    assert element_type is not None
    return TensorSpec(element_type, PartialShape(array.shape), array)


def run(operation: Operation, *inputs: TensorSpec) -> Array:
    (result,) = operation.evaluate(inputs)
    assert result.value is not None
    return result.value


def length(number: int) -> TensorSpec:
    return spec([number], np.int64)


def test_new_elements_are_written_into_the_storage_itself() -> None:
    storage = spec([[1, 2, 9, 9], [3, 4, 9, 9]])
    after = run(AppendState(1), storage, length(2), spec([[5], [6]]))
    assert after.tolist() == [[1, 2, 5, 9], [3, 4, 6, 9]]
    assert after is storage.value


def test_the_value_is_the_beginning_of_the_storage() -> None:
    storage = spec([[1, 2, 9], [3, 4, 9]])
    value = run(StateValue(1), storage, length(2))
    assert value.tolist() == [[1, 2], [3, 4]]
    assert not np.shares_memory(value, storage.value)
    assert run(StateValue(0), storage, length(0)).shape == (0, 3)


def test_the_length_grows_by_what_is_new() -> None:
    assert run(LengthAfter(1), length(7), spec(np.zeros((4, 3, 2)))).tolist() == [10]
    described = LengthAfter(0).describe(
        [length(7), TensorSpec(ElementType.f32, PartialShape([3, None]))]
    )
    assert described[0].value is not None
    assert described[0].value.tolist() == [10]
    assert str(StateLength().infer()) == "i64[1]"


@pytest.mark.parametrize(
    ("new", "before", "picks", "message"),
    [
        (np.zeros((2, 3)), 2, None, "expected room for 5 elements along axis 1, got 4"),
        (np.zeros((3, 1)), 2, None, r"expected dimensions \[2,4\] but for axis 1, got \[3,1\]"),
        (np.zeros((2, 1)), 2, [0, 1, 0], "expected 2 picked rows, got 3"),
    ],
)
def test_what_does_not_fit_is_refused(
    new: Array, before: int, picks: list[int] | None, message: str
) -> None:
    given = [spec(np.zeros((2, 4))), length(before), spec(new)]
    given += [] if picks is None else [spec(picks, np.int32)]
    with pytest.raises(InputError, match=message):
        run(AppendState(1), *given)


def test_a_product_with_matrices_of_a_storage() -> None:
    """Two rows of one head, then of another that shares its matrix; 9 lies behind the value."""
    a = spec([[[[1, 0]], [[1, 1]]]])
    storage = spec([[[[1, 2], [3, 4], [9, 9]]]])
    turned = StateProduct(MatMul(transpose_b=True), StateValue(2), 2)
    assert run(turned, a, storage, length(2)).tolist() == [[[[1, 3]], [[3, 7]]]]
    straight = StateProduct(MatMul(), StateValue(2), 2)
    assert run(straight, a, storage, length(2)).tolist() == [[[[1, 2]], [[4, 6]]]]


@pytest.mark.parametrize("masked", [False, True])
def test_attention_over_so_many_keys_and_values(masked: bool) -> None:
    """Scores are 0 where the query is: the mean of the values that are there, or of those that the
    mask leaves.
    """
    attention = FusedAttention(
        ScaledDotProductAttention(causal=False),
        ((), (Repeated(1, 2),), (Repeated(1, 2),)),
        counted=(2, 2),
    )
    query = spec(np.zeros((1, 2, 1, 2)))
    keys, values = (
        spec(np.ones((1, 1, 4, 2))),
        spec([[[[1, 10], [3, 30], [np.nan, np.nan], [7, 7]]]]),
    )
    mask = [spec([[0, -np.inf]])] if masked else []
    result = run(attention, query, keys, values, *mask, length(2), length(2))
    assert result.tolist() == [[[[1, 10]], [[1, 10]]] if masked else [[[2, 20]], [[2, 20]]]]
