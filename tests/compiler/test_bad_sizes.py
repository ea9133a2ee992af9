"""Sizes that cannot be: one clear error that names the layer and the numbers, and a model that is
as it was before the call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import uncork
from uncork.compiler.compile import compile_model
from uncork.errors import InputError
from uncork.ir.model import Source

HUGE = 2**62


def f(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


def add(b: uncork.Builder, kind: str, *inputs: Source, opset: int = 1, **attributes: Any) -> Source:
    return b.add(kind, opset, *inputs, **attributes)[0]


@dataclass
class Case:
    """A layer of one model, inputs that it takes, and others with what is said of them."""

    layer: Callable[[uncork.Builder], Source]
    good: Sequence[np.ndarray]
    bad: Sequence[tuple[Sequence[np.ndarray], str]]


def data(b: uncork.Builder, *shape: int | None) -> Source:
    """An input that a kernel has worked on."""
    return add(b, "Exp", b.parameter("x", "f32", list(shape)))


def summed(b: uncork.Builder) -> Source:
    return add(b, "Add", data(b, None, 4), b.parameter("y", "f32", [None, None]), name="bad")


def product(b: uncork.Builder) -> Source:
    return add(b, "MatMul", data(b, None, None), b.parameter("y", "f32", [None, None]), name="bad")


def joined(b: uncork.Builder) -> Source:
    return add(
        b, "Concat", data(b, None, None), b.parameter("y", "f32", [None, None]), axis=0, name="bad"
    )


def reshaped(b: uncork.Builder) -> Source:
    return add(
        b,
        "Reshape",
        data(b, None, None),
        b.constant(np.array([-1, 6])),
        special_zero=False,
        name="bad",
    )


def reshaped_by_numbers(b: uncork.Builder) -> Source:
    return add(
        b,
        "Reshape",
        data(b, None),
        b.parameter("sizes", "i64", [2]),
        special_zero=False,
        name="bad",
    )


def window(b: uncork.Builder) -> Source:
    image = add(b, "Unsqueeze", data(b, None, 8), b.constant(np.array([0, 1])))
    return add(
        b,
        "MaxPool",
        image,
        strides=(1, 1),
        pads_begin=(0, 0),
        pads_end=(0, 0),
        kernel=(5, 5),
        name="bad",
    )


def broadcast(b: uncork.Builder) -> Source:
    one = add(b, "ReduceSum", data(b, None), b.constant(np.array([0])), keep_dims=True)
    return add(
        b, "Broadcast", one, b.parameter("sizes", "i64", [1]), opset=3, mode="numpy", name="bad"
    )


def tiled(b: uncork.Builder) -> Source:
    return add(b, "Tile", data(b, None, None), b.parameter("times", "i64", [2]), name="bad")


CASES = {
    "sum": Case(
        summed,
        (f(3, 4), f(3, 4)),
        [
            ((f(3, 4), f(2, 4)), r"\[3,4\].*\[2,4\]"),
            ((f(3, 4), f(3, 3)), r"\[3,4\].*\[3,3\]"),
            ((f(3, 4), f(0, 4)), r"\[3,4\].*\[0,4\]"),
        ],
    ),
    "product": Case(
        product,
        (f(3, 4), f(4, 2)),
        [((f(3, 4), f(3, 2)), "inner dimensions differ: 4 of a, 3 of b")],
    ),
    "joined": Case(
        joined, (f(3, 4), f(4, 4)), [((f(3, 4), f(3, 2)), r"\[3,4\] but for axis 0, got \[3,2\]")]
    ),
    "does not divide": Case(
        reshaped, (f(3, 4),), [((f(3, 5),), r"divide the elements of data \[3,5\], got \[-1, 6\]")]
    ),
    "numbers": Case(
        reshaped_by_numbers,
        (f(6), np.array([3, 2])),
        [
            ((f(6), np.array([-3, -2])), r"at least -1, got \[-3, -2\]"),
            ((f(6), np.array([0, 2])), r"as many elements as data \[6\], got \[0, 2\]"),
            ((f(6), np.array([4, -1])), r"divide the elements of data \[6\], got \[4, -1\]"),
            ((f(6), np.array([-1, -1])), "at most one -1"),
            ((f(6), np.array([2**40, 2**40])), r"data \[6\], got \[1099511627776, 1099511627776\]"),
        ],
    ),
    "window": Case(
        window,
        (f(6, 8),),
        [((f(3, 8),), "the kernel spans 5 cells along spatial axis 0, the padded data has 3")],
    ),
    "broadcast": Case(
        broadcast,
        (f(6), np.array([3])),
        [
            ((f(6), np.array([-2])), r"no negative sizes, got \[-2\]"),
            (
                (f(6), np.array([HUGE])),
                r"f32\[4611686018427387904\] needs 18,446,744,073,709,551,616 bytes, more than",
            ),
        ],
    ),
    "tiled": Case(
        tiled,
        (f(2, 3), np.array([3, 2])),
        [
            ((f(2, 3), np.array([-1, 2])), r"no negative numbers, got \[-1, 2\]"),
            (
                (f(2, 3), np.full(2, 2**31 - 1)),
                r"f32\[4294967294,6442450941\] needs .* bytes, more than",
            ),
            (
                (f(2, 3), np.full(2, HUGE)),
                r"f32\[9223372036854775808,.*\] needs .* bytes, more than",
            ),
        ],
    ),
}


def model(case: Case, with_state: bool) -> uncork.Model:
    """The layer's sum and, with state, how many calls there have been."""
    b = uncork.Builder("model")
    y = case.layer(b)
    axes = b.constant(np.arange(len(y_shape(case)), dtype=np.int64))
    b.result(add(b, "ReduceSum", y, axes), "sum")
    if with_state:
        kind = {
            "variable_id": "calls",
            "variable_type": "f32",
            "variable_shape": uncork.PartialShape([1]),
        }
        before = add(b, "ReadValue", b.constant(np.zeros(1, np.float32)), opset=6, **kind)
        now = add(b, "Add", before, b.constant(np.ones(1, np.float32)))
        b.add("Assign", 6, now, variable_id="calls")
        b.result(now, "calls")
    return b.model()


