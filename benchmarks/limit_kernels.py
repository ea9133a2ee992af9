"""Native loops that do the least a piece of work needs, written in uncork's own vector language:
what the machine can do.

They check nothing and know everything: each is made in several ways (how far ahead rows are
prefetched, by which stores), and the way that is fastest on the arrays at hand counts.
"""

from __future__ import annotations

import functools
import hashlib
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.arrays import aligned
from benchmarks.timing import Contender
from uncork.types import Array

if TYPE_CHECKING:
    from uncork.kernels.codegen.emit import Value

_AHEAD = (0, 8, 16, 32, 64)
_BLOCK = 16  # vector registers that hold sums


def available() -> bool:
    """Kernels can be made here."""
    from uncork.compiler.execute import kernels_available

    return kernels_available()


def program(name: str, make: Callable[[], str], words: Sequence[int]) -> Callable[[], int]:
    """A native call on fixed arguments."""
    from uncork.kernels.runtime.context import Context
    from uncork.kernels.runtime.kernel_cache import STORE
    from uncork.kernels.runtime.segment import Segment
    from uncork.kernels.runtime.segment_plan import SegmentPlan, Step

    return Segment(
        SegmentPlan((Step(STORE.function(name, _source(), make), tuple(words)),)), Context([], 0)
    ).run


@functools.lru_cache(maxsize=1)
def _source() -> str:
    """This file's own hash: the store tells kernels apart by their description, and knows the
    source of uncork's only.
    """
    return "benchmarks " + hashlib.sha256(Path(__file__).read_bytes()).hexdigest()


def _fastest(ways: Sequence[Callable[[int], object]], sets: int) -> Callable[[int], object]:
    """The way with the smallest time, tried by turns."""
    best = [float("inf")] * len(ways)
    end = time.perf_counter() + 0.2
    for turn in range(40):
        if turn >= 4 and time.perf_counter() > end:
            break
        for number, way in enumerate(ways):
            way(turn % sets)
            start = time.perf_counter()
            way((turn + 1) % sets)
            best[number] = min(best[number], time.perf_counter() - start)
    return ways[best.index(min(best))]


# ---- sums of rows


def sums(table: Array, indices: Sequence[Array], offsets: Sequence[Array]) -> list[Contender]:
    """Bags of an f32 table whose rows are whole vectors."""
    if table.dtype != np.float32 or not available():
        return []
    from uncork.kernels.runtime.target import host_target

    columns, vector = table.shape[1], host_target().lanes
    if columns % vector:
        return []
    output = aligned((len(offsets[0]), columns), np.float32)
    # The end of the last bag is written down, and indices are followed by some that a prefetch may
    # look at.
    padded = [np.concatenate([a, np.zeros(max(_AHEAD), a.dtype)]).astype(np.int64) for a in indices]
    ends = [np.append(o, len(a)).astype(np.int64) for o, a in zip(offsets, indices, strict=True)]

    def way(ahead: int) -> Callable[[int], object]:
        name = f"limit_sums_{columns}_{vector}_{ahead}"
        calls = [
            program(
                name,
                lambda: _emit_sums(name, columns, vector, ahead),
                [table.ctypes.data, a.ctypes.data, o.ctypes.data, len(o) - 1, output.ctypes.data],
            )
            for a, o in zip(padded, ends, strict=True)
        ]
        return lambda i: calls[i]()

    call = _fastest([way(ahead) for ahead in _AHEAD], len(indices))
    kept = (padded, ends)  # their addresses are all that the calls know
    return [Contender("limit", "machine", "limit", call, lambda _: [output] if kept else [])]


