"""Loads models and calls them, one after another, in a process that may be killed. Lines of JSON in, lines of JSON out.

Each job is {"model": path, "weights": path, "seed": number}. The answer's "outcome" is "ran", "refused" (an UncorkError that
says what and where) or what went wrong, with a traceback.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import math
import sys
import traceback
import warnings
from typing import Any

import numpy as np

import uncork
from uncork.types import ElementType

WORDS = np.array(["", "a", "日本", "uncork", " b "], object)


def random_input(port: uncork.ModelPort, generator: np.random.Generator) -> Any:
    """An array of a declared shape; open dimensions are small."""
    if port.shape.rank is None:
        shape = [int(n) for n in generator.integers(0, 4, generator.integers(0, 4))]
    else:
        shape = []
        for dim in port.shape:
            span = 3 if dim.high is None else min(dim.high - dim.low, 3)
            shape.append(dim.low + int(generator.integers(0, span, endpoint=True)))
    if math.prod(max(s, 1) for s in shape) > 5_000_000 or len(shape) > 32:
        raise MemoryError("an input that is too large to be tried")
    kind = port.element_type
    if kind is ElementType.string:
        return np.asarray(WORDS[generator.integers(0, len(WORDS), shape)], object).reshape(shape)
    if kind is ElementType.boolean:
        return generator.integers(0, 2, shape).astype(bool)
    if kind.is_integer:
        low, high = (0 if kind.kind == "unsigned" or kind.bits < 4 else -2), min(6, 2 ** (kind.bits - (kind.kind == "signed")) - 1)
        if generator.random() < 0.6:
            low = 0
        return generator.integers(low, high, shape, endpoint=True).astype(kind.dtype)
    values = generator.normal(size=shape)
    if values.size and generator.random() < 0.2:
        values.flat[0] = generator.choice([np.nan, np.inf, -np.inf, 0.0, 1e30])
    if not kind.is_native:
        with np.errstate(all="ignore"):
            return np.asarray(np.clip(np.nan_to_num(np.rint(values)), 0, 1), np.float32)
    with np.errstate(all="ignore"):
        return values.astype(kind.dtype)


def complaint(error: uncork.UncorkError) -> str:
    """What is missing in an error; empty when nothing is."""
    if not all(p.message.strip() for p in error.problems) or not error.message.strip():
        return "an error without a message"
    if not (error.where or all(p.where for p in error.problems)):
        return f"an error without a place: {error}"
    if len(str(error)) > 1_000_000:
        return "an error of more than a million characters"
    return ""


def attempt(job: dict[str, Any]) -> dict[str, Any]:
    answer: dict[str, Any] = {"outcome": "refused", "detail": ""}
    try:
        model = uncork.read_model(job["model"], job["weights"])
    except uncork.UncorkError as error:
        return {"outcome": "error", "detail": complaint(error)} if complaint(error) else {**answer, "detail": str(error)[:300]}
    results: dict[str, Any] = {}
    for backend in job["backends"]:
        generator = np.random.default_rng(job["seed"])
        try:
            compiled = uncork.compile_model(model, backend=backend, loop_limit=50)
            try:
                inputs = [random_input(port, generator) for port in compiled.inputs]
            except MemoryError:
                return {"outcome": "refused", "detail": "loaded; its inputs are too large to try"}
            for _ in range(2):
                results[backend] = list(compiled(*inputs))
            assert all(isinstance(a, np.ndarray) for a in results[backend])
        except uncork.UncorkError as error:
            if complaint(error):
                return {"outcome": "error", "detail": complaint(error)}
            results[backend] = str(error)
            answer["detail"] = str(error)[:300]
    first, second = results[job["backends"][0]], results[job["backends"][-1]]
    if isinstance(first, str) != isinstance(second, str):
        return {"outcome": "differs", "detail": " and ".join(f"{b}: {r if isinstance(r, str) else 'runs'}" for b, r in results.items())}
    if isinstance(first, str):
        return answer
    for number, (a, b) in enumerate(zip(first, second)):
        if a.shape != b.shape or a.dtype.kind != b.dtype.kind:
            return {"outcome": "differs", "detail": f"result {number}: {a.dtype}{a.shape} and {b.dtype}{b.shape}"}
        with np.errstate(all="ignore"):
            close = a.dtype.kind != "f" or np.allclose(a.astype(float), b.astype(float), rtol=1e-2, atol=1e-3, equal_nan=True)
        if not close:
            return {"outcome": "values", "detail": f"result {number}: {a.reshape(-1)[:8]} and {b.reshape(-1)[:8]}"}
        if a.dtype.kind not in "f" and not (a == b).all():
            return {"outcome": "values", "detail": f"result {number}: {a.reshape(-1)[:8]} and {b.reshape(-1)[:8]}"}
    return {"outcome": "ran", "detail": ""}


def main() -> None:
    faulthandler.enable()
    memory = int(sys.argv[1])
    with contextlib.suppress(ImportError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    warnings.simplefilter("error")
    for line in sys.stdin:
        try:
            answer = attempt(json.loads(line))
        except BaseException as error:
            frames = traceback.extract_tb(error.__traceback__)
            inside = [f for f in frames if "uncork" in f.filename]
            last = inside[-1] if inside else frames[-1]
            answer = {
                "outcome": "exception",
                "detail": f"{type(error).__name__}: {str(error)[:200]}",
                "place": f"{last.filename.rpartition('uncork/')[2]}:{last.lineno}",
                "traceback": "".join(traceback.format_exception(error))[-3000:],
            }
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
