"""Small integers of a call: plans know them as numbers of 32 bits, and others go to references."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import uncork

VALUES = (3, 2**31 - 1, 2**31, 2**53 + 1, -(2**31) - 1, -(2**60))


@pytest.mark.parametrize("shape", [(), (1,), (3,)], ids=str)
@pytest.mark.parametrize("other", [2**53, -(2**40), 7])
@pytest.mark.parametrize(
    "kind", ["Greater", "LessEqual", "Equal", "Maximum", "Minimum", "Add", "Subtract"]
)
def test_what_the_range_of_a_number_tells_is_checked(
    kind: str, other: int, shape: Sequence[int]
) -> None:
    """9007199254740993 is above 9007199254740992, though no number of 32 bits is."""
    builder = uncork.Builder()
    x = builder.parameter("x", "i64", shape)
    builder.result(builder.add(kind, 1, x, builder.constant(np.array(other)))[0], "y")
    compiled = uncork.compile_model(builder.model())
    wanted = {
        "Greater": np.greater,
        "LessEqual": np.less_equal,
        "Equal": np.equal,
        "Maximum": np.maximum,
        "Minimum": np.minimum,
        "Add": np.add,
        "Subtract": np.subtract,
    }[kind]
    for value in (*VALUES, 3):
        given = np.full(shape, value)
        assert np.array_equal(compiled(given)[0], wanted(given, other)), value
