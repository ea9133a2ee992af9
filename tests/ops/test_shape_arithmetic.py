"""Shape arithmetic at load: what is known of a dynamic shape must come out static at the far end of
a chain of layers.
"""

from __future__ import annotations

import numpy as np
import pytest

from uncork import ops
from uncork.types import Dimension, ElementType, PartialShape, TensorSpec

I64 = ElementType.i64
F32 = ElementType.f32


def tensor(*dims: object) -> TensorSpec:
    return TensorSpec(F32, PartialShape(dims))


def constant(value: object, element_type: ElementType = I64) -> TensorSpec:
    array = np.array(value, element_type.dtype)
    return TensorSpec(element_type, PartialShape(array.shape), array)


def run(
    type_name: str, *inputs: TensorSpec | None, opset: int = 16, **attributes: object
) -> TensorSpec:
    operation = ops.find(type_name, opset)
    assert operation is not None
    return operation(**attributes).describe(inputs)[0]


def shape_of(*dims: object) -> TensorSpec:
    return run("ShapeOf", tensor(*dims))


def test_gather_concat_reshape() -> None:
    source = tensor(None, 12, 64)
    shape = run("ShapeOf", source)
    batch = run("Gather", shape, constant([0]), constant(0))
    width = run("Gather", shape, constant([2]), constant(0))
    target = run("Concat", batch, constant([-1, 3, 4]), width, axis=0)
    assert target.integers() == [None, -1, 3, 4, 64]
    assert run("Reshape", source, target, special_zero=False).shape == [None, None, 3, 4, 64]
    assert run(
        "Reshape", source, run("Concat", constant([0, 3, 4]), width, axis=0), special_zero=True
    ).shape == [None, 3, 4, 64]


def test_minus_one_beside_a_copied_dynamic_dimension() -> None:
    assert run("Reshape", tensor(None, 8, 4), constant([0, -1]), special_zero=True).shape == [
        None,
        32,
    ]
    assert run("Reshape", tensor(None, 8, 4), constant([-1, 32]), special_zero=True).shape == [
        None,
        32,
    ]
    assert run(
        "Reshape", tensor(Dimension(1, 6), 8), constant([-1, 4]), special_zero=False
    ).shape == [Dimension(2, 12), 4]


def test_one_unknown_size_follows_from_the_others() -> None:
    unknown = run("Gather", shape_of(None, 3), constant([0]), constant(0))
    assert run(
        "Reshape", tensor(4, 6), run("Concat", unknown, constant([8]), axis=0), special_zero=False
    ).shape == [3, 8]
    assert run(
        "Reshape", tensor(4, 0), run("Concat", unknown, constant([8]), axis=0), special_zero=False
    ).shape == [None, 8]


def test_slices_of_a_shape() -> None:
    shape = shape_of(None, 7, 5)
    assert run("Slice", shape, constant([1]), constant([2**63 - 1]), constant([1])).integers() == [
        7,
        5,
    ]
    assert run(
        "StridedSlice",
        shape,
        constant([-1]),
        constant([-4]),
        constant([-1]),
        begin_mask=(),
        end_mask=(),
    ).integers() == [5, 7, None]
    single = run(
        "StridedSlice",
        shape,
        constant([1]),
        constant([2]),
        begin_mask=(0,),
        end_mask=(0,),
        shrink_axis_mask=(1,),
    )
    assert single.shape == []
    assert single.integers() == [7]


def test_split_of_a_shape() -> None:
    parts = ops.find("Split", 1)
    assert parts is not None
    assert [
        p.integers()
        for p in parts(num_splits=2).describe([shape_of(None, 7, 5, None), constant(0)])
    ] == [[None, 7], [5, None]]
    parts = ops.find("VariadicSplit", 1)
    assert parts is not None
    assert [
        p.integers()
        for p in parts().describe([shape_of(None, 7, 5), constant(0), constant([1, -1])])
    ] == [[None], [7, 5]]


