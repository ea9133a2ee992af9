"""What this machine can do at most: reading in order and at random, and products of matrices.
`python -m benchmarks limits`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from benchmarks import arrays, limit_kernels
from benchmarks.options import Options
from benchmarks.report import Report, markdown_table
from uncork.types import Array

_KIB, _MIB = 1 << 10, 1 << 20
_FOOTPRINTS = (
    24 * _KIB,
    192 * _KIB,
    768 * _KIB,
    1536 * _KIB,
    3 * _MIB,
    8 * _MIB,
    32 * _MIB,
    256 * _MIB,
)
_PRODUCTS = (
    (1024, 1024, 1024),
    (256, 1536, 512),
    (64, 768, 256),
    (16, 384, 128),
    (1, 1536, 512),
    (1, 384, 128),
)
_ROW_BYTES = (64, 128, 256, 512, 1024)
_TABLES = (16 * _MIB, 256 * _MIB, 2048 * _MIB)
_PICKED = 40_000


def best(call: Callable[[], Any], seconds: float = 0.15) -> float:
    """The smallest of the times that calls take, over so many seconds and at least five calls."""
    call()
    times: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 5:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


@lru_cache(maxsize=1)
def bandwidth() -> dict[int, float]:
    """Bytes in a second, read in order and again and again, by the bytes that are read."""
    if not limit_kernels.available():
        return {}
    memory = arrays.normal(np.random.default_rng(1), (max(_FOOTPRINTS) // 4,))
    found: dict[int, float] = {}
    for size in _FOOTPRINTS:
        times = max(1, 4 * _MIB // size)
        found[size] = size * times / best(limit_kernels.reading(memory[: size // 4], times))
    return found


def bandwidth_for(size: float) -> float | None:
    """Bandwidth when so many bytes are read again and again, between the measured sizes by
    proportion of the logarithms.
    """
    measured = bandwidth()
    if not measured:
        return None
    return float(
        np.exp(np.interp(np.log(size), np.log(list(measured)), np.log(list(measured.values()))))
    )


@lru_cache(maxsize=1)
def products() -> dict[tuple[int, int, int], float]:
    """Operations in a second of an f32 product of matrices [m, k] x [k, n], by NumPy's BLAS, by (m,
    n, k).
    """
    generator = np.random.default_rng(2)
    found: dict[tuple[int, int, int], float] = {}
    for m, n, k in _PRODUCTS:
        a, b, c = (arrays.normal(generator, shape) for shape in ((m, k), (k, n), (m, n)))

        def multiply(a: Array = a, b: Array = b, c: Array = c) -> None:
            np.matmul(a, b, out=c)

        found[m, n, k] = 2.0 * m * n * k / best(multiply)
    return found


@lru_cache(maxsize=1)
def peak() -> float:
    """Operations in a second, at most: the inner loop of a product alone, or NumPy's best product
    without native loops.
    """
    if not limit_kernels.available():
        return max(products().values())
    call, operations = limit_kernels.multiplying()
    return operations / best(call, 0.5)


def random_rows(row_bytes: int, table_bytes: int) -> float:
    """Bytes in a second, of rows at random places that are added up, ten and ten."""
    columns = row_bytes // 4
    generator = np.random.default_rng(3)
    # Bits of random numbers all the same: the table is too large to draw each number.
    part = arrays.normal(generator, (4 * _MIB,))
    table = arrays.aligned((table_bytes // row_bytes, columns), np.float32)
    flat = table.reshape(-1)
    for start in range(0, flat.size, part.size):
        flat[start : start + part.size] = part[: flat.size - start]
    count = min(_PICKED, 64 * _MIB // row_bytes) // 10 * 10
    indices = [generator.integers(0, len(table), count) for _ in range(9)]
    offsets = [np.arange(0, count, 10) for _ in indices]
    (contender,) = limit_kernels.sums(table, indices, offsets)
    times: list[float] = []
    for number in range(2 * len(indices)):
        start_time = time.perf_counter()
        contender.call(number % len(indices))
        times.append(time.perf_counter() - start_time)
    return count * row_bytes / min(times)


@dataclass(frozen=True)
class _Row:
    what: str
    size: str
    value: float
    unit: str


def main(options: Options) -> int:
    """Measure all of it and write it down."""
    rows = [
        _Row("reading in order", _size(size), speed / 1e9, "GB/s")
        for size, speed in bandwidth().items()
    ]
    rows += [
        _Row("product of matrices", " x ".join(map(str, size)), speed / 1e9, "GFLOP/s")
        for size, speed in products().items()
    ]
    rows.append(_Row("product, inner loop alone", "in the first cache", peak() / 1e9, "GFLOP/s"))
    torch = options.peers.get("torch")
    if torch is not None:
        rows += [
            _Row(
                "product of matrices, torch",
                f"{n} x {n} x {n}",
                _torch_product(torch, n) / 1e9,
                "GFLOP/s",
            )
            for n in (256, 1024)
        ]
    if limit_kernels.available():
        for table_bytes in _TABLES[: 2 if options.quick else None]:
            for row_bytes in _ROW_BYTES:
                speed = random_rows(row_bytes, table_bytes)
                rows.append(
                    _Row(
                        "rows at random",
                        f"{row_bytes} bytes of {_size(table_bytes)}",
                        speed / 1e9,
                        "GB/s",
                    )
                )
                rows.append(
                    _Row(
                        "rows at random",
                        f"{row_bytes} bytes of {_size(table_bytes)}",
                        row_bytes / speed * 1e9,
                        "ns a row",
                    )
                )
    else:
        print("llvmlite is not installed: no native loops, so only products are measured")
    table = markdown_table(
        ["what", "size", "value", "unit"],
        [[r.what, r.size, f"{r.value:.1f}", r.unit] for r in rows],
    )
    report = Report("limits", options)
    report.write({"limits": [asdict(row) for row in rows]}, table)
    report.say()
    return 0


def _torch_product(torch: Any, size: int) -> float:
    a, b = torch.randn(size, size), torch.randn(size, size)
    c = torch.empty(size, size)
    return 2.0 * size**3 / best(lambda: torch.mm(a, b, out=c))


def _size(size: int) -> str:
    return (
        f"{size >> 30} GiB"
        if size >= 1 << 30
        else f"{size >> 20} MiB"
        if size >= 2 * _MIB
        else f"{size >> 10} KiB"
    )