def _emit_sums(name: str, columns: int, lanes: int, ahead: int) -> str:
    from uncork.kernels.codegen.emit import F32, I64, Kernel, Variable

    k = Kernel(name, ["table", "indices", "offsets", "bags", "output"])
    table, indices, offsets, bags, output = k.arguments
    row, vector = columns * 4, lanes * 4

    def add(sums: Sequence[Variable], position: Value, vectors: range) -> None:
        """One row, to the sums of some of its vectors."""
        if ahead:
            later = table + k.load(indices + (position + ahead) * 8, I64) * row
            for line in range(vectors[0] * vector, (vectors[-1] + 1) * vector, 64):
                k.prefetch(later + line)
        source = table + k.load(indices + position * 8, I64) * row
        for total, v in zip(sums, vectors, strict=True):
            total.set(total.get() + k.load(source + v * vector, F32, lanes))

    with k.loop(0, bags) as bag:
        start, end = (k.load(offsets + (bag + n) * 8, I64) for n in (0, 1))
        for first in range(0, columns // lanes, _BLOCK):
            vectors = range(first, min(columns // lanes, first + _BLOCK))
            chains = [
                [k.variable(k.constant(0.0, F32, lanes)) for _ in vectors]
                for _ in range(max(1, min(4, 8 // len(vectors))))
            ]
            whole = start + ((end - start) // len(chains)) * len(chains)
            with k.loop(start, whole, len(chains)) as position:
                for number, chain in enumerate(chains):
                    add(chain, position + number, vectors)
            with k.loop(whole, end) as position:
                add(chains[0], position, vectors)
            for number, v in enumerate(vectors):
                k.store(
                    _joined([chain[number].get() for chain in chains]),
                    output + bag * row + v * vector,
                )
    k.finish()
    return k.text()


def _joined(values: Sequence[Value]) -> Value:
    total = values[0]
    for value in values[1:]:
        total = total + value
    return total


# ---- copies of rows


def copies(data: Array, indices: Sequence[Array]) -> list[Contender]:
    """Rows picked along the first axis, where a row is whole cache lines."""
    item = data[0].nbytes if len(data) else 0
    if item % 64 or not item or not available():
        return []
    output = aligned((indices[0].size, *data.shape[1:]), data.dtype)
    flat = [
        np.concatenate([a.reshape(-1), np.zeros(max(_AHEAD), a.dtype)]).astype(np.int64)
        for a in indices
    ]

    def way(ahead: int, streaming: bool) -> Callable[[int], object]:
        name = f"limit_copies_{item}_{ahead}_{int(streaming)}"
        calls = [
            program(
                name,
                lambda: _emit_copies(name, item, ahead, streaming),
                [data.ctypes.data, a.ctypes.data, a.size - max(_AHEAD), output.ctypes.data],
            )
            for a in flat
        ]
        return lambda i: calls[i]()

    call = _fastest(
        [way(ahead, streaming) for ahead in _AHEAD for streaming in (False, True)], len(indices)
    )
    shape = (*indices[0].shape, *data.shape[1:])
    kept = (flat,)
    return [
        Contender(
            "limit", "machine", "limit", call, lambda _: [output.reshape(shape)] if kept else []
        )
    ]


def _emit_copies(name: str, item: int, ahead: int, streaming: bool) -> str:
    from uncork.kernels.codegen.emit import F32, I64, Kernel

    k = Kernel(name, ["data", "indices", "count", "output"])
    data, indices, count, output = k.arguments
    lanes = 16
    straight = min(item, 2048)
    with k.loop(0, count) as j:
        if ahead:
            later = data + k.load(indices + (j + ahead) * 8, I64) * item
            for line in range(0, min(item, 1024), 64):
                k.prefetch(later + line)
        source, target = data + k.load(indices + j * 8, I64) * item, output + j * item

        with k.loop(0, item // straight) as block:
            for at in range(0, straight, 64):
                k.store(
                    k.load(source + block * straight + at, F32, lanes),
                    target + block * straight + at,
                    align=64,
                    streaming=streaming,
                )
        for at in range(item - item % straight, item, 64):
            k.store(k.load(source + at, F32, lanes), target + at, align=64, streaming=streaming)
    k.finish()
    return k.text()


# ---- products


def multiplying() -> tuple[Callable[[], int], float]:
    """A call that multiplies rows by a panel which lies in the first cache, over and over, and the
    operations that it makes.

    The inner loop of a product of matrices, with nothing around it: libraries reach a part of this
    rate.
    """
    from uncork.kernels.register_tiles import most_rows
    from uncork.kernels.runtime.target import host_target

    target = host_target()
    vector, vectors, inner, times = target.lanes, 3, 64, 2000
    rows = most_rows(target.vector_registers, vectors)
    panel, source = (
        aligned(shape, np.float32) for shape in ((inner, vectors * vector), (rows, inner))
    )
    generator = np.random.default_rng(4)
    panel[:], source[:] = (
        generator.standard_normal(panel.shape),
        generator.standard_normal(source.shape),
    )
    result = aligned((rows, vectors * vector), np.float32)
    name = f"limit_multiplying_{vector}"

    def make() -> str:
        from uncork.kernels.codegen.emit import F32, Kernel

        k = Kernel(name, ["source", "panel", "times", "result"], target)
        left, right, repeats, made = k.arguments
        sums = [
            [k.variable(k.constant(0.0, F32, vector)) for _ in range(vectors)] for _ in range(rows)
        ]
        with k.loop(0, repeats):
            for step in k.unrolled(k.integer(inner), 2):
                weights = [
                    k.load(right + (step * vectors + v) * (vector * 4), F32, vector)
                    for v in range(vectors)
                ]
                for row in range(rows):
                    factor = k.splat(k.load(left + row * inner * 4 + step * 4, F32), vector)
                    for total, weight in zip(sums[row], weights, strict=True):
                        total.set(k.fma(factor, weight, total.get()))
        for row in range(rows):
            for v in range(vectors):
                k.store(sums[row][v].get(), made + (row * vectors + v) * vector * 4)
        k.finish()
        return k.text()

    run = program(name, make, [source.ctypes.data, panel.ctypes.data, times, result.ctypes.data])
    kept = (panel, source, result)
    return lambda: run() if kept else 0, 2.0 * rows * vectors * vector * inner * times


# ---- reading in order


def reading(memory: Array, times: int) -> Callable[[], int]:
    """A call that adds up all of `memory`, f32 and aligned, so many times."""
    from uncork.kernels.runtime.target import host_target

    vector = host_target().lanes
    step = 8 * vector * 4
    result = np.zeros(vector, np.float32)
    name = f"limit_reading_{vector}"

    def make() -> str:
        from uncork.kernels.codegen.emit import F32, Kernel

        k = Kernel(name, ["memory", "size", "times", "result"])
        source, size, repeats, target = k.arguments
        sums = [k.variable(k.constant(0.0, F32, vector)) for _ in range(8)]
        with k.loop(0, repeats), k.loop(source, source + size, step) as address:
            for n, total in enumerate(sums):
                total.set(total.get() + k.load(address + n * vector * 4, F32, vector))
        k.store(_joined([total.get() for total in sums]), target)
        k.finish()
        return k.text()

    run = program(
        name, make, [memory.ctypes.data, memory.nbytes // step * step, times, result.ctypes.data]
    )
    kept = (memory, result)
    return lambda: run() if kept else 0
