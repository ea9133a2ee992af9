"""Random inputs mean something: ids have rows, offsets and segment ids are in order, lengths are
within their sequences.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import uncork
from tests.cli.conftest import Command

ROWS = 5
Tensor = object


def table(builder: uncork.Builder) -> Tensor:
    return builder.constant(np.ones((ROWS, 2), np.float32), name="table")


def moved(builder: uncork.Builder, x: Tensor) -> Tensor:
    """The same integers, as converters lead them to a layer."""
    x = builder.add("Convert", 1, x, destination_type="i32")[0]
    x = builder.add("Reshape", 1, x, builder.constant(np.int64([-1, 1])), special_zero=False)[0]
    return builder.add("Squeeze", 1, x, builder.constant(np.int64([1])))[0]


def bags(builder: uncork.Builder, through: Callable[..., Tensor]) -> None:
    ids, offsets = (
        through(builder, builder.parameter(n, "i64", [None])) for n in ("ids", "offsets")
    )
    y = builder.add("EmbeddingBagOffsetsSum", 3, table(builder), ids, offsets)[0]
    builder.result(y, "y")


def segments(builder: uncork.Builder, through: Callable[..., Tensor]) -> None:
    """As many segments as an input says."""
    ids, of = (through(builder, builder.parameter(n, "i64", [None])) for n in ("ids", "of"))
    count = builder.parameter("count", "i64", [])
    count = builder.add("Convert", 1, count, destination_type="i32")[0]
    count = (
        count if through is moved else builder.add("Convert", 1, count, destination_type="i64")[0]
    )
    y = builder.add("EmbeddingSegmentsSum", 3, table(builder), ids, of, count)[0]
    builder.result(y, "y")


def packed(builder: uncork.Builder, through: Callable[..., Tensor]) -> None:
    ids = builder.parameter("ids", "i64", [None, 3])
    y = builder.add("EmbeddingBagPackedSum", 3, table(builder), ids)[0]
    builder.result(y, "y")


@pytest.mark.parametrize("through", [lambda _, x: x, moved], ids=["straight", "moved"])
@pytest.mark.parametrize(
    ("make", "shapes"),
    [
        (bags, ["ids=7", "offsets=4"]),
        (bags, ["ids=0", "offsets=3"]),
        (segments, ["ids=9", "of=9"]),
        (packed, ["ids=6,3"]),
    ],
)
def test_every_layer_takes_its_random_inputs(
    command: Command,
    tmp_path: Path,
    make: Callable[..., None],
    shapes: list[str],
    through: Callable[..., Tensor],
) -> None:
    builder = uncork.Builder("looked up")
    make(builder, through)
    uncork.write_model(builder.model(), tmp_path / "m.xml")
    words = [word for shape in shapes for word in ("--shape", shape)]
    for seed in range(8):
        answer = command("run", "m.xml", "--random", "--strict", *words, "--seed", seed)
        assert (answer.status, answer.err) == (0, "")


def test_lengths_and_ids_of_narrow_types(command: Command, tmp_path: Path) -> None:
    """Lengths are 0 to the steps of X; u8 ids of 1,000 rows are within u8."""
    builder = uncork.Builder("narrow")
    ids = builder.parameter("ids", "u8", [None])
    rows = builder.constant(np.ones((1000, 2), np.float32))
    y = builder.add("Gather", 8, rows, ids, builder.constant(np.int64(0)))[0]
    builder.result(y, "y")
    x = builder.parameter("x", "f32", [2, None, 1])
    lengths = builder.parameter("lengths", "i64", [2])
    state = builder.constant(np.zeros((2, 1, 1), np.float32))
    weights = [
        builder.constant(np.ones(shape, np.float32)) for shape in ((1, 3, 1), (1, 3, 1), (1, 3))
    ]
    out = builder.add(
        "GRUSequence", 5, x, state, lengths, *weights, hidden_size=1, direction="forward"
    )
    builder.result(out[0], "z")
    uncork.write_model(builder.model(), tmp_path / "m.xml")
    words = ["--shape", "ids=400", "--shape", "x=2,3,1"]
    for seed in range(8):
        answer = command("run", "m.xml", "--random", "--json", *words, "--seed", seed)
        assert (answer.status, answer.err) == (0, "")
        filled = {one["name"]: one for one in answer.json["random_inputs"]}
        assert filled["lengths"]["max"] <= 3
        assert filled["ids"]["max"] > 100
