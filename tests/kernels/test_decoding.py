"""CTCGreedyDecoder and GatherTree by kernels: many classes, equal numbers and NaN, open sizes, and
values that are left to the reference.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import uncork
from tests.kernels._run import run_native, spec_of
from tests.kernels.test_open_sizes import hold
from uncork import storage
from uncork.ops import find
from uncork.types import ElementType

TYPES = ["f32", "f16", "bf16", "f64"]


def probabilities(generator: np.random.Generator, *shape: int) -> np.ndarray:
    """Numbers of few levels: many of the largest ones are equal."""
    return generator.integers(0, 4, shape) / 4


def beams_of(generator: np.random.Generator, *shape: int, type_: Any = np.int32) -> list[Any]:
    """Inputs of GatherTree: steps, rows and beams. Some beams end early."""
    steps, rows, beams = shape
    ids = generator.integers(0, 9, shape)
    parents = generator.integers(0, beams, shape)
    lengths = generator.integers(0, steps + 2, rows)
    return [np.asarray(array, type_) for array in (ids, parents, lengths, 8)]


def holds(name: str, version: int, given: list[np.ndarray], types: list[str], **how: Any) -> None:
    operation = find(name, version)(**how)
    specs = [
        spec_of(array, ElementType.parse(element))
        for array, element in zip(given, types, strict=False)
    ]
    results, why = run_native(operation, specs)
    assert results is not None, why
    for got, wanted in zip(results, operation.evaluate(specs), strict=False):
        np.testing.assert_array_equal(got, wanted.value)


@pytest.mark.parametrize("merge", [True, False])
@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("classes", [1, 2, 7, 16, 17, 40, 1000])
def test_best_paths(merge: bool, name: str, classes: int) -> None:
    generator = np.random.default_rng(classes)
    rows, steps, kind = 3, 30, ElementType.parse(name)
    data = probabilities(generator, rows, steps, classes)
    data[:, ::7, classes // 2] = np.nan
    data[:, 1::9, :] = -np.inf
    wide = np.float64 if name == "f64" else np.float32
    lengths = np.array([30, 0, 17], np.int32)
    for blank in (None, 0, classes - 1):
        given = [storage.encode(data.astype(wide), kind), lengths]
        more = [] if blank is None else [np.array(blank, np.int64)]
        types = [name, "i32", "i64"]
        how = {"merge_repeated": merge, "classes_index_type": ElementType.i64}
        holds("CTCGreedyDecoderSeqLen", 6, [*given, *more], types, **how)
    mask = (np.arange(steps)[:, np.newaxis] < lengths).astype(wide)
    given = [storage.encode(a, kind) for a in (data.transpose(1, 0, 2).astype(wide), mask)]
    holds("CTCGreedyDecoder", 1, given, [name, name], ctc_merge_repeated=merge)


@pytest.mark.parametrize(("length", "blank"), [(5, 0), (-1, 0), (4, 3), (4, -1)])
def test_what_is_out_of_range_is_the_references(length: int, blank: int) -> None:
    builder = uncork.Builder()
    inputs = [
        builder.parameter(name, kind, shape)
        for name, kind, shape in (
            ("data", "f32", [1, 4, 3]),
            ("lengths", "i32", [1]),
            ("blank", "i32", []),
        )
    ]
    classes, _ = builder.add("CTCGreedyDecoderSeqLen", 6, *inputs)
    builder.result(classes, "y")
    given = [np.zeros((1, 4, 3), np.float32), np.int32([length]), np.array(blank, np.int32)]
    with pytest.raises(uncork.UncorkError, match=r"sequence_length|blank_index"):
        uncork.compile_model(builder.model())(*given)


@pytest.mark.parametrize("type_", [np.int32, np.int64, np.uint8, np.float32, np.float64])
@pytest.mark.parametrize("size", [(1, 1, 1), (20, 3, 5), (7, 2, 40)])
def test_beams(type_: Any, size: tuple[int, int, int]) -> None:
    given = beams_of(np.random.default_rng(size[2]), *size, type_=type_)
    name = ElementType.of_dtype(np.dtype(type_)).name
    holds("GatherTree", 1, given, [name] * 4)


@pytest.mark.parametrize("parent", [5, -1, 0.5, np.nan, 2.0**40])
def test_parents_that_are_none_are_the_references(parent: float) -> None:
    given = beams_of(np.random.default_rng(1), 4, 1, 5, type_=np.float32)
    given[1][3] = parent
    given[2][:] = 4
    operation = find("GatherTree", 1)()
    specs = [spec_of(array, ElementType.f32) for array in given]
    assert run_native(operation, specs)[0] is None
    with pytest.raises(uncork.UncorkError, match="parent_ids"):
        operation.evaluate(specs)


def test_one_plan_for_every_size() -> None:
    builder = uncork.Builder()
    names = {"data": [None, None, None], "ids": [None] * 3, "parents": [None] * 3}
    data, ids, parents = (
        builder.parameter(name, "f32" if name == "data" else "i32", shape)
        for name, shape in names.items()
    )
    lengths, of_beams = (builder.parameter(name, "i32", [None]) for name in ("lengths", "ends"))
    found = builder.add("CTCGreedyDecoderSeqLen", 6, data, lengths)
    end = builder.constant(np.int32(8))
    (tree,) = builder.add("GatherTree", 1, ids, parents, of_beams, end)
    for number, source in enumerate((*found, tree)):
        builder.result(source, f"result_{number}")
    generator = np.random.default_rng(1)
    calls = []
    for rows, steps, classes in ((2, 9, 20), (1, 1, 1), (5, 30, 33)):
        numbers = probabilities(generator, rows, steps, classes).astype(np.float32)
        tokens, before, ends, _ = beams_of(generator, steps, rows, classes)
        counts = generator.integers(0, steps + 1, rows).astype(np.int32)
        calls.append([numbers, tokens, before, counts, ends])
    hold(builder.model(), calls)
