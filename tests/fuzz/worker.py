"""Loads models and calls them, one after another, in a process that may be killed. Lines of JSON
in, lines of JSON out.

Each job is {"model": path, "weights": path, "seed": number}. The answer's "outcome" is "ran",
"refused" (an UncorkError that says what and where) or what went wrong, with a traceback.
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib.util
import json
import math
import sys
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import uncork
from uncork.types import ElementType

WORDS = np.array(["", "a", "日本", "uncork", " b "], object)


def random_input(port: uncork.ModelPort, generator: np.random.Generator) -> Any:
    """An array of a declared shape; open dimensions are small. None when it would be too large to
    be tried.
    """
    if port.shape.rank is None:
        shape = [int(n) for n in generator.integers(0, 4, generator.integers(0, 4))]
    else:
        shape = []
        for dim in port.shape:
            span = 3 if dim.high is None else min(dim.high - dim.low, 3)
            shape.append(dim.low + int(generator.integers(0, span, endpoint=True)))
    if math.prod(max(s, 1) for s in shape) > 5_000_000 or len(shape) > 32:
        return None
    kind = port.element_type
    if kind is ElementType.string:
        return np.asarray(WORDS[generator.integers(0, len(WORDS), shape)], object).reshape(shape)
    if kind is ElementType.boolean:
        return generator.integers(0, 2, shape).astype(bool)
    if kind.is_integer:
        low, high = (
            (0 if kind.kind == "unsigned" or kind.bits < 4 else -2),
            min(6, 2 ** (kind.bits - (kind.kind == "signed")) - 1),
        )
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
    """Load, write and load again, and call with every backend; see the module."""
    try:
        model = uncork.read_model(job["model"], job["weights"])
    except uncork.UncorkError as error:
        return (
            {"outcome": "error", "detail": complaint(error)}
            if complaint(error)
            else {"outcome": "refused", "detail": str(error)[:300]}
        )
    # What was read can be written, and is then the same model.
    written = Path(job["model"]).with_name("written.xml")
    try:
        uncork.write_model(model, written)
    except uncork.UncorkError as error:  # names of an ONNX model, which XML cannot hold
        if job["weights"] is not None or "XML cannot hold" not in str(error):
            raise
        return {"outcome": "refused", "detail": str(error)[:300]}
    variants = {
        "written": (uncork.read_model(written), "reference"),
        **{b: (model, b) for b in job["backends"]},
    }
    results: dict[str, Any] = {}
    for name, (variant, backend) in variants.items():
        generator = np.random.default_rng(job["seed"])
        try:
            compiled = uncork.compile_model(variant, backend=backend, loop_limit=50)
            inputs = [random_input(port, generator) for port in compiled.inputs]
            if any(array is None for array in inputs):
                return {"outcome": "refused", "detail": "loaded; its inputs are too large to try"}
            for _ in range(1 if name == "written" else 2):
                results[name] = list(compiled(*inputs))
            assert all(isinstance(a, np.ndarray) for a in results[name])
        except uncork.UncorkError as error:
            if complaint(error):
                return {"outcome": "error", "detail": complaint(error)}
            results[name] = str(error)
    first = results[job["backends"][0]]
    for name, other in results.items():
        if isinstance(first, str) != isinstance(other, str):
            return {
                "outcome": "differs",
                "detail": f"{job['backends'][0]}: {_shown(first)}; {name}: {_shown(other)}",
            }
    if isinstance(first, str):
        return {"outcome": "refused", "detail": first[:300]}
    if all(node.operation is None or node.operation.deterministic for node in model.nodes):
        tame = all(
            a.dtype.kind != "f" or bool((np.abs(a.astype(float)) < 1e6).all()) for a in inputs
        )
        for name, other in results.items():
            for number, (a, b) in enumerate(zip(first, other, strict=True)):
                if not _alike(a, b, tame):
                    return {
                        "outcome": "differs",
                        "detail": f"result {number}: {_shown(a)} and, {name}, {_shown(b)}",
                    }
    return {"outcome": "ran", "detail": ""}


def _shown(result: Any) -> str:
    if isinstance(result, np.ndarray):
        return f"{result.dtype}{list(result.shape)} {result.reshape(-1)[:6]}"
    return result[:200] if isinstance(result, str) else "runs"


def _alike(a: Any, b: Any, tame: bool) -> bool:
    """The same result, as far as the order of a sum may tell; infinite and huge inputs may end
    anywhere.
    """
    if a.shape != b.shape or a.dtype.kind != b.dtype.kind:
        return False
    if a.dtype.kind != "f":
        return bool((a == b).all()) or not tame
    with np.errstate(all="ignore"):
        return not tame or np.allclose(
            a.astype(float), b.astype(float), rtol=1e-2, atol=1e-3, equal_nan=True
        )


def serve(attempt: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Answer every job on standard input; the first argument is the memory that may be used, in
    bytes.
    """
    faulthandler.enable()
    memory = int(sys.argv[1])
    with contextlib.suppress(ImportError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    warnings.simplefilter("error")
    if importlib.util.find_spec("llvmlite") is None:  # then it is said once that everything is slow
        warnings.filterwarnings("ignore", "llvmlite", uncork.UncorkWarning)
    # Changed offsets and sizes leave bytes that no constant needs.
    warnings.filterwarnings("ignore", "the weights file .* is it the file of another model")
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


def main() -> None:
    """The worker of this module."""
    serve(attempt)


if __name__ == "__main__":
    main()
