"""Models to read, write and change: whole ones beside the repository where they are, and small ones
built here.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import uncork
from uncork.ir.bodies import GraphBody
from uncork.ops._body import BodyInput, BodyMap, BodyOutput, JoinedOutput, SlicedInput, Slicing

ROOT = Path(__file__).resolve().parent.parent.parent
#: Whole models made by OpenVINO's converters; not part of the repository.
WHOLE = sorted((ROOT.parent / "shared" / "models").glob("*/model.xml"))
#: Models that are part of it.
COMMITTED = sorted((ROOT / "examples").glob("*/*.xml"))


def bags() -> uncork.Model:
    builder = uncork.Builder("bags")
    table = builder.constant(np.linspace(-1, 1, 30, dtype=np.float32).reshape(10, 3), name="table")
    ids, offsets = (
        builder.parameter("ids", "i64", [None]),
        builder.parameter("offsets", "i64", [None]),
    )
    (out,) = builder.add(
        "EmbeddingBagOffsetsSum", 3, table, ids, offsets, name="bags", tensor_names=["a,b", "c\\d"]
    )
    builder.result(out, "sums")
    builder.info("made_by", "a test")
    return builder.model()


def lookup() -> uncork.Model:
    """Two gathers of one table, one of them of half precision, and an unused input."""
    builder = uncork.Builder("lookup")
    builder.parameter("unused", "string", [None, 2])
    ids = builder.parameter("ids", "i32", [uncork.Dimension(0, 8), 2])
    half = builder.constant(np.arange(20, dtype=np.float16).reshape(5, 4))
    axis = builder.constant(np.int64(0))
    (rows,) = builder.add("Gather", 8, half, ids, axis, name="rows")
    builder.result(rows, "rows")
    (words,) = builder.add(
        "Gather", 8, builder.constant(np.array(["a", "", "日本", "c\n", "d"], object)), ids, axis
    )
    builder.result(words, "words")
    builder.result(words)
    return builder.model()


def sequence() -> uncork.Model:
    """A bidirectional GRU with lengths."""
    builder = uncork.Builder("sequence")
    generator = np.random.default_rng(0)
    x = builder.parameter("x", "f32", [None, None, 3])
    start = builder.parameter("start", "f32", [None, 2, 4])
    lengths = builder.parameter("lengths", "i64", [None])
    weights = [
        builder.constant(generator.normal(size=s).astype(np.float32))
        for s in ((2, 12, 3), (2, 12, 4), (2, 16))
    ]
    outputs = builder.add(
        "GRUSequence",
        5,
        x,
        start,
        lengths,
        *weights,
        direction="bidirectional",
        hidden_size=4,
        linear_before_reset=True,
        clip=3.0,
    )
    for output, name in zip(outputs, ("all", "last"), strict=True):
        builder.result(output, name)
    return builder.model()


def low_bits() -> uncork.Model:
    """A constant of every element type."""
    builder = uncork.Builder("low_bits")
    for element_type in uncork.ElementType:
        if element_type is uncork.ElementType.string:
            value = np.array(["x", ""], object)
        else:
            value = np.array([1, 0, 1], element_type.dtype)
        builder.result(
            builder.constant(value, element_type, name=f"c_{element_type}"), element_type.name
        )
    builder.result(builder.constant(np.zeros((0, 3), np.float32)), "nothing")
    return builder.model()


def branches() -> uncork.Model:
    def branch(operation: str) -> uncork.Model:
        inner = uncork.Builder(operation)
        (out,) = inner.add(operation, 1, inner.parameter("x", "f32", [None]), name="inside")
        inner.result(out)
        return inner.model()

    builder = uncork.Builder("branches")
    condition = builder.parameter("condition", "boolean", [])
    x = builder.parameter("x", "f32", [None])
    bodies = {
        tag: BodyMap(GraphBody(branch(kind)), (BodyInput(1, 0),), (BodyOutput(0, 0),))
        for tag, kind in (("then_body", "ReLU"), ("else_body", "Tanh"))
    }
    (out,) = builder.add_with_bodies("If", 8, condition, x, bodies=bodies, name="choice")
    builder.result(out, "y")
    return builder.model()


def iteration() -> uncork.Model:
    """The running maximum over the rows, by a TensorIterator with a slice, a carried value and a
    constant in the body.
    """
    inner = uncork.Builder("body")
    row, best = inner.parameter("row", "f32", [1, 2]), inner.parameter("best", "f32", [1, 2])
    (more,) = inner.add("Maximum", 1, row, best)
    (scaled,) = inner.add("Multiply", 1, more, inner.constant(np.float32(1)))
    inner.result(scaled)
    builder = uncork.Builder("iteration")
    rows, start = (
        builder.parameter("rows", "f32", [None, 2]),
        builder.parameter("start", "f32", [1, 2]),
    )
    body = BodyMap(
        GraphBody(inner.model()),
        (SlicedInput(0, 0, Slicing(0)), BodyInput(1, 1)),
        (JoinedOutput(0, 0, Slicing(0)), BodyOutput(1, 0)),
        ((0, 1),),
    )
    all_rows, last = builder.add_with_bodies(
        "TensorIterator", 1, rows, start, bodies={"body": body}
    )
    builder.result(all_rows, "running")
    builder.result(last, "final")
    return builder.model()


def state() -> uncork.Model:
    """A sum over calls."""
    builder = uncork.Builder("state")
    x = builder.parameter("x", "f32", [2])
    zero = builder.constant(np.zeros(2, np.float32))
    (before,) = builder.add(
        "ReadValue",
        6,
        zero,
        variable_id="v",
        variable_shape=uncork.PartialShape([2]),
        variable_type=uncork.ElementType.f32,
    )
    (after,) = builder.add("Add", 1, before, x)
    builder.add("Assign", 6, after, variable_id="v")
    builder.result(after, "sum")
    return builder.model()


BUILT: dict[str, Callable[[], uncork.Model]] = {
    f.__name__: f for f in (bags, lookup, sequence, low_bits, branches, iteration, state)
}
#: What to call them with.
INPUTS: dict[str, list[Any]] = {
    "bags": [np.array([1, 2, 9, 0]), np.array([0, 1, 1])],
    "lookup": [np.array([["a", "b"]]), np.array([[0, 4], [3, 1]], np.int32)],
    "sequence": [
        np.linspace(-1, 1, 18, dtype=np.float32).reshape(2, 3, 3),
        np.ones((2, 2, 4), np.float32),
        np.array([3, 2]),
    ],
    "branches": [np.array(False), np.array([-1, 2], np.float32)],
    "iteration": [np.array([[1, 5], [3, 2], [2, 9]], np.float32), np.array([[2, 2]], np.float32)],
    "state": [np.array([1, 2], np.float32)],
    "low_bits": [],
}
