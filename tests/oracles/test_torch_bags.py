"""The embedding bags against torch.nn.functional.embedding_bag: another code base, other kernels,
many more rows.

torch has no default row: it fills empty bags with zeros. It refuses a first offset above 0, and
packed bags of no indices.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from uncork import functional as F
from uncork.ops import find
from uncork.storage import decode
from uncork.types import ElementType, PartialShape, TensorSpec

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.oracle

SIZES = {
    "one bag": [1000],
    "bags of one": [1] * 50,
    "ragged": [3, 0, 0, 17, 1, 400, 0, 2, 64],
    "empty at both ends": [0, 0, 5, 9, 0, 0],
    "all empty": [0, 0, 0],
    "many": [7, 30, 0, 1] * 100,
}
#: Sums in another order differ by some roundings of the type.
TOLERANCE = {"float64": 1e-12, "float32": 1e-5}


def offsets_of(sizes: list[int]) -> np.ndarray:
    return np.cumsum([0, *sizes])[:-1]


def torch_bags(table: Any, ids: Any, offsets: Any, weights: Any, mode: str) -> Any:
    arrays = [
        None if a is None else torch.from_numpy(np.ascontiguousarray(a))
        for a in (table, ids, offsets, weights)
    ]
    return torch.nn.functional.embedding_bag(
        arrays[1], arrays[0], arrays[2], per_sample_weights=arrays[3], mode=mode
    ).numpy()


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("columns", [1, 3, 16, 64, 129])
@pytest.mark.parametrize("kind", ["sum", "weighted sum", "mean"])
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_bags_by_offsets(name: str, columns: int, kind: str, dtype: str) -> None:
    generator = np.random.default_rng([columns, len(name), len(kind)])
    offsets = offsets_of(SIZES[name])
    ids = generator.integers(0, 40, sum(SIZES[name]))
    table = generator.standard_normal((40, columns)).astype(dtype)
    weights = generator.standard_normal(len(ids)).astype(dtype) if kind == "weighted sum" else None
    mode = kind.split()[-1]
    expected = torch_bags(table, ids, offsets, weights, mode)
    near = {"rtol": TOLERANCE[dtype], "atol": 10 * TOLERANCE[dtype]}
    np.testing.assert_allclose(
        F.embedding_bag_offsets(table, ids, offsets, None, weights, mode), expected, **near
    )
    if mode == "sum":
        np.testing.assert_allclose(
            F.embedding_bag_offsets_sum(table, ids, offsets, None, weights), expected, **near
        )
        segment_ids = np.repeat(np.arange(len(offsets)), SIZES[name])
        shuffled = generator.permutation(len(ids))
        moved = None if weights is None else weights[shuffled]
        segments = F.embedding_segments_sum(
            table, ids[shuffled], segment_ids[shuffled], len(offsets), None, moved
        )
        np.testing.assert_allclose(segments, expected, **near)


@pytest.mark.parametrize("shape", [(1, 1), (5, 3), (64, 20), (0, 4)])
@pytest.mark.parametrize("columns", [1, 5, 32])
@pytest.mark.parametrize("kind", ["sum", "weighted sum", "mean"])
@pytest.mark.parametrize("ids_type", [np.int32, np.int64])
def test_bags_of_one_size(shape: tuple[int, int], columns: int, kind: str, ids_type: Any) -> None:
    generator = np.random.default_rng([columns, *shape, len(kind)])
    ids = generator.integers(0, 30, shape).astype(ids_type)
    table = generator.standard_normal((30, columns)).astype(np.float32)
    weights = (
        generator.standard_normal(shape).astype(np.float32) if kind == "weighted sum" else None
    )
    mode = kind.split()[-1]
    expected = torch_bags(table, ids, None, weights, mode)
    np.testing.assert_allclose(
        F.embedding_bag_packed(table, ids, weights, mode), expected, rtol=1e-5, atol=1e-5
    )
    if mode == "sum":
        np.testing.assert_allclose(
            F.embedding_bag_packed_sum(table, ids, weights), expected, rtol=1e-5, atol=1e-5
        )


@pytest.mark.parametrize("type_name", ["f16", "bf16"])
def test_half_types_are_sums_of_f32_rounded_once(type_name: str) -> None:
    """torch in f32 on the same values, rounded at the end: sums of multiples of 1/8 are exact, so
    the answers are equal.
    """
    generator = np.random.default_rng(7)
    element_type = ElementType.parse(type_name)
    exact = generator.integers(-64, 64, (40, 9)) / np.float32(8)
    ids, offsets = generator.integers(0, 40, 500), offsets_of([100, 0, 1, 3, 396])
    table = torch.from_numpy(exact.astype(np.float32)).to(
        torch.float16 if type_name == "f16" else torch.bfloat16
    )
    expected = torch_bags(table.float().numpy(), ids, offsets, None, "sum")
    rounded = torch.from_numpy(expected).to(table.dtype)
    codes = table.view(torch.int16).numpy().view(element_type.dtype)
    specs = [TensorSpec(element_type, PartialShape(codes.shape), codes)]
    specs += [TensorSpec(ElementType.i64, PartialShape(a.shape), a) for a in (ids, offsets)]
    operation = find("EmbeddingBagOffsetsSum", 3)
    assert operation is not None
    (result,) = operation().evaluate(specs)
    assert result.element_type is element_type
    np.testing.assert_array_equal(
        decode(result.value, element_type).astype(np.float32), rounded.float().numpy()
    )
