"""Tables that layers compute from small numbers: recognised, looked up exactly, and never made."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import uncork
from uncork import Builder, ElementType, InputError, Model
from uncork.compiler import execute
from uncork.files import SMALL
from uncork.internal_ops.packed_const import PackedConst
from uncork.internal_ops.quantized_lookup import CompressedLookup
from uncork.ir.model import Source
from uncork.passes.quantized_tables import compressed_tables, packed_tables

ROWS, COLUMNS = 5000, 12
IDS = np.array([0, 4999, 17, 17, 2500, 1, 4998])
OFFSETS = np.array([0, 3, 3])


@pytest.fixture(scope="module")
def numbers() -> dict[str, np.ndarray]:
    """Whole numbers that every type of them holds, and parameters for each row."""
    generator = np.random.default_rng(5)
    return {
        "codes": generator.integers(0, 8, (ROWS, COLUMNS)),
        "zero": generator.integers(0, 8, (ROWS, 1)),
        "scale": generator.integers(1, 64, (ROWS, 1)) / 16,  # exact in f16 as well
    }


class Chain:
    """Builds a table: each step gives the next its output."""

    def __init__(self, codes: np.ndarray, stored: str, arithmetic: str = "f32") -> None:
        self.builder = Builder("chain")
        self.arithmetic = ElementType.parse(arithmetic)
        values = codes.astype(np.float32)
        carried = {
            "f16": values.astype(np.float16),
            "bf16": (values.view(np.uint32) >> 16).astype(np.uint16),
        }.get(stored, codes)
        self.out = self.builder.constant(
            carried.astype(ElementType.parse(stored).dtype), stored, name="users"
        )
        self.convert(self.arithmetic)

    def convert(self, to: ElementType = ElementType.f32) -> Chain:
        (self.out,) = self.builder.add("Convert", 1, self.out, destination_type=to)
        return self

    def constant(self, value: object) -> Source:
        return self.builder.constant(np.asarray(value, self.arithmetic.dtype))

    def minus(self, value: object) -> Chain:
        (self.out,) = self.builder.add(
            "Subtract", 1, self.out, value if isinstance(value, Source) else self.constant(value)
        )
        return self

    def times(self, value: object, first: bool = False) -> Chain:
        factor = self.constant(value)
        (self.out,) = self.builder.add(
            "Multiply", 1, *((factor, self.out) if first else (self.out, factor))
        )
        return self

    def looked_up(self) -> Model:
        """Bags and Gather on the table."""
        builder = self.builder
        ids, offsets = (
            builder.parameter("ids", "i64", [None]),
            builder.parameter("offsets", "i64", [3]),
        )
        builder.result(
            builder.add("EmbeddingBagOffsetsSum", 3, self.out, ids, offsets, name="bags")[0], "sums"
        )
        builder.result(
            builder.add("Gather", 8, self.out, ids, builder.constant(np.int64(0)), name="pick")[0],
            "rows",
        )
        return builder.model()


def converted(chain: Chain, zero: np.ndarray, stored: str) -> Source:
    """Zero points as NNCF stores them: small integers with a Convert of their own."""
    constant = chain.builder.constant(zero.astype(ElementType.parse(stored).dtype), stored)
    return chain.builder.add("Convert", 1, constant, destination_type=chain.arithmetic)[0]


CHAINS: dict[str, Callable[[dict[str, np.ndarray]], tuple[Chain, bool, bool]]] = {
    # name: (the chain, it has zero points, it has scales), each one for each row
    "u8, zero points, scales": lambda n: (
        Chain(n["codes"], "u8").minus(n["zero"]).times(n["scale"]),
        True,
        True,
    ),
    "u8, scales first": lambda n: (
        Chain(n["codes"], "u8").minus(n["zero"]).times(n["scale"], first=True),
        True,
        True,
    ),
    "i8, scales": lambda n: (Chain(n["codes"], "i8").times(n["scale"]), False, True),
    "u4, zero points, scales": lambda n: (
        Chain(n["codes"], "u4").minus(n["zero"]).times(n["scale"]),
        True,
        True,
    ),
    "i4, zero points": lambda n: (Chain(n["codes"], "i4").minus(n["zero"]), True, False),
    "f16": lambda n: (Chain(n["codes"], "f16"), False, False),
    "bf16": lambda n: (Chain(n["codes"], "bf16"), False, False),
    "f16, scales": lambda n: (Chain(n["codes"], "f16").times(n["scale"]), False, True),
    "u8 in f16": lambda n: (
        Chain(n["codes"], "u8", "f16").minus(n["zero"]).times(n["scale"]).convert(),
        True,
        True,
    ),
    "u8, zero points converted": lambda n: (
        (c := Chain(n["codes"], "u8")).minus(converted(c, n["zero"], "u8")).times(n["scale"]),
        True,
        True,
    ),
    "u4 in f16, zero points converted": lambda n: (
        (c := Chain(n["codes"], "u4", "f16"))
        .minus(converted(c, n["zero"], "u4"))
        .times(n["scale"])
        .convert(),
        True,
        True,
    ),
}


@pytest.mark.parametrize("name", CHAINS)
def test_recognised_and_exact(name: str, numbers: dict[str, np.ndarray]) -> None:
    chain, has_zero, has_scale = CHAINS[name](numbers)
    model = chain.looked_up()
    table = numbers["codes"].astype(np.float64) - (numbers["zero"] if has_zero else 0)
    table = table * (
        numbers["scale"] if has_scale else 1
    )  # all exact: multiples of 1/16 far below 2**11
    compiled = uncork.compile_model(model)
    sums, rows = compiled(IDS, OFFSETS)
    np.testing.assert_array_equal(rows, table[IDS])
    np.testing.assert_array_equal(
        sums, [table[IDS[:3]].sum(0), np.zeros(COLUMNS), table[IDS[3:]].sum(0)]
    )
    lean = compressed_tables(model, None)
    assert {n.name for n in lean.nodes if isinstance(n.operation, CompressedLookup)} == {
        "bags",
        "pick",
    }
    assert not [n for n in lean.nodes if n.type_name in ("Convert", "Subtract", "Multiply")], (
        "layers that only made the table are gone"
    )
    assert [s.layer for s in compiled.plan.steps] == ["bags", "pick"]
    np.testing.assert_array_equal(
        uncork.compile_model(model, backend="reference")(IDS, OFFSETS)[0], sums
    )


def test_a_scalar_serves_all_rows(numbers: dict[str, np.ndarray]) -> None:
    for scale in (np.float32(0.5), np.full(1, 0.5), np.full((1, 1), 0.5)):
        model = Chain(numbers["codes"], "u8").minus(3).times(scale).looked_up()
        assert compressed_tables(model, None) is not model
        np.testing.assert_array_equal(
            uncork.compile_model(model)(IDS, OFFSETS)["rows"], (numbers["codes"][IDS] - 3.0) / 2
        )


@pytest.mark.parametrize(
    "name",
    [
        "a zero point given at the call",
        "integers of 32 bits",
    ],
)
def test_other_chains_are_left_as_they_are(name: str, numbers: dict[str, np.ndarray]) -> None:
    chain = Chain(numbers["codes"], "i32" if name == "integers of 32 bits" else "u8")
    table, given = numbers["codes"].astype(np.float64), []
    if name == "a zero point given at the call":
        chain, table, given = (
            chain.minus(chain.builder.parameter("zero", "f32", [ROWS, 1])),
            table - 2,
            [np.full((ROWS, 1), 2, np.float32)],
        )
    model = chain.looked_up()
    assert compressed_tables(model, None) is model
    np.testing.assert_array_equal(
        uncork.compile_model(model)(*given, IDS, OFFSETS)["rows"], table[IDS]
    )


MORE_STEPS = {
    "a scale for each column": lambda c, t, n: (
        c.times(np.arange(COLUMNS)),
        t * np.arange(COLUMNS),
    ),
    "twice scaled": lambda c, t, n: (c.times(2).times(n["scale"]), t * 2 * n["scale"]),
    "zero points behind scales": lambda c, t, n: (
        c.times(n["scale"]).minus(n["zero"]).times(2),
        (t * n["scale"] - n["zero"]) * 2,
    ),
    "zero points twice": lambda c, t, n: (c.minus(n["zero"]).minus(3), t - n["zero"] - 3),
}


@pytest.mark.parametrize("arithmetic", ["f32", "f16"])
@pytest.mark.parametrize("stored", ["u8", "u4"])
@pytest.mark.parametrize("name", MORE_STEPS)
def test_more_steps_than_zero_points_and_scales(
    name: str, stored: str, arithmetic: str, numbers: dict[str, np.ndarray]
) -> None:
    chain = Chain(numbers["codes"], stored, arithmetic)
    chain, table = MORE_STEPS[name](chain, numbers["codes"].astype(np.float64), numbers)
    model = (chain.convert() if arithmetic == "f16" else chain).looked_up()
    compiled = uncork.compile_model(model)
    sums, rows = compiled(IDS, OFFSETS)
    np.testing.assert_array_equal(rows, table[IDS])
    np.testing.assert_array_equal(
        sums, [table[IDS[:3]].sum(0), np.zeros(COLUMNS), table[IDS[3:]].sum(0)]
    )
    assert [step.layer for step in compiled.plan.steps] == ["bags", "pick"]
    pytest.importorskip("llvmlite")  # from here on
    assert not [s for s in compiled.plan.steps if s.kernel == "reference"]
    reference = uncork.compile_model(model, backend="reference")(IDS, OFFSETS)
    np.testing.assert_array_equal(reference["rows"], rows)


def test_codes_of_a_long_table(numbers: dict[str, np.ndarray]) -> None:
    chain = Chain(numbers["codes"], "u8")
    table = np.random.default_rng(3).standard_normal(200).astype(np.float32)
    codes = np.random.default_rng(4).integers(0, 200, (ROWS, COLUMNS)).astype(np.uint8)
    builder = chain.builder
    (chain.out,) = builder.add(
        "Gather",
        8,
        builder.constant(table),
        builder.constant(codes),
        builder.constant(np.int64(0)),
    )
    model = chain.times(numbers["scale"]).looked_up()
    compiled = uncork.compile_model(model)
    expected = table[codes] * numbers["scale"].astype(np.float32)
    np.testing.assert_array_equal(compiled(IDS, OFFSETS)["rows"], expected[IDS])
    assert [step.layer for step in compiled.plan.steps] == ["bags", "pick"]
    pytest.importorskip("llvmlite")  # from here on
    assert not [s for s in compiled.plan.steps if s.kernel == "reference"]


@pytest.mark.parametrize(("axis", "batch"), [(1, 0), (1, 1)])
def test_gather_along_another_axis_is_left_as_it_is(
    axis: int, batch: int, numbers: dict[str, np.ndarray]
) -> None:
    chain = Chain(numbers["codes"], "u8").times(0.25)
    places = np.zeros((ROWS, 1), np.int64) + 3 if batch else np.array([3])
    ids = chain.builder.parameter("ids", "i64", places.shape)
    (out,) = chain.builder.add(
        "Gather", 8, chain.out, ids, chain.builder.constant(np.int64(axis)), batch_dims=batch
    )
    chain.builder.result(out, "rows")
    model = chain.builder.model()
    assert compressed_tables(model, None) is model
    np.testing.assert_array_equal(
        uncork.compile_model(model)(places)[0], numbers["codes"][:, 3:4] / 4
    )


def test_a_table_that_others_read_too(numbers: dict[str, np.ndarray]) -> None:
    """Look-ups take the codes; the product needs the table and gets it."""
    chain = Chain(numbers["codes"], "u4").times(numbers["scale"])
    x = chain.builder.parameter("x", "f32", [1, COLUMNS])
    (scores,) = chain.builder.add("MatMul", 1, x, chain.out, transpose_b=True)
    chain.builder.result(scores, "scores")
    model = chain.looked_up()
    table = numbers["codes"] * numbers["scale"]
    for _ in range(2):
        scores, _, rows = uncork.compile_model(model)(
            np.ones((1, COLUMNS), np.float32), IDS, OFFSETS
        )
        np.testing.assert_array_equal(rows, table[IDS])
        np.testing.assert_allclose(scores[0], table.sum(1), rtol=1e-6)
    assert "users" not in [step.layer for step in uncork.compile_model(model).plan.steps], (
        "a constant is no step"
    )


def test_ids_converted_first_are_taken_as_they_come(numbers: dict[str, np.ndarray]) -> None:
    chain = Chain(numbers["codes"], "u8").minus(numbers["zero"]).times(numbers["scale"])
    builder = chain.builder
    narrow = [
        builder.add(
            "Convert", 1, builder.parameter(n, "i64", [None]), destination_type=ElementType.i32
        )[0]
        for n in ("ids", "offsets")
    ]
    builder.result(
        builder.add("EmbeddingBagOffsetsSum", 3, chain.out, *narrow, name="bags")[0], "sums"
    )
    compiled = uncork.compile_model(builder.model(), ids="as-written")
    expected = ((numbers["codes"] - numbers["zero"]) * numbers["scale"])[IDS[:3]].sum(0)
    np.testing.assert_array_equal(
        compiled(IDS + 2**32, [0, 3])[0][0], expected
    )  # the Convert wraps
    assert [s.layer for s in compiled.plan.steps] == ["bags"]


def test_errors_are_those_of_the_layer(numbers: dict[str, np.ndarray]) -> None:
    model = Chain(numbers["codes"], "u8").times(numbers["scale"]).looked_up()
    for backend in ("cpu", "reference"):
        with pytest.raises(
            InputError,
            match=r"layer 'bags' \(EmbeddingBagOffsetsSum-3, id \d+\): .*indices\[1\] is 5000, "
            r"expected 0 to 4999",
        ):
            uncork.compile_model(model, backend=backend)([1, ROWS], [0, 0, 1])


def test_the_model_stays_one_that_can_be_written(
    tmp_path: Path, numbers: dict[str, np.ndarray]
) -> None:
    model = Chain(numbers["codes"], "u4").minus(numbers["zero"]).times(numbers["scale"]).looked_up()
    compiled = uncork.compile_model(model)
    uncork.write_model(compiled.model, tmp_path / "again.xml")
    again = uncork.read_model(tmp_path / "again.xml")
    (constant,) = [n for n in again.nodes if n.name == "users"]
    np.testing.assert_array_equal(constant.operation.value, numbers["codes"])
    np.testing.assert_array_equal(
        uncork.compile_model(again)(IDS, OFFSETS)[1], compiled(IDS, OFFSETS)[1]
    )


@pytest.mark.parametrize("element_type", ["u4", "i4"])
def test_packed_constant(element_type: str) -> None:
    values = np.array([[1, 7, 3], [0, 5, 2]]) - (4 if element_type == "i4" else 0)
    packed = (
        np.array([0x71, 0x03, 0x25], np.uint8)
        if element_type == "u4"
        else np.array([0x3D, 0xCF, 0xE1], np.uint8)
    )
    constant = PackedConst.of(ElementType.parse(element_type), (2, 3), packed)
    np.testing.assert_array_equal(constant.value, values)
    assert constant.infer().value is None and constant.count == 6


# ---- memory: what NumPy allocates, and not what is mapped


#: So many that each file is mapped: small ones are copied, and nothing could be told of them.
WIDE, MANY = 256, 80_000
F32_BYTES = 4 * WIDE * MANY


def memory_of(work: Callable[[], object]) -> tuple[int, int]:
    """Bytes that are kept when it has worked, and the most that were allocated at a time."""
    tracemalloc.start()
    try:
        work()
        gc.collect()
        return tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()


@pytest.fixture(scope="module", params=["u8", "u4", "f16"])
def large(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model file whose table would be 82 MB in f32."""
    codes = np.random.default_rng(1).integers(0, 16, (MANY, WIDE))
    chain = Chain(codes, request.param)
    if request.param != "f16":
        chain.minus(np.ones((MANY, 1))).times(np.full((MANY, 1), 0.5))
    builder = chain.builder
    ids, offsets, segments = (
        builder.parameter(n, "i64", [None]) for n in ("ids", "offsets", "segments")
    )
    builder.result(
        builder.add("EmbeddingBagOffsetsSum", 3, chain.out, ids, offsets, name="bags")[0], "bags"
    )
    builder.result(
        builder.add(
            "EmbeddingSegmentsSum", 3, chain.out, ids, segments, builder.constant(np.int64(4))
        )[0],
        "segments",
    )
    builder.result(
        builder.add("Gather", 8, chain.out, ids, builder.constant(np.int64(0)))[0], "rows"
    )
    path = tmp_path_factory.mktemp("large") / f"{request.param}.xml"
    uncork.write_model(builder.model(), path)
    return path


