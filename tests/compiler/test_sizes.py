"""Numbers of small inputs that say how large something is: one plan serves them all, and another
number is never taken for one.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import uncork
from uncork.compiler.compile import compile_model
from uncork.errors import UncorkError


def stretched() -> uncork.Model:
    """`x [3, 1]` in the shape that `sizes` says, then twice that; `scale` is small, too, but no
    size.
    """
    builder = uncork.Builder("stretched")
    x, sizes = builder.parameter("x", "f32", [3, 1]), builder.parameter("sizes", "i32", [2])
    scale = builder.parameter("scale", "i32", [1])
    (wide,) = builder.add("Broadcast", 3, x, sizes)
    (factor,) = builder.add("Convert", 1, scale, destination_type="f32")
    (result,) = builder.add("Multiply", 1, wide, factor)
    builder.result(result, "y")
    return builder.model()


def call(compiled: uncork.CompiledModel, sizes: list[int], scale: int = 2) -> np.ndarray:
    x = np.arange(3, dtype=np.float32)[:, np.newaxis]
    return compiled(x, np.array(sizes, np.int32), np.array([scale], np.int32))["y"]


def test_every_number_is_served_by_one_plan() -> None:
    compiled = compile_model(stretched())
    for _ in range(2):
        for columns in (4, 1, 9, 4):
            for scale in (2, 3):
                expected = np.repeat(np.arange(3)[:, np.newaxis] * scale, columns, 1)
                np.testing.assert_array_equal(call(compiled, [3, columns], scale), expected)
    assert compiled.plan.made == 1, "one plan for all numbers"


def test_a_fast_call_with_another_number_takes_the_other_program() -> None:
    compiled = compile_model(stretched())
    call(compiled, [3, 4])
    assert compiled.plan.made
    assert call(compiled, [3, 6]).shape == (3, 6)
    assert call(compiled, [3, 4]).shape == (3, 4)


def test_refusals_are_those_of_the_references() -> None:
    compiled, slow = compile_model(stretched()), compile_model(stretched(), backend="reference")
    call(compiled, [3, 4])
    for sizes in ([2, 4], [3, -1]):
        with pytest.raises(UncorkError) as wanted:
            call(slow, sizes)
        with pytest.raises(UncorkError) as told:
            call(compiled, sizes)
        assert str(told.value) == str(wanted.value)


def test_bound_calls_look_at_the_numbers_every_time() -> None:
    compiled = compile_model(stretched())
    x, sizes, scale = (
        np.ones((3, 1), np.float32),
        np.array([3, 2], np.int32),
        np.array([1], np.int32),
    )
    bound = compiled.bind(x, sizes, scale)
    assert bound()[0].shape == (3, 2)
    sizes[1], scale[0] = 5, 3
    assert bound()[0].tolist() == [[3] * 5] * 3
    sizes[1], scale[0] = 2, 7
    assert bound()[0].tolist() == [[7] * 2] * 3


def test_numbers_that_are_data_are_no_part_of_the_combination() -> None:
    builder = uncork.Builder("data")
    ids = builder.parameter("ids", "i64", [3])
    table = builder.constant(np.arange(20, dtype=np.float32).reshape(10, 2))
    builder.result(builder.add("Gather", 8, table, ids, builder.constant(np.int64(0)))[0], "y")
    compiled = compile_model(builder.model())
    for first in range(8):
        rows = np.array([first, 0, 9])
        np.testing.assert_array_equal(compiled(rows)["y"], np.arange(20).reshape(10, 2)[rows])
    assert compiled.plan.made == 1


def test_sixty_four_bits_of_a_size() -> None:
    """Numbers that agree in their low 32 bits are others."""
    builder = uncork.Builder("wide")
    sizes = builder.parameter("sizes", "i64", [1])
    builder.result(builder.add("Broadcast", 3, builder.constant(np.float32(1)), sizes)[0], "y")
    compiled = compile_model(builder.model())
    assert compiled(np.array([3]))["y"].shape == (3,)
    with pytest.raises(UncorkError):
        compiled(np.array([3 + (1 << 62)]))
    assert compiled(np.array([3]))["y"].shape == (3,)
