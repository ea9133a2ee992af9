"""Exported models run by onnxruntime: states from call to call, loops of no steps, values that are
refused.
"""

from __future__ import annotations

import numpy as np
import pytest

import uncork

from ._run import run, session
from .test_model import branches, counter, running_sum, seeded, two_inputs

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("default")]


def test_two_inputs() -> None:
    rows, sums = run(
        uncork.to_onnx(two_inputs()), [np.ones((3, 3), np.float32), np.array([3, -1, 9])]
    )
    np.testing.assert_array_equal(
        rows, [[9, 10, 11], [9, 10, 11], [0, 0, 0]]
    )  # 9 is outside, and reads zeros
    np.testing.assert_array_equal(sums, rows + 1)


def test_a_state_from_call_to_call() -> None:
    model = session(uncork.to_onnx(counter(initial=False)))
    x = np.array([1, 2], np.float32)
    y, state = model.run(
        None, {"x": x}
    )  # left out, the variable is what it is before the first call
    np.testing.assert_array_equal(y, [1, 2])
    y, _ = model.run(None, {"x": x, "sum": state})
    np.testing.assert_array_equal(y, [2, 4])


def test_a_state_that_the_model_begins() -> None:
    model = session(uncork.to_onnx(counter(initial=True)))
    x = np.array([1, 2], np.float32)
    y, state = model.run(None, {"x": x})
    np.testing.assert_array_equal(y, [11, 22])
    y, _ = model.run(None, {"x": x, "sum": state, "sum.is_set": np.array(True)})
    np.testing.assert_array_equal(y, [12, 24])


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_a_loop(steps: int) -> None:
    x = np.arange(2 * steps, dtype=np.float32).reshape(steps, 2)
    every, last = run(uncork.to_onnx(running_sum()), [x])
    np.testing.assert_array_equal(every, np.cumsum(x, 0))
    np.testing.assert_array_equal(last, [x.sum(0)])


def test_branches() -> None:
    proto, x = uncork.to_onnx(branches()), np.zeros((2, 3), np.float32)
    for condition, shape in ((True, [2, 3]), (False, [6])):
        np.testing.assert_array_equal(run(proto, [np.array(condition), x])[0], shape)


def test_an_approximation_keeps_to_its_range() -> None:
    (noise,) = run(uncork.to_onnx(seeded(), approximate=True), [np.array([1000])])
    assert noise.shape == (1000,)
    assert 2 <= noise.min() < 2.1
    assert 2.9 < noise.max() < 3


def bags() -> uncork.Model:
    builder = uncork.Builder("bags")
    table = builder.constant(np.array([[1, 2], [10, 20], [100, 200]], np.float32))
    ids, offsets = (
        builder.parameter("ids", "i64", [None]),
        builder.parameter("offsets", "i64", [None]),
    )
    builder.result(builder.add("EmbeddingBagOffsetsSum", 3, table, ids, offsets)[0], "sums")
    return builder.model()


def test_empty_bags() -> None:
    (sums,) = run(uncork.to_onnx(bags()), [np.array([0, 1, 2]), np.array([0, 2, 2, 3])])
    np.testing.assert_array_equal(sums, [[11, 22], [0, 0], [100, 200], [0, 0]])


@pytest.mark.parametrize("wrong", [-1, 3])
def test_an_id_outside_is_refused_as_it_is_in_the_ir(wrong: int) -> None:
    model = session(uncork.to_onnx(bags()))
    with pytest.raises(Exception, match="out of data bounds"):
        model.run(None, {"ids": np.array([0, wrong]), "offsets": np.array([0])})


def test_the_lowest_number_divided_by_minus_one() -> None:
    builder = uncork.Builder("quotient")
    a, b = builder.parameter("a", "i64", [3]), builder.parameter("b", "i64", [3])
    builder.result(builder.add("Divide", 1, a, b)[0], "y")
    (y,) = run(
        uncork.to_onnx(builder.model()), [np.array([-(2**63), -7, 7]), np.array([-1, 2, -2])]
    )
    np.testing.assert_array_equal(y, [-(2**63), -4, -4])
