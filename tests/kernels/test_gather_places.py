"""Look-ups of constant places along short items: a strided copy where the places have equal steps,
and what NumPy takes.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import uncork


def taken(
    version: int, places: object, axis: int, shape: list[int | None], name: str
) -> uncork.CompiledModel:
    builder = uncork.Builder("places")
    x = builder.parameter("x", name, shape)
    given = builder.constant(np.array(places, np.int64))
    along = builder.constant(np.array(axis, np.int64))
    builder.result(builder.add("Gather", version, x, given, along)[0], "y")
    return uncork.compile_model(builder.model(), threads=1)


@pytest.mark.parametrize("name", ["f32", "u8", "i64"])
@pytest.mark.parametrize("is_open", [False, True])
@pytest.mark.parametrize(
    ("places", "axis", "strided"),
    [
        (0, 2, True),  # one place: the axis goes
        (-1, 2, True),
        ([3], -1, True),
        ([0, 2, 4], 2, True),
        ([4, 3, 2, 1, 0], 2, True),
        ([-1, -3, -5], 2, True),
        ([-2, 4, 5], 2, True),  # -2 is 3 here
        ([1, 1], 2, False),
        ([0, 1, 3], 2, False),
        ([[0, 1], [2, 3]], 2, False),
    ],
)
def test_places(places: object, axis: int, strided: bool, is_open: bool, name: str) -> None:
    size = 5 if places != [-2, 4, 5] else 7
    if places == [-2, 4, 5]:
        places = [-3, 5, 6]
    generator = np.random.default_rng(1)
    shape = [None, None, size] if is_open else [4, 33, size]
    compiled = taken(8, places, axis, shape, name)
    for rows in ((4, 33), (2, 17)) if is_open else ((4, 33),):
        data = generator.integers(0, 200, (*rows, size))
        data = data.astype({"f32": np.float32, "u8": np.uint8, "i64": np.int64}[name])
        wanted = np.take(data, np.array(places), axis)
        np.testing.assert_array_equal(compiled(data)[0], wanted)
    (step,) = (step for step in compiled.plan.steps if step.kernel != "view")
    assert step.kernel.startswith("nd_copy" if strided else "gather_columns"), step


def test_places_from_the_end_and_outside_are_zeros() -> None:
    """Gather-1 and Gather-7 give zeros for negative places among others, all of them for places
    behind the end.
    """
    data = np.arange(1, 31, dtype=np.float32).reshape(2, 3, 5)
    for version, places in ((1, [1, 0, -1]), (7, [1, 0, -1]), (8, [3, 4, 5]), (7, [2, 4, 6])):
        compiled = taken(version, places, 2, [2, 3, 5], "f32")
        there = np.array([0 <= place < 5 for place in places])
        wanted = np.where(there, np.take(data, np.where(there, places, 0), 2), 0)
        np.testing.assert_array_equal(compiled(data)[0], wanted)
