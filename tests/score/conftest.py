"""Small models and tables for scoring, and the scores that each row must get, by loops over
Python's lists.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import uncork

pytest.importorskip("pyarrow")

#: Multiples of 1/4 below 16: sums of a few hundred of them are exact in f32 in any order.
TABLE = (np.arange(60, dtype=np.float32).reshape(20, 3) * 7 % 61) / 4


@dataclass(frozen=True)
class Row:
    """A row of the tests' tables."""

    user: int
    items: list[int]


def summed(items: Sequence[int]) -> list[float]:
    """The sum of the table's rows for the ids, by Python's own arithmetic."""
    return [sum(float(TABLE[item][column]) for item in items) for column in range(3)]


@pytest.fixture
def bags(tmp_path: Path) -> Path:
    """bags.xml: `ids` i64[?], `offsets` i64[?] -> `sums` f32[?,3], sums of rows of TABLE."""
    builder = uncork.Builder("bags")
    ids, offsets = (
        builder.parameter("ids", "i64", [None]),
        builder.parameter("offsets", "i64", [None]),
    )
    (sums,) = builder.add(
        "EmbeddingBagOffsetsSum", 3, builder.constant(TABLE), ids, offsets, name="bag"
    )
    builder.result(sums, "sums")
    uncork.write_model(builder.model(), tmp_path / "bags.xml")
    return tmp_path / "bags.xml"


@pytest.fixture
def segments(tmp_path: Path) -> Path:
    """segments.xml: `ids`, `owners` i32[?], `rows` i32[] -> `sums` f32[?,3]."""
    builder = uncork.Builder("segments")
    ids, owners = (
        builder.parameter("ids", "i32", [None]),
        builder.parameter("owners", "i32", [None]),
    )
    count = builder.parameter("rows", "i32", [])
    (sums,) = builder.add(
        "EmbeddingSegmentsSum", 3, builder.constant(TABLE), ids, owners, count, name="segment"
    )
    builder.result(sums, "sums")
    uncork.write_model(builder.model(), tmp_path / "segments.xml")
    return tmp_path / "segments.xml"


@pytest.fixture
def picks(tmp_path: Path) -> Path:
    """picks.xml: `ids` i64[?,4], `weight` f32[?] -> `rows` f32[?,4,3], rows of TABLE (Gather: zeros
    outside, unless strict), and
    `weight_out` f32[?], the weights."""
    return write_picks(tmp_path / "picks.xml", None)


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    """pairs.xml: the same, for two rows at a time."""
    return write_picks(tmp_path / "pairs.xml", 2)


def write_lookup(path: Path) -> Path:
    """`ids` i64[?] -> `out` f32[?,3], rows of TABLE; strictly ids of 0 to 19."""
    builder = uncork.Builder("rows")
    ids = builder.parameter("ids", "i64", [None])
    (picked,) = builder.add(
        "Gather", 8, builder.constant(TABLE), ids, builder.constant(np.int64(0))
    )
    builder.result(picked, "out")
    uncork.write_model(builder.model(), path)
    return path


def write_picks(path: Path, rows: int | None) -> Path:
    builder = uncork.Builder("picks")
    ids, weight = (
        builder.parameter("ids", "i64", [rows, 4]),
        builder.parameter("weight", "f32", [rows]),
    )
    (picked,) = builder.add(
        "Gather", 8, builder.constant(TABLE), ids, builder.constant(np.int64(0)), name="pick"
    )
    (same,) = builder.add("Multiply", 1, weight, builder.constant(np.float32(1)), name="weigh")
    builder.result(picked, "rows")
    builder.result(same, "weight_out")
    uncork.write_model(builder.model(), path)
    return path


def random_rows(count: int, seed: int = 0, most: int = 6) -> list[Row]:
    """Rows with 0 to `most` ids of TABLE each."""
    generator = np.random.default_rng(seed)
    return [
        Row(1000 + i, generator.integers(0, len(TABLE), generator.integers(0, most + 1)).tolist())
        for i in range(count)
    ]
