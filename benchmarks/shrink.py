"""`python -m benchmarks shrink`: look-ups in tables of 8-bit and 4-bit rows and of f16 against the
same tables in f32.

The models are written and loaded as users have them, with their tables mapped; ids are uniform over
tables far larger than the caches. Before anything is timed the sums are held against f64 sums of
the values that the stored codes stand for.
"""

from __future__ import annotations

import gc
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import arrays
from benchmarks.options import Options
from benchmarks.report import Report, markdown_table, number
from benchmarks.timing import Contender, Expected, disagreement, measure
from uncork import Builder, Model, load, write_model
from uncork.ir.model import Source
from uncork.shrink import KINDS, shrink
from uncork.storage import unpack
from uncork.types import Array

#: What int8 should be, beyond the caches: this many times as fast as f32.
GOAL = 1.6
#: Rounded sums of some hundred terms, in units of the sum of |terms|.
_TOLERANCE = 1e-5
_SETS = 8
_Rows = tuple[Array, Array, Array]  # codes, zero points, scales of some rows


@dataclass(frozen=True)
class Work:
    """One table and what is looked up in it: `bags` bags of `pool` rows, or with a pool of 1 as
    many rows by Gather.
    """

    rows: int
    columns: int
    bags: int
    pool: int

    @property
    def name(self) -> str:
        what = f"{self.bags} x {self.pool}" if self.pool > 1 else f"gather {self.bags}"
        return f"{self.rows:.0e} x {self.columns}, {what}".replace("e+0", "e")


@dataclass(frozen=True)
class Result:
    """Nanoseconds for a row looked up, and bytes of the weights file."""

    work: str
    stored: str
    min_ns: float
    median_ns: float
    bytes: int
    error: float


def cases(quick: bool) -> Iterator[Work]:
    if quick:
        yield Work(20_000, 64, 64, 20)
        return
    for columns in (16, 64, 128, 256):
        yield Work(1_000_000, columns, 512, 80)
        yield Work(1_000_000, columns, 40_000, 1)


def main(options: Options) -> int:
    """All tables that were asked for."""
    chosen = [work for work in cases(options.quick) if options.wants(work.name)]
    if not chosen:
        print("no case has such a name")
        return 2
    report = Report("shrink", options)
    results: list[Result] = []
    for work in chosen:
        gc.collect()
        with tempfile.TemporaryDirectory() as folder:
            results += run(work, Path(folder), options)
        report.write({"cases": [asdict(result) for result in results]}, page(results))
    report.say()
    wrong = [f"{r.work}, {r.stored}" for r in results if not r.error <= _TOLERANCE]
    if wrong:
        print("uncork was wrong on: " + "; ".join(wrong))
    return 1 if wrong else 0


def run(work: Work, folder: Path, options: Options) -> list[Result]:
    """Write a model in each form, load them all, and time them by turns on the same ids."""
    generator = np.random.default_rng(work.columns)
    ids = [generator.integers(0, work.rows, work.bags * work.pool) for _ in range(_SETS)]
    offsets = np.arange(0, work.bags * work.pool, work.pool)
    before = model(work, arrays.normal(generator, (work.rows, work.columns)))
    contenders: list[Contender] = []
    errors: dict[str, float] = {}
    for stored in ("f32", *KINDS):
        path = folder / f"{stored}.xml"
        write_model(before if stored == "f32" else shrink(before, stored).model, path)
        contender = _contender(stored, path, ids, offsets if work.pool > 1 else None)
        kept = _constants(load(path).model, stored)
        errors[stored] = disagreement(
            contender, [0, _SETS - 1], lambda i, kept=kept: [_expected(work, _values(kept, ids[i]))]
        )  # type: ignore[misc]
        contenders.append(contender)
    del before
    times = measure(contenders, _SETS, options.seconds * 2)
    count = work.bags * work.pool * 1e-9
    return [
        Result(
            work.name,
            stored,
            times[stored].minimum / count,
            times[stored].median / count,
            (folder / f"{stored}.bin").stat().st_size,
            errors[stored],
        )
        for stored in errors
    ]


def model(work: Work, table: Array) -> Model:
    """Bags by offsets, or a Gather of as many rows."""
    builder = Builder("table")
    users = builder.constant(table, name="users")
    ids = builder.parameter("ids", "i64", [None])
    if work.pool > 1:
        sums: Source = builder.add(
            "EmbeddingBagOffsetsSum", 3, users, ids, builder.parameter("offsets", "i64", [None])
        )[0]
    else:
        sums = builder.add("Gather", 8, users, ids, builder.constant(np.int64(0)))[0]
    builder.result(sums, "rows")
    return builder.model()


def _contender(stored: str, path: Path, ids: Sequence[Array], offsets: Array | None) -> Contender:
    """Bound calls on results that are used again."""
    compiled = load(path)
    more = [] if offsets is None else [offsets]
    outputs = [arrays.aligned(a.shape, a.dtype) for a in compiled(ids[0], *more)]
    calls = [compiled.bind(i, *more, outputs=outputs) for i in ids]
    return Contender(stored, "uncork", "preset", lambda i: calls[i](), list)


# ---- what the sums should be: from the stored bytes, by plain NumPy


def _constants(read: Model, stored: str) -> dict[str, Any]:
    constants = {node.name: node.operation for node in read.nodes if node.type_name == "Const"}
    return {
        "stored": stored,
        **{name: constants.get(f"users{name}") for name in ("", "/zero_point", "/scale")},
    }


def _values(kept: dict[str, Any], ids: Array) -> Array:
    """f64 [n, columns]: the values of rows."""
    constant = kept[""]
    if hasattr(constant, "packed"):
        row = constant.shape.static[1] // 2
        packed = constant.packed.reshape(-1, row)[ids]
        rows = unpack(
            np.ascontiguousarray(packed).data.cast("B"), constant.element_type, packed.size * 2
        ).reshape(len(ids), -1)
    else:
        rows = constant.value[ids]
    values = rows.astype(np.float64)
    if kept["/scale"] is not None:
        values = (values - kept["/zero_point"].value[ids]) * kept["/scale"].value[ids]
    return np.asarray(values)


def _expected(work: Work, values: Array) -> Expected:
    """Sums of each bag in f64, and the sums of |terms|, which errors are measured by."""
    bags = values.reshape(work.bags, work.pool, work.columns)
    return Expected(
        bags.sum(1), np.abs(bags).sum(1).max() if work.pool == 1 else np.abs(bags).sum(1)
    )


def page(results: Sequence[Result]) -> str:
    """Each form beside f32."""
    rows: list[list[str]] = []
    for r in results:
        f32 = next(other for other in results if other.work == r.work and other.stored == "f32")
        faster, share = f32.min_ns / r.min_ns, r.bytes / f32.bytes
        mark = f"{faster:.2f}" + (
            ""
            if r.stored != "int8"
            else f" (>= {GOAL})"
            if faster >= GOAL
            else f" (**misses** {GOAL})"
        )
        rows.append(
            [
                r.work,
                r.stored,
                number(r.min_ns),
                number(r.median_ns),
                mark,
                f"{f32.median_ns / r.median_ns:.2f}",
                f"{share:.2f}",
                f"{r.error:.1e}",
            ]
        )
    head = [
        "table and look-ups",
        "stored",
        "min ns/row",
        "median",
        "f32 min / min",
        "f32 median / median",
        "bytes / f32",
        "error",
    ]
    return markdown_table(head, rows)
