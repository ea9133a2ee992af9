"""Rows of compressed tables in kernels: bit for bit what NumPy makes of the whole table, row by row
and term by term.
"""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

pytest.importorskip("llvmlite")

from tests.kernels._run import run_native, spec_of
from uncork import storage
from uncork.internal_ops.decompression import Step
from uncork.internal_ops.quantized_lookup import (
    CompressedBag,
    CompressedGather,
    CompressedLookup,
    CompressedPacked,
    CompressedSegments,
    CompressedTable,
)
from uncork.kernels.embedding.select_quantized import rows_of
from uncork.kernels.kernel_plan import KernelPlan
from uncork.kernels.runtime.target import Target, host_target
from uncork.ops import find
from uncork.types import ElementType, TensorSpec

ROWS = 60
STORED = ["u8", "i8", "u4", "i4", "packed u4", "packed i4", "f16", "bf16"]
#: (zero point, scale, arithmetic in f16)
CHAINS = [
    ("row", "row", False),
    ("none", "row", False),
    ("one", "row", False),
    ("row", "one", False),
    ("one", "one", False),
    ("none", "none", False),
    ("row", "row", True),
]


def compressed(
    stored: str, columns: int, chain: tuple[str, str, bool], seed: int = 0, groups: int = 1
) -> tuple[CompressedTable, np.ndarray]:
    """A table, and all its elements by NumPy on whole arrays; parameters are of `groups` parts of
    each row.
    """
    generator = np.random.default_rng([columns, seed])
    element_type = ElementType.parse(stored.removeprefix("packed "))
    if element_type.is_float:
        values = generator.standard_normal((ROWS, columns)).astype(np.float32)
        codes = storage.encode(values, element_type)
        wide = storage.decode(codes, element_type).astype(np.float32)
    else:
        low = 0 if element_type.kind == "unsigned" else -(1 << (element_type.bits - 1))
        codes = generator.integers(low, low + (1 << element_type.bits), (ROWS, columns)).astype(
            element_type.dtype
        )
        wide = codes.astype(np.float32)
    numbers = {
        "none": lambda: None,
        "one": lambda: generator.standard_normal(1).astype(np.float32),
        "row": lambda: generator.standard_normal(ROWS * groups).astype(np.float32),
    }
    zero_point, scale, half = numbers[chain[0]](), numbers[chain[1]](), chain[2]
    compute = np.float16 if half else np.float32
    if half:
        zero_point, scale = (
            None if p is None else p.astype(np.float16).astype(np.float32)
            for p in (zero_point, scale)
        )
    table = wide.astype(compute).reshape(ROWS * groups, -1)
    if zero_point is not None:
        table = table - zero_point[:, None].astype(compute)
    if scale is not None:
        table = table * scale[:, None].astype(compute)
    packed = stored.startswith("packed")
    data = np.frombuffer(storage.pack(codes, element_type), np.uint8) if packed else codes
    later = []
    if groups > 1:  # operands of groups lie apart
        for operand, subtracts in ((zero_point, True), (scale, False)):
            if operand is not None:
                shape = (ROWS, groups) if len(operand) > 1 else (1, 1)
                later.append(Step(operand.reshape(shape), subtracts, half))
        zero_point, scale = None, None
    made = CompressedTable(
        element_type,
        (ROWS, columns),
        data,
        zero_point,
        scale,
        half,
        packed,
        groups,
        later=tuple(later),
    )
    return made, table.astype(np.float32).reshape(ROWS, columns)


