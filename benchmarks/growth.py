"""`python -m benchmarks growth`: how cost grows with the work, and with the number of layers.

One quantity at a time. The slope is that of the logarithms over the larger half of the sizes, where
fixed costs are small: 1 means that twice the work takes twice the time.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import (
    arrays,
    cases_embedding,
    cases_gather,
    cases_recurrent,
    contenders_openvino,
    contenders_uncork,
    plots,
)
from benchmarks.cases import Case, Outcome, Prepared, run
from benchmarks.options import Options
from benchmarks.report import Report, markdown_table, number
from benchmarks.timing import Contender, Expected
from uncork import Builder, load, write_model
from uncork.types import Array

_WIDTH = 32


@dataclass(frozen=True)
class Series:
    """Cases that differ in one quantity, and the largest slope that is in order."""

    quantity: str
    most: float
    points: tuple[tuple[int, Callable[[Options], Prepared]], ...]


def all_series(folder: Path, quick: bool) -> Iterator[Series]:
    """Everything that is looked at; models of many layers are written to `folder`."""

    def sizes(*all_of_them: int) -> Sequence[int]:
        return all_of_them[: len(all_of_them) // 2 + 1] if quick else all_of_them

    def series(
        quantity: str,
        most: float,
        chosen: Sequence[int],
        prepare: Callable[[int], Callable[[Options], Prepared]],
    ) -> Series:
        return Series(quantity, most, tuple((size, prepare(size)) for size in chosen))

    def of_bags(
        rows: int = 100_000, dim: int = 64, bags: int = 128, pool: int = 10
    ) -> Callable[[Options], Prepared]:
        return partial(cases_embedding.prepare, cases_embedding.Bags(rows, dim, bags, pool))

    def of_steps(
        batch: int = 1, steps: int = 20, hidden: int = 128
    ) -> Callable[[Options], Prepared]:
        return partial(
            cases_recurrent.prepare, cases_recurrent.Sequence_(batch, steps, 64, hidden, after=True)
        )

    yield series(
        "indices in each of 128 bags",
        1.0,
        sizes(1, 4, 16, 64, 256, 1024, 4096),
        lambda n: of_bags(pool=n),
    )
    yield series(
        "bags of 10 indices", 1.0, sizes(1, 8, 64, 512, 4096, 32768), lambda n: of_bags(bags=n)
    )
    # More rows fit ever fewer of the caches; the work is the same.
    yield series(
        "rows of the table, 4096 bags of 10",
        0.6,
        sizes(10**3, 10**4, 10**5, 10**6, 10**7),
        lambda n: of_bags(bags=4096, rows=n, dim=16),
    )
    yield series(
        "numbers in a row, 128 bags of 10",
        1.0,
        sizes(16, 64, 256, 1024, 4096),
        lambda n: of_bags(dim=n, rows=10_000),
    )
    yield series(
        "rows gathered",
        1.0,
        sizes(1, 10, 100, 1000, 10**4, 10**5, 10**6),
        lambda n: partial(cases_gather.prepare, cases_gather.Gather((100_000, 64), 0, (n,))),
    )
    yield series(
        "steps of a GRU, batch 1", 1.0, sizes(1, 4, 16, 64, 256, 1024), lambda n: of_steps(steps=n)
    )
    yield series(
        "rows of a GRU's batch, 20 steps",
        1.0,
        sizes(1, 4, 16, 64, 256, 1024),
        lambda n: of_steps(batch=n),
    )
    yield series(
        "hidden size of a GRU, 16 rows, 20 steps",
        2.0,
        sizes(32, 64, 128, 256, 512),
        lambda n: of_steps(batch=16, hidden=n),
    )
    layers = sizes(1, 4, 16, 64, 256, 1024)
    # The weights of many layers leave the nearer caches, one after the other.
    yield series(
        "dense layers, a call",
        1.2,
        layers,
        lambda n: partial(prepare_layers, folder, n, compiling=False),
    )
    yield series(
        "dense layers, loading and the first call",
        1.0,
        layers,
        lambda n: partial(prepare_layers, folder, n, compiling=True),
    )


# ---- models of many layers


def prepare_layers(folder: Path, count: int, options: Options, compiling: bool) -> Prepared:
    """A chain of dense layers with ReLU between them; either it is called, or it is loaded and
    called once.
    """
    generator = np.random.default_rng(count)
    weights = [
        generator.standard_normal((_WIDTH, _WIDTH)).astype(np.float32) * np.float32(_WIDTH**-0.5)
        for _ in range(count)
    ]
    biases = [generator.standard_normal((1, _WIDTH)).astype(np.float32) for _ in range(count)]
    path = folder / f"layers{count}.xml"
    if not path.exists():
        _write(path, weights, biases)
    inputs = [[arrays.normal(generator, (1, _WIDTH))] for _ in range(4)]

    def expect(i: int) -> list[Expected]:
        x: Array = inputs[i][0].astype(np.float64)
        for w, b in zip(weights, biases, strict=True):
            x = np.maximum(x @ w + b, 0)
        return [Expected(x, float(np.abs(x).max()))]

    prepared = Prepared(
        sets=len(inputs), expect=expect, tolerance=1e-3, about={"layers": 3 * count}
    )
    openvino = options.peers.get("openvino")
    if not compiling:
        prepared.add(
            "uncork", lambda: contenders_uncork.of_model(str(path), inputs, options.threads)
        )
        if openvino:
            prepared.add(
                "openvino",
                lambda: contenders_openvino.of_model(
                    openvino, openvino.Core().read_model(path), inputs, options.threads
                ),
            )
        return prepared
    prepared.contenders.append(
        Contender(
            "uncork load",
            "uncork",
            "call",
            lambda i: list(load(path, threads=options.threads)(*inputs[i])),
            list,
        ),
    )
    if openvino:
        core = openvino.Core()
        settings = {"INFERENCE_NUM_THREADS": options.threads, "INFERENCE_PRECISION_HINT": "f32"}

        def load_there(i: int) -> Any:
            return core.compile_model(core.read_model(path), "CPU", settings)(inputs[i])

        prepared.contenders.append(
            Contender("openvino load", "openvino", "call", load_there, lambda r: [np.asarray(r[0])])
        )
    return prepared


def _write(path: Path, weights: Sequence[Array], biases: Sequence[Array]) -> None:
    builder = Builder("layers")
    x = builder.parameter("x", "f32", [1, _WIDTH])
    for w, b in zip(weights, biases, strict=True):
        (x,) = builder.add("MatMul", 1, x, builder.constant(w))
        (x,) = builder.add("Add", 1, x, builder.constant(b))
        (x,) = builder.add("ReLU", 1, x)
    builder.result(x, "y")
    write_model(builder.model(), path)


# ---- measuring


def slope(points: Sequence[tuple[float, float]]) -> float | None:
    """Of the logarithms, over the larger half of the sizes."""
    half = points[len(points) // 2 :] if len(points) > 3 else points
    if len(half) < 2:
        return None
    sizes, times = np.log(np.array(half, np.float64)).T
    return float(np.polyfit(sizes, times, 1)[0])


def in_order(slopes: Mapping[str, float | None], most: float) -> bool:
    """Our slope is no more than the work's, or than the machine's: who leaves a cache behind grows
    faster, the native loop too.
    """
    ours, limit = slopes.get("uncork"), slopes.get("limit")
    peers = [
        value
        for name, value in slopes.items()
        if name not in ("uncork", "limit") and value is not None
    ]
    return ours is not None and ours <= max(most, limit or 0.0, min(peers, default=0.0)) + 0.1


def curves(outcomes: Sequence[tuple[int, Outcome]]) -> dict[str, list[tuple[float, float]]]:
    """(size, microseconds) of ours and of each peer, by its cheapest call each time."""
    found: dict[str, list[tuple[float, float]]] = {}
    for size, outcome in outcomes:
        for system in dict.fromkeys(t.system for t in outcome.times):
            times = [
                t.min_us
                for t in outcome.times
                if t.system == system and t.precision == "f32" and t.kind != "other"
            ]
            if times:
                found.setdefault("limit" if system == "machine" else system, []).append(
                    (float(size), min(times))
                )
    return found


def main(options: Options) -> int:
    """All series that were asked for."""
    report = Report("growth", options)
    measured: dict[str, dict[str, list[tuple[float, float]]]] = {}
    data: list[dict[str, Any]] = []
    rows: list[list[str]] = []
    failed: list[str] = []
    with tempfile.TemporaryDirectory() as scratch:
        for series in all_series(Path(scratch), options.quick):
            if not options.wants(series.quantity):
                continue
            outcomes: list[tuple[int, Outcome]] = []
            for size, prepare in series.points:
                outcomes.append((size, run(Case(series.quantity, str(size), prepare), options)))
                failed += [outcomes[-1][1].full_name] if outcomes[-1][1].wrong else []
            found = measured[series.quantity] = curves(outcomes)
            slopes = {name: slope(points) for name, points in found.items()}
            data.append(
                {
                    "quantity": series.quantity,
                    "most": series.most,
                    "slopes": slopes,
                    "points": [{"size": n, **o.to_dict()} for n, o in outcomes],
                }
            )
            for name, points in found.items():
                value = slopes[name]
                judged = f"{value:.2f}" if value is not None else "-"
                if name == "uncork" and value is not None:
                    judged += (
                        " (in order)"
                        if in_order(slopes, series.most)
                        else f" (**more than {series.most:g}**)"
                    )
                rows.append(
                    [
                        series.quantity,
                        name,
                        judged,
                        " ".join(f"{size:g}: {number(us)}" for size, us in points),
                    ]
                )
            print(
                f"{series.quantity}: "
                + ", ".join(
                    f"{name} {value:.2f}" for name, value in slopes.items() if value is not None
                ),
                flush=True,
            )
    if not rows:
        print("no quantity has such a name")
        return 2
    table = markdown_table(
        ["quantity", "contender", "slope", "size: microseconds, by the cheapest call"], rows
    )
    report.write({"growth": data}, table)
    plots.growth(measured, options.out / f"{report.name}.png")
    report.say()
    if failed:
        print("uncork was wrong or failed on: " + "; ".join(failed))
    return 1 if failed else 0
