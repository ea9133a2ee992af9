"""Loops whose body gives parts of other sizes than `part_size`: one error, the same from kernels
and references.
"""

from __future__ import annotations

import numpy as np
import pytest

import uncork
from uncork.compiler.compile import Backend, compile_model
from uncork.ir.bodies import GraphBody
from uncork.ops._body import BodyInput, BodyMap, InnerResult, JoinedOutput, Slicing, TurnNumber


def _loop(grows: bool, part_size: int = 1) -> uncork.Model:
    """A Loop while the turn is below `last`; a turn gives `x`, or as many twos as turns so far."""
    body = uncork.Builder("body")
    turn, last = body.parameter("turn", "i64", []), body.parameter("last", "i64", [])
    x = body.parameter("x", "f32", [None])
    (number,) = body.add("Add", 1, turn, body.constant(np.int64(1)))
    (length,) = body.add("Unsqueeze", 1, number, body.constant(np.array([0])))
    (twos,) = body.add("Broadcast", 3, body.constant(np.float32(2)), length, mode="numpy")
    body.result(body.add("Less", 1, number, last)[0], "condition")
    body.result(twos if grows else body.add("Negative", 1, x)[0], "part")
    joined = BodyMap(
        GraphBody(body.model()),
        (TurnNumber(0), BodyInput(2, 1), BodyInput(3, 2)),
        (
            InnerResult(0, purpose="execution_condition"),
            JoinedOutput(0, 1, Slicing(0, part_size=part_size)),
        ),
    )
    builder = uncork.Builder("parts")
    given = builder.parameter("last", "i64", []), builder.parameter("x", "f32", [None])
    start = builder.constant(np.int64(-1)), builder.constant(np.array(True))
    (y,) = builder.add_with_bodies("Loop", 5, *start, *given, bodies={"body": joined}, name="loop")
    builder.result(y, "y")
    return builder.model()


@pytest.mark.parametrize("backend", ["cpu", "reference"])
@pytest.mark.parametrize(
    ("grows", "last", "size", "message"),
    [
        (True, 3, 1, r"iteration 1 of the body gave shape \[2\]"),
        (False, 1, 2, r"the body's result is f32\[2\]"),
        (False, 3, 2, r"the body's result is f32\[2\]"),
        (False, 3, 0, r"the body's result is f32\[0\]"),
    ],
)
def test_other_sizes_are_refused(
    grows: bool, last: int, size: int, message: str, backend: Backend
) -> None:
    compiled = compile_model(_loop(grows), backend=backend)
    one = compiled(np.int64(1), np.ones(1, np.float32))["y"]
    np.testing.assert_array_equal(one, [2] if grows else [-1])
    whole = (
        rf"layer 'loop' .*: output 0: {message}, expected 1 \(part_size\) along axis 0: give the "
        "output the part_size that the body makes"
    )
    for _ in range(2):
        with pytest.raises(uncork.InputError, match=whole):
            compiled(np.int64(last), np.ones(size, np.float32))
    one = compiled(np.int64(1), np.ones(1, np.float32))["y"]
    np.testing.assert_array_equal(one, [2] if grows else [-1])


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_parts_of_that_size_are_joined(backend: Backend) -> None:
    compiled = compile_model(_loop(False, part_size=2), backend=backend)
    given = np.array([1, 2], np.float32)
    np.testing.assert_array_equal(compiled(np.int64(2), given)["y"], [-1, -2, -1, -2])
