"""Working memory that grows with the sizes of calls, also while other threads call."""

from __future__ import annotations

import threading

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import uncork
from uncork.errors import InputError

F32 = np.float32
GENERATOR = np.random.default_rng(0)
WEIGHTS = [GENERATOR.standard_normal((24, 24)).astype(F32) / 8 for _ in range(3)]


def layers() -> uncork.CompiledModel:
    """Three products with a softmax between them, whose outcomes need working memory."""
    builder = uncork.Builder("layers")
    x = builder.parameter("x", "f32", [None, 24])
    for weights in WEIGHTS:
        (x,) = builder.add("MatMul", 1, x, builder.constant(weights))
        (x,) = builder.add("SoftMax", 8, x, axis=-1)
    builder.result(x)
    return uncork.compile_model(builder.model(), threads=1)


def expected(x: np.ndarray) -> np.ndarray:
    y = x.astype(np.float64)
    for weights in WEIGHTS:
        y = np.exp(y @ weights)
        y /= y.sum(-1, keepdims=True)
    return y


def wrong(compiled: uncork.CompiledModel, rows: int) -> bool:
    x = np.random.default_rng(rows).standard_normal((rows, 24)).astype(F32)
    return not np.allclose(compiled(x)[0], expected(x), atol=1e-5)


def test_sizes_in_turn() -> None:
    compiled = layers()
    assert not any(wrong(compiled, rows) for rows in (1, 5, 4, 300, 7, 20_000, 1, 20_001, 3))
    compiled.release_memory()
    assert not any(wrong(compiled, rows) for rows in (2, 500, 1))


def test_several_threads_that_need_more_and_more() -> None:
    """Long calls give other threads way, which find the memory too small then."""
    compiled = layers()
    compiled(np.zeros((1, 24), F32))
    bad: list[int] = []
    begin = threading.Barrier(4)

    def work(number: int) -> None:
        begin.wait()
        for turn in range(40):
            rows = (turn + 1) * (97 if number % 2 else 331) + number
            if wrong(compiled, rows):
                bad.append(rows)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert bad == []


def test_a_call_beyond_the_limit_leaves_the_model_usable() -> None:
    compiled = layers()
    limited = uncork.compile_model(compiled.model, threads=1, memory_limit=100_000)
    assert not wrong(limited, 100)
    with pytest.raises(InputError, match="more than memory_limit"):
        limited(np.zeros((100_000, 24), F32))
    assert not any(wrong(limited, rows) for rows in (100, 101, 1))
