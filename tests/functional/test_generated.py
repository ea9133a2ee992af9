"""The functions that are made of the registry, on the worked examples of every operation."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

from tests.ops.test_every_op import ALL
from tests.samples._sample import Sample
from uncork import InputError
from uncork import functional as F
from uncork.functional._generated import TYPES, name_of
from uncork.ops import versions_of
from uncork.types import ElementType


def is_plain(types: tuple[ElementType | None, ...]) -> bool:
    """Whether NumPy has all of these types."""
    return all(t is None or t.is_native or t is ElementType.string for t in types)


def samples() -> list[Any]:
    """Every example of the newest version of an operation whose arrays NumPy has types for."""
    found = []
    for name, type_name in TYPES.items():
        if name in F.__all__ or name != name_of(type_name):
            continue
        versions = versions_of(type_name)
        entry = ALL.get(versions[max(versions)])
        for sample in entry.samples if entry else []:
            if is_plain(sample.case.types) and is_plain(sample.expected[1]):
                found.append(pytest.param(name, sample, id=f"{name}: {sample.name}"))
    return found


@pytest.mark.parametrize(("name", "sample"), samples())
def test_the_examples_of_the_operations(name: str, sample: Sample) -> None:
    function = getattr(F, name)
    case = sample.case
    versions = versions_of(TYPES[name])
    operation = versions[max(versions)]
    inputs: list[Any] = list(case.inputs)
    if operation.inputs and operation.inputs[-1].variadic:
        fixed = len(operation.inputs) - 1
        inputs = [*inputs[:fixed], inputs[fixed:]]
    for _ in range(2):  # described, and by its native entry where it has one
        results = function(*inputs, **case.attributes, strict=False)
        results = results if isinstance(results, tuple) else (results,)
        for got, want in zip(results, sample.expected[0], strict=True):
            assert got.shape == want.shape
            assert got.dtype == want.dtype or (got.dtype.kind == "U" and want.dtype == object)
            if want.dtype.kind == "f":
                resolution = 1e-3 if want.dtype == np.float16 else 1e-6
                rtol, atol = (max(t, resolution) for t in (sample.rtol, sample.atol))
                np.testing.assert_allclose(got, want, rtol=rtol, atol=atol)
            else:
                np.testing.assert_array_equal(got, want)


def test_there_is_one_for_every_operation() -> None:
    """But for what needs a graph around it."""
    types = {entry.type_name for entry in ALL} - {"Result"}
    written = {name for name in F.__all__ if callable(getattr(F, name))}
    assert {name_of(type_name) for type_name in types} <= written | {*dir(F)}
    assert not {"parameter", "loop", "const"} & {*dir(F)}


def test_numbers_take_the_type_of_what_they_go_with() -> None:
    half = F.add(np.float16([1, 2]), 0.5)
    for _ in range(3):  # no array of another type comes to be one by being a single number
        assert F.add(np.float32([1]), 3).tolist() == [4]
        with pytest.raises(InputError, match="add: "):
            F.add(np.float32([1]), np.array(3))
    assert half.dtype == np.float16 and half.tolist() == [1.5, 2.5]
    assert F.add(np.int8([100]), [27]).dtype == np.int8
    assert F.reduce_max([[1.0, 5.0]], [1]).tolist() == [5]
    assert F.select([True, False], [1.0, 2.0], 0.0).tolist() == [1, 0]
    assert F.concat([np.int8([1]), [2]], axis=0).dtype == np.int8


def test_names_of_torch() -> None:
    x = np.float32([-1, 0, 2])
    np.testing.assert_allclose(F.silu(x), x / (1 + np.exp(-x)), rtol=1e-6)
    np.testing.assert_allclose(F.hardswish(x), x * np.clip(x + 3, 0, 6) / 6, rtol=1e-6)
    assert F.relu(x).tolist() == [0, 0, 2]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: F.matmul(np.ones((2, 3)), np.ones((2, 3))), InputError, "matmul: "),
        (lambda: F.softmax(np.ones(2), axis=7), InputError, "softmax: .*axis"),
        (lambda: F.softmax(np.ones(2), axis="x"), InputError, "'axis': expected an integer"),
        (lambda: F.concat(np.ones(2), axis=0), InputError, "expected a list of arrays, got ndarr"),
        (lambda: F.add(np.float32([1]), np.float64([1])), InputError, "add: "),
        (lambda: F.relu(object()), InputError, "relu: input 'input': expected an array"),
        (lambda: F.split(np.ones(4), 0), TypeError, "num_splits"),
        (lambda: F.relu(np.ones(4), axis=0), TypeError, "axis"),
        (lambda: F.floor(np.ones(4), 0, 1), TypeError, "takes 1 positional argument but 3 were"),
        (lambda: F.nothing, AttributeError, "has no attribute 'nothing'"),
    ],
)
def test_what_does_not_fit(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_signatures_are_shown() -> None:
    assert str(inspect.signature(F.cumsum)).startswith(
        "(data, axis=None, *, exclusive=False, reverse=False, strict=False)"
    )
    assert "CumSum-3" in (F.cumsum.__doc__ or "") and F.cumsum.__name__ == "cumsum"
