"""Moves that leave every element in its place are views where a model's sizes show it, and others
are not taken for one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import uncork
from uncork.compiler.compile import compile_model
from uncork.errors import InputError

I64 = np.int64
Inputs = list[Any]


def run(
    kind: str,
    opset: int,
    shape: tuple[int, ...],
    others: Inputs,
    around: bool = True,
    known: bool = True,
    **attributes: Any,
) -> str:
    """The kernel that runs the layer between two others, for an input of this shape, which the
    model may know, "nothing" where there is no such step; its result is compared.
    """
    builder = uncork.Builder("moves")
    x = builder.parameter("x", "f32", shape if known else [None] * len(shape))
    inside = builder.add("Add", 1, x, builder.constant(np.float32(1)))[0] if around else x
    given = [
        builder.constant(np.array(other, I64))
        if not isinstance(other, np.ndarray)
        else builder.constant(other)
        for other in others
    ]
    (moved,) = builder.add(kind, opset, inside, *given, name="moved", **attributes)
    builder.result(
        builder.add("MatMul", 1, moved, moved, transpose_b=True)[0] if around else moved, "y"
    )
    model = builder.model()
    compiled = compile_model(model)
    data = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    expected = compile_model(model, backend="reference")(data)["y"]
    for _ in range(2):
        got = compiled(data)["y"]
        np.testing.assert_allclose(got, expected, rtol=1e-6)
        got[...] = -1  # the caller's own
    assert not around or (data >= 0).all()
    kernels = [step.kernel for step in compiled.plan.steps if step.layer.startswith("moved")]
    return kernels[0] if kernels else "nothing"


STRIDES = {
    "begin_mask": [1, 1],
    "end_mask": [1, 1],
    "new_axis_mask": [],
    "shrink_axis_mask": [],
    "ellipsis_mask": [],
}
#: Those of the layers below that have the shape of their data.
SHAPED = {"Slice", "StridedSlice", "Concat", "Pad"}
SAME: list[tuple[str, int, tuple[int, ...], Inputs, dict[str, Any]]] = [
    ("Transpose", 1, (1, 3, 4), [[1, 0, 2]], {}),
    ("Transpose", 1, (3, 1, 4, 1), [[1, 0, 3, 2]], {}),
    ("Transpose", 1, (5, 1), [np.zeros(0, I64)], {}),
    ("Slice", 8, (3, 4), [[0, 0], [99, 4], [1, 1], [0, 1]], {}),
    ("StridedSlice", 1, (3, 4), [[0, 0], [0, 0], [1, 1]], STRIDES),
    ("Concat", 1, (3, 4), [np.zeros((0, 4), np.float32)], {"axis": 0}),
    ("Tile", 1, (3, 4), [[1, 1, 1]], {}),
    ("Pad", 12, (3, 4), [[0, 0], [0, 0]], {"pad_mode": "reflect"}),
]
OTHER: list[tuple[str, int, tuple[int, ...], Inputs, dict[str, Any]]] = [
    ("Transpose", 1, (2, 3, 4), [[1, 0, 2]], {}),
    ("Transpose", 1, (4, 4), [[1, 0]], {}),
    ("Slice", 8, (3, 4), [[-1, 0], [-9, 4], [-1, 1], [0, 1]], {}),  # backwards
    ("Slice", 8, (3, 4), [[0, 0], [2, 4], [1, 1], [0, 1]], {}),
    ("StridedSlice", 1, (3, 4), [[0, 0], [0, 0], [-1, 1]], STRIDES),
    ("Concat", 1, (3, 4), [np.zeros((1, 4), np.float32)], {"axis": 0}),
    ("Tile", 1, (3, 4), [[1, 2]], {}),
    (
        "Pad",
        12,
        (3, 4),
        [[-1, 0], [1, 0]],
        {"pad_mode": "constant"},
    ),  # as many elements, one row on
]


@pytest.mark.parametrize(
    ("kind", "opset", "shape", "others", "attributes"),
    SAME,
    ids=lambda v: v if isinstance(v, str) else None,
)
def test_nothing_moves(
    kind: str, opset: int, shape: tuple[int, ...], others: Inputs, attributes: dict[str, Any]
) -> None:
    expected = "nothing" if kind in SHAPED else "view"
    assert run(kind, opset, shape, others, **attributes) == expected
    run(
        kind, opset, shape, others, around=False, **attributes
    )  # the result is a copy of the input, and the caller's own
    run(kind, opset, shape, others, known=False, **attributes)


@pytest.mark.parametrize(
    ("kind", "opset", "shape", "others", "attributes"),
    OTHER,
    ids=lambda v: v if isinstance(v, str) else None,
)
def test_something_moves(
    kind: str, opset: int, shape: tuple[int, ...], others: Inputs, attributes: dict[str, Any]
) -> None:
    for known in (True, False):
        assert run(kind, opset, shape, others, known=known, **attributes) not in ("view", "nothing")


def test_the_shapes_of_the_call_decide() -> None:
    builder = uncork.Builder("open")
    x = builder.parameter("x", "f32", [None, None])
    builder.result(builder.add("Transpose", 1, x, builder.constant(np.array([1, 0])))[0], "y")
    compiled = compile_model(builder.model())
    for shape in ((1, 5), (3, 5), (5, 1), (3, 5)):
        data = np.arange(shape[0] * shape[1], dtype=np.float32).reshape(shape)
        np.testing.assert_array_equal(
            compiled(data)["y"], [[data[i, j] for i in range(shape[0])] for j in range(shape[1])]
        )


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_an_index_of_the_call_is_looked_at_where_the_axis_has_one_element(backend: str) -> None:
    """The shape is known without it, and whether it lies inside is not."""
    builder = uncork.Builder("shrink")
    x, begin = builder.parameter("x", "f32", [1, 3]), builder.parameter("begin", "i64", [1])
    ends = [builder.constant(np.array([number])) for number in (9, 1)]
    (y,) = builder.add(
        "StridedSlice", 1, x, begin, *ends, begin_mask=[0], end_mask=[0], shrink_axis_mask=[1]
    )
    builder.result(y, "y")
    compiled = compile_model(builder.model(), backend=backend)
    for _ in range(2):
        for number in (0, -1):
            assert compiled(np.array([[1, 2, 3]], np.float32), np.array([number]))[
                "y"
            ].tolist() == [1, 2, 3]
        with pytest.raises(InputError, match=r"begin\[0\] is 7, which lies outside axis 0"):
            compiled(np.ones((1, 3), np.float32), np.array([7]))


@pytest.mark.parametrize("last", [False, True])
def test_views_of_the_same_shape_are_read_through_one_after_the_other(last: bool) -> None:
    """A Reshape behind a slice of everything, both of which leave the shape: what reads the second
    reads what the first does; a result is one of its own.
    """
    builder = uncork.Builder("views")
    x = builder.parameter("x", "f32", [2, 3])
    whole = [np.array(bounds, I64) for bounds in ([0], [9], [1], [1])]
    (cut,) = builder.add("Slice", 8, x, *map(builder.constant, whole))
    target = builder.constant(np.array([2, 3]))
    (shaped,) = builder.add("Reshape", 1, cut, target, special_zero=False)
    end = shaped if last else builder.add("Multiply", 1, shaped, cut)[0]
    builder.result(end, "y")
    compiled = compile_model(builder.model())
    data = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
    made = compiled(data)["y"]
    np.testing.assert_array_equal(made, data if last else data * data)
    made[...] = 7
    assert data[1, 2] == 6
    kernels = [step.kernel for step in compiled.plan.steps]
    assert last or (len(kernels) == 1 and kernels[0].startswith("multiply"))