@pytest.mark.parametrize("kernels", [True, False])
def test_the_table_is_never_made(
    large: Path, kernels: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kernels:
        pytest.importorskip("llvmlite")
    else:
        monkeypatch.setattr(execute, "kernels_available", lambda: False)
    ids, offsets = np.arange(0, MANY, MANY // 100), np.array([0, 10, 50])
    unsorted = np.array([3, 1] * 50)  # which kernels leave to the reference
    wrong = ids.copy()
    wrong[7] = MANY
    uncork.load(large)(ids, offsets, np.sort(unsorted))  # kernels are compiled
    compiled: list[uncork.CompiledModel] = []
    kept, loading = memory_of(lambda: compiled.append(uncork.load(large)))
    file = large.with_suffix(".bin").stat().st_size
    read = file if file <= SMALL else 0  # small files are read, larger ones are mapped
    assert loading < F32_BYTES / 20 + read, f"loading took {loading:,} bytes"
    assert kept < F32_BYTES / 200 + read, f"the loaded model keeps {kept:,} bytes"

    def calls() -> None:
        for segments in (np.sort(unsorted), unsorted):
            rows = compiled[0](ids, offsets, segments)["rows"]
            assert rows.shape == (100, WIDE)
        with pytest.raises(InputError, match=rf"indices\[7\] is {MANY}"):
            compiled[0](wrong, offsets, unsorted)

    _, calling = memory_of(calls)
    assert calling < F32_BYTES / 20, f"calls took {calling:,} bytes"


def test_tables_of_4_bits_stay_packed(large: Path) -> None:
    if large.stem != "u4":
        return
    read = uncork.read_model(large)
    assert packed_tables(read) is read, "they are read so"
    codes = next(n.operation.value for n in uncork.read_model(large).nodes if n.name == "users")
    builder = Builder("built")  # where they are an array
    (wide,) = builder.add(
        "Convert", 1, builder.constant(codes, "u4", name="users"), destination_type=ElementType.f32
    )
    ids = builder.parameter("ids", "i64", [None])
    builder.result(builder.add("Gather", 8, wide, ids, builder.constant(np.int64(0)))[0])
    lean = packed_tables(builder.model())
    (constant,) = [n.operation for n in lean.nodes if n.name == "users"]
    assert isinstance(constant, PackedConst) and constant.packed.nbytes == MANY * WIDE // 2
    assert "value" not in vars(constant), "nobody has asked for the values"
    assert packed_tables(lean) is lean


GROUPS = {
    # name: the shapes of codes, zero points and scales
    "for each group": ((500, 3, 8), (500, 3, 1), (500, 3, 1)),
    "zero points for each row": ((500, 3, 8), (500, 1, 1), (500, 3, 1)),
    "a zero point for all": ((500, 3, 8), (1,), (500, 3, 1)),
    "groups of groups": ((500, 3, 2, 4), (500, 3, 1, 1), (500, 3, 2, 1)),
    "groups of three": ((500, 8, 3), (500, 8, 1), (500, 8, 1)),
    "for each number": ((500, 3, 8), (500, 1, 1), (500, 3, 8)),
    "for each column": ((500, 3, 8), (500, 1, 1), (1, 3, 8)),
    "for each place in a group": ((500, 3, 8), (500, 1, 1), (500, 1, 8)),
    "for the same group of all rows": ((500, 3, 8), (500, 1, 1), (1, 3, 1)),
    "rows joined": ((250, 2, 3, 8), (250, 2, 3, 1), (250, 2, 3, 1)),
}


@pytest.mark.parametrize("stored", ["u4", "i4", "u8"])
@pytest.mark.parametrize("name", GROUPS)
def test_tables_of_groups(name: str, stored: str) -> None:
    shape, zero, scale = GROUPS[name]
    generator = np.random.default_rng(8)
    chain = Chain(generator.integers(0, 8, shape), stored)
    zeros, scales = generator.integers(0, 8, zero), generator.integers(1, 64, scale) / 16
    chain.minus(zeros).times(scales)
    wide = chain.builder.constant(np.array([500, 24]))
    (chain.out,) = chain.builder.add("Reshape", 1, chain.out, wide, special_zero=False)
    model = chain.looked_up()
    lookups = [
        node.operation
        for node in compressed_tables(packed_tables(model), None).nodes
        if isinstance(node.operation, CompressedLookup)
    ]
    assert len(lookups) == 2
    ids, offsets = np.array([499, 0, 17]), np.array([0, 1, 3])
    results = uncork.compile_model(model)(ids, offsets)
    expected = uncork.compile_model(model, backend="reference")(ids, offsets)
    np.testing.assert_array_equal(results["rows"], expected["rows"])
    np.testing.assert_array_equal(results["sums"], expected["sums"])


@pytest.mark.parametrize("shape", [(0, 3, 2000), (7, 0, 2000), (1, 3, 2000)])
def test_tables_of_groups_of_few_rows(shape: tuple[int, int, int]) -> None:
    chain = Chain(np.ones(shape, int), "u4").times(np.full((*shape[:2], 1), 2))
    columns = shape[1] * shape[2]
    wide = chain.builder.constant(np.array([shape[0], columns]))
    (chain.out,) = chain.builder.add("Reshape", 1, chain.out, wide, special_zero=False)
    result = uncork.compile_model(chain.looked_up())(
        np.zeros(0, np.int64) if not shape[0] else np.array([0]), np.zeros(3, np.int64)
    )
    np.testing.assert_array_equal(result["rows"], np.full((min(shape[0], 1), columns), 2))
