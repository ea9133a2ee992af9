"""Layers whose result has a size that their data tell, as two layers that kernels run: see
`passes/count_first.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("llvmlite")

import uncork
from tests.kernels._run import run_native, spec_of
from tests.kernels.test_open_sizes import hold
from tests.ops.test_every_op import ALL, agree
from tests.samples._sample import Sample, Samples
from uncork.errors import UncorkError
from uncork.ir.model import Model, Node, Source
from uncork.ops import Operation
from uncork.passes.count_first import TYPES, count_first
from uncork.types import ElementType, TensorSpec

ENTRIES = [
    pytest.param(e, id=e.operation.label()) for e in ALL.values() if e.operation.type_name in TYPES
]
SAMPLES = [
    pytest.param(p.values[0], s, id=f"{p.values[0].operation.label()}: {s.name}")
    for p in ENTRIES
    for s in p.values[0].samples
]
#: Samples that kernels do not compute: what the pass leaves as it is, and what a kernel gives up.
STAYS = {
    *("strings", "rows", "columns", "no slices", "empty slices are equal"),  # Unique of slices
    # SegmentMax that is told how many segments there are
    *("page example 1: fewer segments than ids", "page example 2: more segments"),
    *("no rows, some segments", "no segments"),
    *("f64", "f64 scores", "f16 boxes", "bf16 thresholds"),
    *(  # MulticlassNms by thresholds that fall, of pixels, and with boxes of each class
        "the threshold falls after the first box: 0.85 to 0.765",
        "and again after the second, for boxes still left: 0.9, 0.72",
        "the threshold at which a box passed counts, not a later one",
        "pixels: 8 of 12",
        *("pixels", "pixels that touch share an edge", "near but not touching"),  # MatrixNms
        "boxes of each class",
        "the threshold falls",  # GenerateProposals
        "an image without boxes",
        "boxes of no image",
    ),
}
REFUSED = {"entries out of order, and two at one place"}


def boxes_of(
    generator: np.random.Generator, images: int, classes: int, count: int
) -> list[TensorSpec]:
    """Boxes of about the same size around a few places, and scores."""
    centers = generator.integers(0, 4, (images, count, 2)) + generator.uniform(
        -0.2, 0.2, (images, count, 2)
    )
    boxes = np.concatenate(
        [centers - 0.5, centers + generator.uniform(0.4, 0.6, (images, count, 2))], 2
    ).astype(np.float32)
    scores = np.round(generator.uniform(0, 1, (images, classes, count)), 2).astype(
        np.float32
    )  # some are equal
    return [spec_of(array, ElementType.f32) for array in (boxes, scores)]


def model_of(operation: Operation, specs: Sequence[TensorSpec | None]) -> Model:
    """A model of one layer. Its small inputs are constants, those with data parameters."""
    builder = uncork.Builder()
    sources = []
    for number, spec in enumerate(s for s in specs if s is not None):
        if number < 1 or spec.value.size > 2:
            sources.append(
                builder.parameter(f"input_{number}", spec.element_type, spec.shape.static)
            )
        else:
            sources.append(builder.constant(spec.value, spec.element_type))
    texts = operation.to_text()
    for source in builder.add(
        operation.type_name, operation.opset, *sources, **_read(operation, texts)
    ):
        builder.result(source)
    return builder.model()


def _read(operation: Operation, texts: dict[str, str]) -> dict[str, object]:
    return {name: getattr(operation, name) for name in texts if name in operation.attributes}


def nodes_of(operation: Operation, specs: Sequence[TensorSpec | None]) -> list[Node]:
    """The two layers; empty where the pass leaves the layer as it is."""
    model = count_first(model_of(operation, specs))
    found = [
        node
        for node in model.nodes
        if node.operation is not None and node.type_name not in ("Parameter", "Const", "Result")
    ]
    return found if len(found) == 2 else []


def two_layers(
    operation: Operation, specs: Sequence[TensorSpec]
) -> Iterator[tuple[Operation, list[TensorSpec]]]:
    """Both layers with their inputs; those of the second are what the first one's reference
    gives.
    """
    first, second = nodes_of(operation, specs)
    assert first.operation is not None and second.operation is not None
    given_sources = model_of(operation, specs).nodes[-len(operation.outputs) - 1].inputs
    values: dict[Source, TensorSpec] = dict(zip(given_sources, specs, strict=True))
    inputs = [values[source] for source in first.inputs]
    yield first.operation, inputs
    values |= {
        Source(first.id, i): output for i, output in enumerate(first.operation.evaluate(inputs))
    }
    yield second.operation, [values[source] for source in second.inputs]


def by_kernels(
    operation: Operation, specs: Sequence[TensorSpec]
) -> tuple[list[np.ndarray] | None, str]:
    """What both kernels give; None where one refuses the values, and why there are none."""
    nodes = nodes_of(operation, specs)
    if not nodes:
        return None, "stays"
    first, second = nodes
    sources = [
        source
        for source in dict.fromkeys([*first.inputs, *second.inputs])
        if source.node != first.id
    ]
    values: dict[Source, TensorSpec] = dict(
        zip(sorted(sources, key=lambda s: s.node), specs, strict=False)
    )
    for node in nodes:
        assert node.operation is not None
        inputs = [values[source] for source in node.inputs]
        results, choice = run_native(node.operation, inputs)
        if isinstance(choice, str):
            return None, choice
        if results is None:
            return None, "refused"
        described = node.operation.describe(inputs)
        values |= {
            Source(node.id, i): spec_of(array, d.element_type)
            for i, (array, d) in enumerate(zip(results, described, strict=True))
        }
    return [values[Source(second.id, i)].value for i in range(len(operation.outputs))], ""


def check(entry: Samples, operation: Operation, specs: Sequence[TensorSpec | None]) -> str:
    """The kernels give what the layer's own reference gives; the result is why they do not compute
    the case.
    """
    try:
        expected = operation.evaluate(specs)
    except UncorkError:
        expected = None
    results, why = by_kernels(operation, [s for s in specs if s is not None])
    if results is None:
        return why
    assert expected is not None, "the reference refuses what the kernels computed"
    for got, wanted in zip(results, expected, strict=True):
        agree(got, wanted.value, wanted.element_type, entry.rtol, entry.atol)
    return ""


@pytest.mark.parametrize(("entry", "sample"), SAMPLES)
def test_sample(entry: Samples, sample: Sample) -> None:
    why = check(entry, entry.operation(**sample.case.attributes), sample.case.specs())
    assert why == ("stays" if sample.name in STAYS else "refused" if sample.name in REFUSED else "")


@pytest.mark.parametrize("entry", ENTRIES)
def test_random_cases(entry: Samples) -> None:
    taken = 0

    @settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
    @given(data=st.data())
    def run(data: st.DataObject) -> None:
        nonlocal taken
        case = data.draw(entry.cases)
        specs = case.specs()
        given = [spec for spec in specs if spec is not None]
        if any(spec is None for spec in specs[: len(given)]):
            return
        taken += not check(entry, entry.operation(**case.attributes), specs)

    run()
    assert taken, "no kernel took any case"


# ---- in a plan


def test_non_zero_in_front_of_kernels() -> None:
    """Columns of a table by a mask, then a product: its rows are as many as were found."""
    generator = np.random.default_rng(1)
    builder = uncork.Builder()
    mask, table = (
        builder.parameter("mask", "boolean", [None]),
        builder.parameter("table", "f32", [None, 8]),
    )
    (places,) = builder.add("NonZero", 3, mask)
    (flat,) = builder.add("Squeeze", 1, places, builder.constant(np.array([0])))
    (rows,) = builder.add("Gather", 8, table, flat, builder.constant(np.int64(0)))
    (dense,) = builder.add(
        "MatMul", 1, rows, builder.constant(generator.standard_normal((8, 3)).astype(np.float32))
    )
    builder.result(dense, "y")
    sizes = [(5, 0.5), (300, 0.1), (70, 0.9), (4, 0.0), (300, 1.0)]
    calls = [
        [generator.random(n) < share, generator.standard_normal((n, 8)).astype(np.float32)]
        for n, share in sizes
    ]
    hold(builder.model(), calls)


@pytest.mark.parametrize("is_sorted", [True, False])
def test_unique_in_front_of_kernels(is_sorted: bool) -> None:
    generator = np.random.default_rng(2)
    builder = uncork.Builder()
    ids = builder.parameter("ids", "i32", [None, None])
    unique = builder.add("Unique", 10, ids, sorted=is_sorted)
    for number, source in enumerate(unique):
        builder.result(source, f"result_{number}")
    table = builder.constant(generator.standard_normal((50, 4)).astype(np.float32))
    builder.result(
        builder.add("Gather", 8, table, unique[0], builder.constant(np.int64(0)))[0], "rows"
    )
    hold(
        builder.model(),
        [
            [generator.integers(0, 50, shape).astype(np.int32)]
            for shape in ((3, 4), (1, 1), (40, 9), (2, 70))
        ],
    )


def test_filled_rows_in_front_of_kernels() -> None:
    generator = np.random.default_rng(3)
    builder = uncork.Builder()
    values, indices = (
        builder.parameter("values", "i64", [None]),
        builder.parameter("indices", "i64", [None, 2]),
    )
    shape = builder.parameter("shape", "i64", [2])
    places, filled, empty = builder.add(
        "SparseFillEmptyRows", 16, values, shape, indices, builder.constant(np.int64(7))
    )
    for number, source in enumerate((places, empty, builder.add("Negative", 1, filled)[0])):
        builder.result(source, f"result_{number}")
    calls = []
    for rows, entries in ((5, 3), (1, 0), (20, 60)):
        found = np.stack([np.sort(generator.integers(0, rows, entries)), np.zeros(entries, int)], 1)
        calls.append([generator.integers(0, 9, entries), found, np.array([rows, 1])])
    hold(builder.model(), [call for call in calls if len(call[0])])


@pytest.mark.parametrize("limit", [3, None])
def test_boxes_in_front_of_kernels(limit: int | None) -> None:
    """As detectors end: the boxes that were taken are gathered. The most of a class is a constant,
    or of the call.
    """
    generator = np.random.default_rng(4)
    builder = uncork.Builder()
    boxes, scores = (
        builder.parameter("boxes", "f32", [1, None, 4]),
        builder.parameter("scores", "f32", [1, None, None]),
    )
    most = (
        builder.parameter("most", "i64", [1])
        if limit is None
        else builder.constant(np.int64(limit))
    )
    thresholds = [builder.constant(np.float32(number)) for number in (0.4, 0.2)]
    rows, row_scores, number = builder.add("NonMaxSuppression", 9, boxes, scores, most, *thresholds)
    (column,) = builder.add(
        "Gather", 8, rows, builder.constant(np.array(2)), builder.constant(np.int64(1))
    )
    (one_image,) = builder.add("Squeeze", 1, boxes, builder.constant(np.array([0])))
    (taken,) = builder.add("Gather", 8, one_image, column, builder.constant(np.int64(0)))
    for position, source in enumerate((taken, row_scores, number)):
        builder.result(source, f"result_{position}")
    calls = []
    for classes, count in ((1, 5), (3, 40), (2, 17)):
        arrays = [spec.value for spec in boxes_of(generator, 1, classes, count)]
        calls.append(arrays if limit is not None else [*arrays, np.array([classes])])
    hold(builder.model(), calls)
