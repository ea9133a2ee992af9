"""Every kernel against its reference: on the operation's samples, on its random cases, and around
the edges of its blocks.
"""

from __future__ import annotations

import ctypes
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("llvmlite")

from tests.kernels._declined import DECLINED, REFUSED
from tests.kernels._run import run_native, spec_of
from tests.ops.test_every_op import ALL, agree
from tests.samples._sample import Case, Sample, Samples
from uncork import storage
from uncork.errors import UncorkError
from uncork.kernels import select
from uncork.kernels.embedding.spec_bags import Segments
from uncork.kernels.kernel_plan import KernelPlan
from uncork.kernels.runtime.kernel_cache import STORE
from uncork.ops import find
from uncork.types import ElementType, TensorSpec

WITH_KERNEL = [
    pytest.param(e, id=e.operation.label())
    for e in ALL.values()
    if select.family_of(e.operation.type_name)
    or (e.cases is not None and any(port.moved for port in e.operation.inputs))
]
CASES = [
    pytest.param(p.values[0], s, id=f"{p.values[0].operation.label()}: {s.name}")
    for p in WITH_KERNEL
    for s in p.values[0].samples
]


def check(entry: Samples, case: Case, shift: int = 0) -> str:
    """Kernel and reference agree; the result is empty, or why no kernel computed the case.

    A kernel may refuse what the reference computes, never the reverse.
    """
    operation = entry.operation(**case.attributes)
    specs = case.specs()
    results, choice = run_native(operation, specs, shift)
    if isinstance(choice, str):
        return choice
    try:
        expected = operation.evaluate(specs)
    except UncorkError:
        assert results is None, "the reference refuses what the kernel computed"
        return ""
    if results is None:
        return REFUSED
    for position, (got, wanted) in enumerate(zip(results, expected, strict=True)):
        # f32 kernels add in another order than the reference: a few units of the last place of the
        # sum of the terms.
        agree(got, wanted.value, wanted.element_type, 2e-5, 1e-5, f"output {position} of {case}")
    return ""


def in_f32(case: Case) -> Case:
    """The same case with its floats in f32."""
    wide = [
        a if a is None or not t.is_float else storage.decode(a, t).astype(np.float32)
        for a, t in zip(case.inputs, case.types, strict=True)
    ]
    names = [None if t is None else "f32" if t.is_float else t.name for t in case.types]
    return Case(wide, case.attributes, names)


@pytest.mark.parametrize(("entry", "sample"), CASES)
def test_sample(entry: Samples, sample: Sample) -> None:
    declined = check(entry, sample.case)
    assert declined == DECLINED.get((entry.operation.label(), sample.name), ""), (
        "see tests/kernels/_declined.py"
    )


def test_no_other_samples_are_declined() -> None:
    names = {(case.values[0].operation.label(), case.values[1].name) for case in CASES}
    assert set(DECLINED) <= names