def test_split_of_pairs() -> None:
    """Pads of PyTorch are pairs, for each axis one: their first and second ones are split."""
    shape = shape_of(None, 7, 5, None)
    pairs = run("Reshape", shape, constant([2, 2]), special_zero=False)
    parts = ops.find("Split", 1)
    assert parts is not None
    split = parts(num_splits=2)
    for axis, expected in ((1, [[None, 5], [7, None]]), (0, [[None, 7], [5, None]])):
        halves = split.describe([pairs, constant(axis)])
        assert [h.integers() for h in halves] == expected
        assert [h.shape for h in halves] == [[2, 1] if axis == 1 else [1, 2]] * 2
    parts = ops.find("VariadicSplit", 1)
    assert parts is not None
    row, rest = parts().describe([pairs, constant(1), constant([0, -1])])
    assert (row.shape, rest.integers()) == ([2, 0], [None, 7, 5, None])


def test_moves_of_a_shape() -> None:
    shape = shape_of(None, 7)
    assert run("Unsqueeze", shape, constant(0)).integers() == [None, 7]
    assert run("Squeeze", run("Unsqueeze", shape, constant(0)), constant([0])).integers() == [
        None,
        7,
    ]
    assert run("Convert", shape, destination_type=ElementType.i32).integers() == [None, 7]
    assert run("ConvertLike", shape, TensorSpec(ElementType.i32, PartialShape())).integers() == [
        None,
        7,
    ]
    assert run("Tile", shape, constant([2])).integers() == [None, 7, None, 7]
    assert run("Broadcast", shape, constant([2, 2])).integers() == [None, 7, None, 7]
    assert run("GatherElements", shape, constant([1, 1]), axis=0).integers() == [7, 7]
    picked = run("Select", constant([True, False], ElementType.boolean), shape, constant([3, 9]))
    assert picked.integers() == [None, 9]
    picked = run("Select", constant([False, True], ElementType.boolean), shape, constant([3, 9]))
    assert picked.integers() == [3, 7]


def test_broadcast_and_tile_to_partly_known_shapes() -> None:
    target = run("Concat", shape_of(None, 7), constant([5]), axis=0)
    assert run("Broadcast", tensor(1, 7, 5), target).shape == [None, 7, 5]
    assert run("Broadcast", tensor(4, 7, 5), target).shape == [4, 7, 5]
    assert run("Broadcast", tensor(4, 1, 5), target, mode="bidirectional").shape == [4, 7, 5]
    assert run("Tile", tensor(2, 3, None), target).shape == [None, 21, None]


def test_transpose_by_a_partly_known_order() -> None:
    order = run(
        "Concat",
        run("Gather", shape_of(None, 7), constant([0]), constant(0)),
        constant([0, 2]),
        axis=0,
    )
    assert run("Transpose", tensor(2, 3, 4), order).shape == [None, 2, 4]
    assert run("Transpose", TensorSpec(F32, PartialShape()), constant([1, 0])).shape == [None, None]


@pytest.mark.parametrize(
    ("dim", "bounds", "expected"),
    [
        (Dimension(), (0, 5, 1), Dimension(0, 5)),
        (Dimension(3, 9), (1, -1, 1), Dimension(1, 7)),
        (Dimension(4), (-2, 2**63 - 1, 1), Dimension(2, 2)),
        (Dimension(), (1, 2**63 - 1, 1), Dimension()),
        (Dimension(2, 9), (-1, -(2**63), -2), Dimension(1, 5)),
    ],
)
def test_slices_of_a_dynamic_dimension(
    dim: Dimension, bounds: tuple[int, int, int], expected: Dimension
) -> None:
    assert run("Slice", tensor(dim, 4), *(constant([b]) for b in bounds)).shape == [expected, 4]


def test_unknown_ranks() -> None:
    anything = TensorSpec(F32, PartialShape())
    assert run("Concat", anything, tensor(2, 3), axis=0).shape == [Dimension(2), 3]
    assert run("Reshape", anything, constant([2, -1]), special_zero=False).shape == [2, None]
    assert run("ShapeOf", anything).shape == [None]
    assert run("Squeeze", tensor(None, 3), constant([0])).shape == [3]
    assert run("Squeeze", tensor(None, 3), constant([0]), allow_axis_skip=True).shape.rank is None
    assert run("Squeeze", tensor(None, 3)).shape.rank is None
    assert run(
        "Range", constant(0), TensorSpec(I64, PartialShape([])), constant(1), output_type=I64
    ).shape == [None]
