"""Sizes of arithmetic that is nested deep: as expressions they would grow with the power of its
depth, so they are found as numbers of the call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import uncork

#: A step of the arithmetic, in layers and in Python.
STEPS: dict[str, tuple[Callable[..., Any], Callable[[int, int], int]]] = {
    "between two bounds": (
        lambda add, size, step, number: add(
            "Maximum", add("Minimum", size, number(step)), add("Add", size, number(-1))
        ),
        lambda size, step: max(min(size, step), size - 1),
    ),
    "halves of what is more": (
        lambda add, size, step, number: add(
            "Divide", add("Add", add("Multiply", size, number(3)), number(step)), number(2)
        ),
        lambda size, step: (3 * size + step) // 2,
    ),
    "parts of it": (
        lambda add, size, step, number: add(
            "Add", add("Divide", size, number(2)), add("Divide", size, number(3))
        ),
        lambda size, step: size // 2 + size // 3,
    ),
}


@pytest.mark.parametrize("name", STEPS)
def test_a_size_of_forty_steps(name: str) -> None:
    layers, formula = STEPS[name]
    builder = uncork.Builder("deep")
    x = builder.parameter("x", "f32", [None])

    def add(type_name: str, *sources: Any) -> Any:
        return builder.add(type_name, 1, *sources)[0]

    def number(value: int) -> Any:
        return builder.constant(np.array([value], np.int64))

    size = builder.add("ShapeOf", 3, x, output_type="i64")[0]
    for step in range(40):
        size = layers(add, size, step, number)
    one = builder.constant(np.float32(1))
    kept = add("Add", builder.add("Mod", 1, size, number(5))[0], number(1))
    builder.result(size)
    builder.result(builder.add("Broadcast", 3, one, kept, mode="bidirectional")[0])
    for backend in ("cpu", "reference"):
        compiled = uncork.compile_model(builder.model(), backend=backend)
        for count in (3, 1000):
            expected = count
            for step in range(40):
                expected = formula(expected, step)
            found, ones = compiled(np.zeros(count, np.float32))
            assert found.tolist() == [expected]
            assert ones.shape == (expected % 5 + 1,)