@pytest.mark.parametrize("entry", WITH_KERNEL)
def test_random_cases(entry: Samples) -> None:
    taken = 0

    @settings(
        max_examples=300 if entry.operation.type_name in ("MatMul", "TopK") else 60,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(data=st.data())
    def run(data: st.DataObject) -> None:
        nonlocal taken
        case = data.draw(entry.cases)
        shift = data.draw(st.sampled_from([0, 0, 1, 2]))
        # Many kernels know f32 only, which is one of a dozen types that a case may have.
        taken += not (check(entry, case, shift) and check(entry, in_f32(case), shift))

    run()
    if select.family_of(entry.operation.type_name):
        assert taken, "no kernel took any case"


TABLES = ["f32", "f16", "bf16", "f64", "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64"]


@pytest.mark.parametrize("table_type", TABLES)
@pytest.mark.parametrize("columns", [0, 1, 3, 15, 16, 17, 63, 64, 65, 255, 256, 257, 600])
def test_bags_around_block_edges(table_type: str, columns: int) -> None:
    generator = np.random.default_rng(columns)
    element_type = ElementType.parse(table_type)
    count, bags, rows = 200, 37, 50
    values = generator.integers(-100, 100, (rows, columns))
    table = storage.encode(values / 8 if element_type.is_float else values, element_type)
    weights = storage.encode(
        generator.integers(-8, 8, count) / (4 if element_type.is_float else 1), element_type
    )
    offsets = np.sort(generator.integers(0, count, bags))
    offsets[0] = 0
    indices = generator.integers(0, rows, count)
    for given_weights in (False, True):
        operation = find("EmbeddingBagOffsetsSum", 3)()
        i64 = ElementType.i64
        specs = [
            spec_of(table, element_type),
            spec_of(indices, i64),
            spec_of(offsets, i64),
            spec_of(np.array(rows - 1), i64),
        ]
        if given_weights:
            specs.append(spec_of(weights, element_type))
        results, choice = run_native(operation, specs)
        assert isinstance(choice, KernelPlan), choice
        assert results is not None
        agree(results[0], operation.evaluate(specs)[0].value, element_type, 1e-5, 1e-4)


@pytest.mark.parametrize("bad", [-1, 50, 2**32 + 1, 2**63 - 1, -(2**63)])
@pytest.mark.parametrize("position", [0, 99, 199])
def test_bad_index_is_refused(bad: int, position: int) -> None:
    indices = np.arange(200) % 50
    indices[position] = bad
    table = np.ones((50, 24), np.float32)
    specs = [
        spec_of(table, ElementType.f32),
        spec_of(indices, ElementType.i64),
        spec_of(np.arange(0, 200, 7), ElementType.i64),
    ]
    results, _ = run_native(find("EmbeddingBagOffsetsSum", 3)(), specs)
    assert results is None


@pytest.mark.parametrize("offsets", [[0, 5, 4], [-1, 2, 3], [0, 2, 2**40], [0, 201, 201]])
def test_bad_offsets_are_refused(offsets: list[int]) -> None:
    table = np.ones((50, 24), np.float32)
    specs = [
        spec_of(table, ElementType.f32),
        spec_of(np.zeros(200, np.int64), ElementType.i64),
        spec_of(np.array(offsets), ElementType.i64),
    ]
    results, _ = run_native(find("EmbeddingBagOffsetsSum", 3)(), specs)
    assert results is None


@pytest.mark.parametrize(
    "item", [1, 2, 3, 4, 7, 8, 16, 17, 63, 64, 65, 1023, 1024, 1025, 2048, 5000]
)
@pytest.mark.parametrize("outer", [1, 3])
def test_gather_item_sizes(item: int, outer: int) -> None:
    generator = np.random.default_rng(item)
    data = generator.integers(0, 256, (outer, 20, item), np.uint8, endpoint=False)
    indices = generator.integers(-25, 25, 40)
    operation = find("Gather", 8)()
    specs = [
        spec_of(data, ElementType.u8),
        spec_of(indices, ElementType.i64),
        spec_of(np.array(1), ElementType.i64),
    ]
    results, choice = run_native(operation, specs, shift=1)
    assert isinstance(choice, KernelPlan), choice
    np.testing.assert_array_equal(results[0], operation.evaluate(specs)[0].value)


@pytest.mark.parametrize("hidden", [1, 15, 16, 17, 31, 32, 33, 70])
@pytest.mark.parametrize("batch", [1, 2, 7, 8, 9, 17])
@pytest.mark.parametrize(
    ("type_name", "attributes"),
    [
        ("GRUSequence", {"linear_before_reset": True}),
        ("GRUSequence", {"linear_before_reset": False}),
        ("LSTMSequence", {}),
        ("RNNSequence", {}),
    ],
)
def test_recurrent_sizes(
    type_name: str, attributes: dict[str, bool], hidden: int, batch: int
) -> None:
    generator = np.random.default_rng(hidden * 100 + batch)
    gates = {"GRUSequence": 3, "LSTMSequence": 4, "RNNSequence": 1}[type_name]
    biases = 4 if attributes.get("linear_before_reset") else gates
    steps, inner = 6, 5
    operation = find(type_name, 5)(hidden_size=hidden, direction="bidirectional", **attributes)

    def draw(*shape: int) -> TensorSpec:
        return spec_of(generator.standard_normal(shape).astype(np.float32), ElementType.f32)

    lengths = spec_of(generator.integers(0, steps, batch, endpoint=True), ElementType.i64)
    states = [draw(batch, 2, hidden) for _ in range(2 if type_name == "LSTMSequence" else 1)]
    weights = [
        draw(2, gates * hidden, inner),
        draw(2, gates * hidden, hidden),
        draw(2, biases * hidden),
    ]
    weights[1].value[...] /= np.sqrt(
        hidden
    )  # a larger recurrence is chaotic: it doubles every rounding at every step
    x = draw(batch, steps, inner)
    for row, length in enumerate(lengths.value):
        x.value[row, length:] = np.nan  # padded steps are never read
    specs = [x, *states, lengths, *weights]
    results, choice = run_native(operation, specs)
    assert isinstance(choice, KernelPlan), choice
    for got, wanted in zip(results, operation.evaluate(specs), strict=True):
        np.testing.assert_allclose(got, wanted.value, rtol=1e-5, atol=3e-6)


def test_the_table_names_every_selector() -> None:
    """Every function of the package that selects for layers stands in the table, and the table
    names no other; no type stands in two rows.
    """
    folder = Path(select.__file__).parent
    pattern = re.compile(r"^def (select_\w+)\(layer: Layer\) -> Selection:$", re.MULTILINE)
    selecting = set()
    for path in folder.rglob("select*.py"):
        module = ".".join(("uncork.kernels", *path.relative_to(folder).with_suffix("").parts))
        selecting |= {(module, name) for name in pattern.findall(path.read_text(encoding="utf-8"))}
    rows = [row.split(":") for row in (*select.SELECTORS, select.MOVES)]
    assert selecting == {(select.module_of(family), name) for family, name in rows}
    listed = [name for names in select.SELECTORS.values() for name in names.split()]
    assert len(listed) == len(set(listed))
    assert not select.VIEWS & set(listed)


@pytest.mark.parametrize("count", [3, 17, 40])
@pytest.mark.parametrize("index", ["i32", "i64"])
def test_segment_ids_that_go_up_and_down_write_nothing_outside(count: int, index: str) -> None:
    """An id far above the last one, at every place: the offsets of the segments up to it would lie
    outside.
    """
    dtype = np.dtype({"i32": np.int32, "i64": np.int64}[index])
    function = STORE.address(Segments(index, 8, 0))
    placed, indices = np.zeros(2 + count, np.int64), np.zeros(count, np.int64)
    for place in range(count - 1):
        ids = np.zeros(count, dtype)
        ids[place] = 1 << 20
        offsets = np.full(64, -7, dtype)
        words = np.array(
            [
                ids.ctypes.data, count, 2, offsets[32:].ctypes.data, indices.ctypes.data, 0,
                placed.ctypes.data,
            ],
            np.int64,
        )  # fmt: skip
        status = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(function)(words.ctypes.data)
        assert status == 1
        assert (offsets[:32] == -7).all() and (offsets[34:] == -7).all()
