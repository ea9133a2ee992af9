"""What one thread of this machine reaches: bytes moved and numbers multiplied in a second."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from uncork.blas import at_most
from uncork.compiler.execute import kernel_target
from uncork.compiler.profile import Limits
from uncork.ir.build import Builder
from uncork.ir.model import Model
from uncork.kernels.runtime.target import Target
from uncork.types import Array

if TYPE_CHECKING:
    from uncork.compiler.compiled_model import CompiledModel

    #: Compiles a model of one layer for a target and so many threads.
    CompileLayer = Callable[[Model, Target | None, int], CompiledModel]

#: Rows and columns of the product that the limit is measured with: short, so that one of many is
#: not interrupted where others want the processor, too.
_PRODUCT = 384
#: Seconds in which each is measured, seconds of a run of calls between two looks at the clock, and
#: such runs at least.
_SECONDS, _RUN, _RUNS = 0.1, 20e-6, 3


@functools.lru_cache(maxsize=1)
def machine_limits(compile_layer: CompileLayer) -> Limits:
    """The limits of this machine, measured once in a process, in half a second: by copies of 64 MB,
    and by the faster of two matrix products, NumPy's and our own.
    """
    source, target = np.ones(8 << 20, np.float64), np.empty(8 << 20, np.float64)
    copies = smallest(lambda: np.copyto(target, source), _SECONDS)
    a, b, c = (np.ones((_PRODUCT, _PRODUCT), np.float32) for _ in range(3))
    with at_most(1):
        products = min(
            smallest(lambda: np.matmul(a, b, out=c), _SECONDS),
            smallest(_own_product(a, b, compile_layer), _SECONDS),
        )
    return Limits(2 * source.nbytes / copies, 2 * _PRODUCT**3 / products)


def _own_product(a: Array, b: Array, compile_layer: CompileLayer) -> Callable[[], Any]:
    builder = Builder("product")
    x = builder.parameter("x", "f32", a.shape)
    builder.result(
        builder.add("MatMul", 1, x, builder.constant(b), transpose_a=False, transpose_b=False)[0]
    )
    return compile_layer(builder.model(), kernel_target(), 1).bind(a)


def smallest(call: Callable[[], Any], seconds: float) -> float:
    """The smallest time of a call, measured over so many seconds and a few calls at least; short
    calls are timed in runs, since the clock is coarse.
    """
    call()
    call()  # kernels of the first call are compiled, those of a second size too
    start = time.perf_counter()
    call()
    run = max(1, min(100, int(_RUN / max(1e-9, time.perf_counter() - start))))
    best, end, runs = float("inf"), time.perf_counter() + seconds, 0
    while runs < _RUNS or time.perf_counter() < end:
        start = time.perf_counter()
        for _ in range(run):
            call()
        best = min(best, (time.perf_counter() - start) / run)
        runs += 1
    return best