def summed(table: np.ndarray, ids: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """One after the other, each step rounded to f32."""
    total = np.full(table.shape[1], -0.0, np.float32)
    for position, row in enumerate(ids):
        term = table[row] if weights is None else table[row] * weights[position]
        total = total + term
    return total


def check(
    operation: CompressedLookup,
    specs: list[TensorSpec],
    expected: np.ndarray,
    target: Target | None = None,
) -> None:
    results, choice = run_native(operation, specs, target=target)
    assert isinstance(choice, KernelPlan), choice
    assert results is not None, "the kernel refused its values"
    for what, got in (("kernel", results[0]), ("reference", operation.evaluate(specs)[0].value)):
        assert got.dtype == np.float32 and got.shape == expected.shape
        np.testing.assert_array_equal(got.view(np.uint32), expected.view(np.uint32), what)


def i64(values: object) -> TensorSpec:
    return spec_of(np.asarray(values, np.int64), ElementType.i64)


#: bf16 is in no chain of f16 arithmetic: it would be rounded on its way there.
PAIRS = [
    pytest.param(s, c, id=f"{s} {c}") for s in STORED for c in CHAINS if not (s == "bf16" and c[2])
]


@pytest.mark.parametrize(("stored", "chain"), PAIRS)
@pytest.mark.parametrize("columns", [1, 2, 17, 64])
def test_bags(stored: str, chain: tuple[str, str, bool], columns: int) -> None:
    table, whole = compressed(stored, columns, chain)
    generator = np.random.default_rng(columns)
    ids = generator.integers(0, ROWS, 90)
    offsets = np.array([0, 1, 1, 30, 77, 90, 90])
    ends = np.array([1, 1, 30, 77, 90, 90, 90])
    expected = np.stack(
        [summed(whole, ids[a:b]) if a < b else whole[5] for a, b in zip(offsets, ends, strict=True)]
    )
    check(
        CompressedBag(find("EmbeddingBagOffsetsSum", 3)(), table),
        [i64(ids), i64(offsets), i64(5)],
        expected,
    )


@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize("columns", [1, 2, 3, 15, 16, 31, 33, 255, 256, 258, 600])
def test_blocks_of_columns(stored: str, columns: int) -> None:
    table, whole = compressed(stored, columns, ("row", "row", False))
    ids = np.random.default_rng(columns).integers(0, ROWS, 40)
    expected = np.stack([summed(whole, ids[:13]), summed(whole, ids[13:])])
    check(
        CompressedBag(find("EmbeddingBagOffsetsSum", 3)(), table),
        [i64(ids), i64([0, 13])],
        expected,
    )
    places = np.array([[3, -1], [ROWS - 1, ROWS], [-ROWS, -ROWS - 1]])
    outside = (places >= ROWS) | (places < -ROWS)
    rows = np.where(outside[..., None], np.float32(0), whole[np.where(outside, 0, places)])
    check(CompressedGather(find("Gather", 8)(), table), [i64(places), i64(0)], rows)


@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize("groups", [1, 2, 4, 20])
def test_every_lookup(stored: str, groups: int) -> None:
    table, whole = compressed(stored, 20, ("row", "row", False), groups=groups)
    generator = np.random.default_rng(7)
    ids = generator.integers(0, ROWS, (6, 5))
    weights = generator.standard_normal((6, 5)).astype(np.float32)
    sums = np.stack([summed(whole, row) for row in ids])
    weighted = np.stack([summed(whole, row, w) for row, w in zip(ids, weights, strict=True)])

    def f32(array: np.ndarray) -> TensorSpec:
        return spec_of(array, ElementType.f32)

    check(CompressedPacked(find("EmbeddingBagPackedSum", 3)(), table), [i64(ids)], sums)
    check(
        CompressedPacked(find("EmbeddingBagPackedSum", 3)(), table),
        [i64(ids), f32(weights)],
        weighted,
    )
    check(
        CompressedPacked(find("EmbeddingBagPacked", 15)(reduction="mean"), table),
        [i64(ids)],
        sums / np.float32(5),
    )
    flat, starts, none = ids.reshape(-1), np.arange(0, 30, 5), i64(-1)
    check(
        CompressedBag(find("EmbeddingBagOffsets", 15)(reduction="mean"), table),
        [i64(flat), i64(starts)],
        sums / np.float32(5),
    )
    check(
        CompressedBag(find("EmbeddingBagOffsetsSum", 3)(), table),
        [i64(flat), i64(starts), none, f32(weights.reshape(-1))],
        weighted,
    )
    segments = np.repeat([0, 1, 3, 4, 5, 7], 5)
    expected = np.zeros((9, 20), np.float32)
    expected[[0, 1, 3, 4, 5, 7]] = weighted
    specs = [i64(flat), i64(segments), i64(9), none, f32(weights.reshape(-1))]
    check(CompressedSegments(find("EmbeddingSegmentsSum", 3)(), table), specs, expected)


@pytest.mark.parametrize(("stored", "chain"), PAIRS)
@pytest.mark.parametrize(("columns", "groups"), [(64, 2), (30, 6), (128, 4), (600, 2), (6, 2)])
def test_groups_of_columns(
    stored: str, chain: tuple[str, str, bool], columns: int, groups: int
) -> None:
    groups = groups if "row" in chain else 1
    table, whole = compressed(stored, columns, chain, groups=groups)
    ids = np.random.default_rng(columns).integers(0, ROWS, 40)
    bounds = [(0, 13), (13, 13), (13, 40)]
    expected = np.stack([summed(whole, ids[a:b]) if a < b else whole[59] for a, b in bounds])
    specs = [i64(ids), i64([a for a, _ in bounds]), i64(59)]
    check(CompressedBag(find("EmbeddingBagOffsetsSum", 3)(), table), specs, expected)
    places = np.array([[3, -1], [ROWS - 1, ROWS], [-ROWS, -ROWS - 1]])
    outside = (places >= ROWS) | (places < -ROWS)
    rows = np.where(outside[..., None], np.float32(0), whole[np.where(outside, 0, places)])
    check(CompressedGather(find("Gather", 8)(), table), [i64(places), i64(0)], rows)


@pytest.mark.parametrize("lanes", [4, 8, 16])
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("stored", STORED)
def test_vectors_of_other_machines(stored: str, groups: int, lanes: int) -> None:
    target = replace(host_target(), lanes=lanes)
    for columns in (6, 64, 130 + groups, 200):
        table, whole = compressed(stored, columns, ("row", "row", False), groups=groups)
        check(
            CompressedBag(find("EmbeddingBagOffsetsSum", 3)(), table),
            [i64([3, 1, 59]), i64([0])],
            summed(whole, np.array([3, 1, 59]))[None],
            target,
        )


@pytest.mark.parametrize("stored", STORED)
def test_the_kernel_is_the_same_wherever_the_table_begins(stored: str) -> None:
    table, whole = compressed(stored, 128, ("row", "row", False))
    memory = np.zeros(table.codes.nbytes + 128, np.uint8)
    ids, found = np.arange(ROWS)[::-1], set()
    for begin in (-memory.ctypes.data % 64, -memory.ctypes.data % 64 + 8):
        codes = memory[begin : begin + table.codes.nbytes].view(table.codes.dtype)
        codes = codes.reshape(table.codes.shape)
        codes[...] = table.codes
        moved = CompressedTable(
            table.element_type,
            table.shape,
            codes,
            table.zero_point,
            table.scale,
            table.half,
            table.packed,
        )
        found.add(rows_of(moved, host_target()))
        check(
            CompressedBag(find("EmbeddingBagOffsetsSum", 3)(), moved),
            [i64(ids), i64([0])],
            summed(whole, ids)[None],
        )
        check(CompressedGather(find("Gather", 8)(), moved), [i64(ids), i64(0)], whole[ids])
    assert len(found) == 1


@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize("count", [95, 96, 97, 98, 192, 300])
def test_more_ids_than_are_asked_for_ahead(stored: str, count: int) -> None:
    """Rows of one line are asked for 96 ahead, so long as there are ids: bags lie before that
    place, behind it and across.
    """
    table, whole = compressed(stored, 34, ("row", "row", False))
    ids = np.random.default_rng(count).integers(0, ROWS, count)
    weights = np.random.default_rng(1).standard_normal(count).astype(np.float32)
    starts = np.array([0, 1, 70, 94])
    ends = np.array([*starts[1:], count])
    expected = np.stack(
        [summed(whole, ids[a:b], weights[a:b]) for a, b in zip(starts, ends, strict=True)]
    )
    specs = [i64(ids), i64(starts), i64(-1), spec_of(weights, ElementType.f32)]
    check(CompressedBag(find("EmbeddingBagOffsetsSum", 3)(), table), specs, expected)


def test_narrowed_ids_wrap() -> None:
    table, whole = compressed("u8", 20, ("row", "row", False))
    ids = np.array([3, 2**32 + 4, 5])
    expected = np.stack([summed(whole, np.array([3, 4])), whole[5]])
    check(
        CompressedBag(find("EmbeddingBagOffsetsSum", 3)(), table, narrowed=True),
        [i64(ids), i64([2**32, 2])],
        expected,
    )


@pytest.mark.parametrize("bad", [-1, ROWS, 2**32 + 1, 2**63 - 1, -(2**63)])
@pytest.mark.parametrize("position", [0, 99, 199])
@pytest.mark.parametrize("stored", ["u8", "packed u4"])
def test_bad_index_is_refused(bad: int, position: int, stored: str) -> None:
    table, _ = compressed(stored, 24, ("row", "row", False))
    ids = np.arange(200) % ROWS
    ids[position] = bad
    results, choice = run_native(
        CompressedBag(find("EmbeddingBagOffsetsSum", 3)(), table),
        [i64(ids), i64(np.arange(0, 200, 7))],
    )
    assert isinstance(choice, KernelPlan) and results is None
    if not -ROWS <= bad < ROWS:
        strict = CompressedGather(find("Gather", 8)().replace(strict=True), table)
        assert run_native(strict, [i64(ids), i64(0)])[0] is None
        assert (
            run_native(CompressedGather(find("Gather", 8)(), table), [i64(ids), i64(0)])[0]
            is not None
        )


@pytest.mark.parametrize("offsets", [[0, 5, 4], [-1, 2, 3], [0, 2, 2**40], [0, 201, 201]])
def test_bad_offsets_are_refused(offsets: list[int]) -> None:
    table, _ = compressed("u8", 24, ("row", "row", False))
    results, _ = run_native(
        CompressedBag(find("EmbeddingBagOffsetsSum", 3)(), table),
        [i64(np.zeros(200)), i64(offsets)],
    )
    assert results is None


def test_bad_default_and_segments_are_refused() -> None:
    table, _ = compressed("u8", 24, ("row", "row", False))
    bag = CompressedBag(find("EmbeddingBagOffsetsSum", 3)(), table)
    assert run_native(bag, [i64([1, 2]), i64([0, 2]), i64(ROWS)])[0] is None
    assert run_native(bag, [i64([1, 2]), i64([0, 1]), i64(ROWS)])[0] is not None  # no bag is empty
    segments = CompressedSegments(find("EmbeddingSegmentsSum", 3)(), table)
    for ids in ([0, 5], [5, 0], [-1, 0], [0, -1]):
        assert run_native(segments, [i64([1, 2]), i64(ids), i64(5)])[0] is None
    (falling,), _ = run_native(segments, [i64([1, 2]), i64([1, 0]), i64(5)])
    (rising,), _ = run_native(segments, [i64([2, 1]), i64([0, 1]), i64(5)])
    np.testing.assert_array_equal(falling, rising)


@pytest.mark.parametrize("index", ["i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64"])
def test_gather_by_any_integer(index: str) -> None:
    table, whole = compressed("u8", 20, ("one", "row", False))
    ids = np.array([0, 3, 59, 17], ElementType.parse(index).dtype)
    check(
        CompressedGather(find("Gather", 8)(), table),
        [spec_of(ids, ElementType.parse(index)), i64(0)],
        whole[ids.astype(int)],
    )


def test_rows_of_several_dimensions() -> None:
    table, whole = compressed("u8", 24, ("row", "row", False))
    shaped = CompressedTable(
        table.element_type,
        (ROWS, 2, 3, 4),
        table.codes.reshape(ROWS, 2, 3, 4),
        table.zero_point,
        table.scale,
    )
    check(
        CompressedGather(find("Gather", 8)(), shaped), [i64(7), i64(0)], whole[7].reshape(2, 3, 4)
    )
    check(
        CompressedBag(find("EmbeddingBagOffsetsSum", 3)(), shaped),
        [i64([7]), i64([0])],
        whole[7].reshape(1, 2, 3, 4),
    )