def y_shape(case: Case) -> tuple[int, ...]:
    """The shape of what the layer gives for good inputs."""
    b = uncork.Builder("layer")
    b.result(case.layer(b), "y")
    return tuple(compile_model(b.model(), backend="reference")(*case.good)[0].shape)


@pytest.mark.parametrize("with_state", [False, True], ids=["", "state"])
@pytest.mark.parametrize("backend", ["cpu", "reference"])
@pytest.mark.parametrize("name", CASES)
def test_one_error_and_a_model_as_before(name: str, backend: str, with_state: bool) -> None:
    case = CASES[name]
    compiled = compile_model(model(case, with_state), backend=backend)  # type: ignore[arg-type]
    expected, calls = compiled(*case.good)["sum"].copy(), 1
    for _ in range(2):
        for inputs, said in case.bad:
            with pytest.raises(
                InputError, match=rf"(?s)layer 'bad' \([A-Za-z]+-\d+, id \d+\): .*{said}"
            ) as caught:
                compiled(*inputs)
            assert len(caught.value.problems) == 1
            assert caught.value.problems[0].layer == "bad"
            results, calls = compiled(*case.good), calls + 1
            np.testing.assert_array_equal(results["sum"], expected)
            if with_state:
                assert results["calls"].tolist() == [calls], "the call that failed is not counted"


@pytest.mark.parametrize("backend", ["cpu", "reference"])
@pytest.mark.parametrize(
    ("layer", "inputs", "shape"),
    [
        (reshaped, (f(0, 6),), (0, 6)),
        (summed, (f(0, 4), f(0, 4)), (0, 4)),
        (summed, (f(0, 4), f(1, 1)), (0, 4)),
        (product, (f(3, 0), f(0, 2)), (3, 2)),
        (product, (f(0, 4), f(4, 2)), (0, 2)),
        (joined, (f(0, 4), f(3, 4)), (3, 4)),
        (joined, (f(3, 0), f(2, 0)), (5, 0)),
        (broadcast, (f(3), np.array([0])), (0,)),
        (tiled, (f(2, 3), np.array([0, 2])), (0, 6)),
        (tiled, (f(0, 3), np.array([5, 2])), (0, 6)),
        (reshaped_by_numbers, (f(0), np.array([0, 7])), (0, 7)),
    ],
)
def test_sizes_of_0(
    layer: Callable[[uncork.Builder], Source],
    inputs: Sequence[np.ndarray],
    shape: tuple[int, ...],
    backend: str,
) -> None:
    """Nothing is wrong with them: there is nothing to compute, or sums of nothing."""
    b = uncork.Builder("empty")
    b.result(layer(b), "y")
    compiled = compile_model(b.model(), backend=backend)  # type: ignore[arg-type]
    for _ in range(2):
        result = compiled(*inputs)[0]
        assert result.shape == shape
        assert not result.size or layer is joined or not result.any()


def test_calls_that_cannot_be_do_not_keep_others_from_a_plan() -> None:
    """Ten calls that no plan can be made for, then one of another kind that can be planned: it is,
    soon.
    """
    pytest.importorskip("llvmlite")
    b = uncork.Builder("numbers")
    b.result(reshaped_by_numbers(b), "y")
    compiled = compile_model(b.model())
    assert compiled(f(6), np.array([3, 2]))[0].shape == (3, 2)
    for _ in range(10):
        with pytest.raises(InputError):
            compiled(f(6), np.array([-1, -1]))
    for _ in range(16):
        assert compiled(f(6), np.array([-1, 2]))[0].shape == (3, 2)
    assert compiled.plan.made == 2
