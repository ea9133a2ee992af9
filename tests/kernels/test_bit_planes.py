"""Codes of 1, 2, 3 and 6 bits in bit planes: where every bit lies, and products and look-ups that
are those of the same codes in 4 or 8 bits.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import uncork
from tests.kernels._run import run_native, spec_of
from tests.kernels.test_compressed_dots import AVX2, AVX512, AVX_VNNI, runnable
from uncork import storage
from uncork.internal_ops.bit_planes import BIT_PLANES
from uncork.internal_ops.codes import Codes
from uncork.internal_ops.compressed_linear import CompressedLinear, CompressedMatrix
from uncork.internal_ops.quantized_lookup import CompressedGather, CompressedLookup, CompressedTable
from uncork.kernels.kernel_plan import KernelPlan
from uncork.kernels.runtime.target import LEVELS, host_target
from uncork.ops import find
from uncork.types import Array, ElementType

TARGETS = {
    "host": host_target(),
    "AVX-512": AVX512,
    "AVX-VNNI": AVX_VNNI,
    "AVX2": AVX2,
    "SSE4": LEVELS["x86-64-v2"],
}
#: Of each plane the bits, the first of them, and how many codes behind each other share a field.
LYING = {
    "u1": (4, [(1, 0)]),
    "u2": (4, [(2, 0)]),
    "u3": (4, [(2, 0), (1, 2)]),
    "u6": (8, [(4, 0), (2, 4)]),
}
#: Columns, inner size, size of a group: of whole blocks and parts of one.
SIZES = [(34, 136, 0), (9, 96, 32), (3, 320, 64), (51, 160, 40), (6, 1288, 0)]


def codes_in_planes(name: str, shape: tuple[int, ...]) -> tuple[Array, Array]:
    """Codes, and the same in bit planes."""
    kind = ElementType.parse(name)
    codes = np.random.default_rng(sum(shape)).integers(0, 1 << kind.bits, shape).astype(np.uint8)
    lying = Codes(kind, np.frombuffer(storage.pack(codes, kind), np.uint8), True)
    return codes, lying.in_planes(shape[0], codes[0].size).array


@pytest.mark.parametrize("name", LYING)
def test_where_bits_lie(name: str) -> None:
    codes, planes = codes_in_planes(name, (3, 200))
    wide, described = LYING[name]
    count = 512 // wide
    blocks = planes.reshape(3, -(-200 // count), -1)
    for row, code in ((0, 0), (1, 77), (2, 130), (2, 199)):
        block, within = divmod(code, count)
        byte, shift = within * wide // 8, within * wide % 8
        found, begin = 0, 0
        for bits, first in described:
            size = 64 * bits // wide
            part, at = divmod(byte, size)
            value = int(blocks[row, block, begin + at]) >> (shift + part * bits)
            found |= (value & ((1 << bits) - 1)) << first
            begin += size
        assert found == codes[row, code]
    form = BIT_PLANES[ElementType.parse(name)]
    np.testing.assert_array_equal(form.unpacked(planes, 200), codes)


def matrix(name: str, columns: int, inner: int, group: int) -> CompressedMatrix:
    """A matrix in bit planes."""
    _, planes = codes_in_planes(name, (columns, inner))
    shape = (columns, inner // (group or inner), group or inner)
    generator = np.random.default_rng(columns)
    zeros = generator.integers(0, 4, shape[:2]).astype(np.uint8)
    scales = generator.uniform(0.01, 0.02, shape[:2]).astype(np.float16)
    given = planes, (0, 1, 2), zeros, scales
    return CompressedMatrix(ElementType.parse(name), *given, packed=shape, planes=True)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ["u2", "u3", "u6"])
@pytest.mark.parametrize("activations", ["f32", "i8"])
def test_products(name: str, target: str, activations: str) -> None:
    given = TARGETS[target]
    if not runnable(given):
        pytest.skip("of another machine")
    for columns, inner, group in SIZES:
        weights = matrix(name, columns, inner, group)
        codes, _ = codes_in_planes(name, (columns, inner))
        np.testing.assert_array_equal(weights.carriers().reshape(columns, inner), codes)
        for rows in (1, 2, 9):
            x = np.random.default_rng(rows).standard_normal((rows, inner)).astype(np.float32)
            multiply = find("MatMul", 1)(transpose_b=True)
            operation = CompressedLinear(multiply, weights, activations=activations)
            results, choice = run_native(operation, [spec_of(x, ElementType.f32)], target=given)
            assert isinstance(choice, KernelPlan), choice
            assert results is not None
            expected = x.astype(np.float64) @ weights.values().astype(np.float64).T
            bound = {"f32": 2e-6, "i8": 2e-2}[activations]
            assert abs(results[0] - expected).max() <= bound * abs(expected).max()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ["u3", "u6"])
def test_look_ups(name: str, target: str) -> None:
    given = TARGETS[target]
    if not runnable(given):
        pytest.skip("of another machine")
    rows, inner = 40, 328
    codes, planes = codes_in_planes(name, (rows, inner))
    scale = np.random.default_rng(1).uniform(0.5, 1, rows).astype(np.float32)
    table = CompressedTable(
        ElementType.parse(name), (rows, inner), planes, None, scale, packed=True, planes=True
    )
    expected = codes.astype(np.float32) * scale[:, np.newaxis]
    ids = np.array([0, rows - 1, 7, -1, 7])
    specs = [spec_of(ids, ElementType.i64), spec_of(np.int64(0), ElementType.i64)]
    operation = CompressedGather(find("Gather", 8)(), table)
    results, choice = run_native(operation, specs, target=given)
    assert isinstance(choice, KernelPlan), choice
    assert results is not None
    np.testing.assert_array_equal(results[0], expected[ids])
    np.testing.assert_array_equal(table.rows(ids), expected[ids])


@pytest.mark.parametrize(("columns", "planes"), [(1 << 15, True), ((1 << 15) + 8, False)])
@pytest.mark.parametrize("how", ["Gather", "bags"])
def test_tables_whose_rows_are_long_or_summed_are_held_in_four_bits(
    columns: int, planes: bool, how: str
) -> None:
    codes = np.random.default_rng(2).integers(0, 4, (2, columns)).astype(np.uint8)
    builder = uncork.Builder("table")
    ids = builder.parameter("ids", "i32", [3])
    (table,) = builder.add("Convert", 1, builder.constant(codes, "u2"), destination_type="f32")
    (table,) = builder.add("Multiply", 1, table, builder.constant(np.float32(0.5)))
    if how == "Gather":
        (y,) = builder.add("Gather", 8, table, ids, builder.constant(np.int64(0)))
    else:
        offsets = builder.constant(np.array([0, 1, 2], np.int32))
        (y,) = builder.add("EmbeddingBagOffsetsSum", 3, table, ids, offsets)
    builder.result(y, "y")
    compiled = uncork.compile_model(builder.model())
    places = np.array([1, 0, 1], np.int32)
    np.testing.assert_array_equal(compiled(places)["y"], codes[places] * np.float32(0.5))
    (table_read,) = (
        node.operation.table
        for node in compiled.executor.prepared.nodes
        if isinstance(node.operation, CompressedLookup)
    )
    assert table_read.planes == (planes and how == "Gather")
