"""Latency of calls: contenders take turns, so that all share what the machine does meanwhile."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from uncork.errors import UncorkError
from uncork.types import Array

#: Seconds of one turn.
_TURN = 0.05


@dataclass
class Contender:
    """A way to run the model: `call` is timed, `before` is not."""

    name: str
    call: Callable[[], Any]
    before: Callable[[], None] | None = None
    seconds: list[float] = field(default_factory=list)

    def turn(self, until: float) -> None:
        """Make calls until that moment, one at least, and note their times."""
        while True:
            if self.before is not None:
                self.before()
            start = time.perf_counter()
            self.call()
            now = time.perf_counter()
            self.seconds.append(now - start)
            if now >= until:
                return

    def figures(self) -> dict[str, Any]:
        """The figures of its calls: seconds of a call, and calls in a second."""
        times = np.array(self.seconds)
        p90, p99 = np.percentile(times, [90, 99])
        return {
            "name": self.name,
            "calls": len(times),
            "min": float(times.min()),
            "median": float(np.median(times)),
            "p90": float(p90),
            "p99": float(p99),
            "mean": float(times.mean()),
            "calls_per_second": float(len(times) / times.sum()),
        }


def measure(
    contenders: Sequence[Contender], seconds: float, progress: Callable[[int, int], None]
) -> None:
    """Time the calls of all contenders, which take turns, for so many seconds each."""
    for contender in contenders:  # compiles, and maps what is mapped
        for _ in range(3):
            if contender.before is not None:
                contender.before()
            contender.call()
    turns = max(1, round(seconds / _TURN))
    for turn in range(turns):
        for contender in contenders:
            contender.turn(time.perf_counter() + seconds / turns)
        progress(turn + 1, turns)


def openvino_contender(
    path: str, weights: str | None, inputs: Sequence[Array], threads: int, precision: str
) -> Contender:
    """OpenVINO's CPU with the same file, arrays, threads and precision ("fast": its default).

    Raises UncorkError where it cannot run them.
    """
    try:
        ov = importlib.import_module("openvino")
    except ImportError:
        raise UncorkError("openvino is not installed: pip install openvino", "--against") from None
    try:
        core = ov.Core()
        model = core.read_model(path, weights) if weights else core.read_model(path)
        options = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY"}
        if precision != "fast":  # its default is what is fast
            hint = "bf16" if precision == "bf16" else "f32"
            options["INFERENCE_PRECISION_HINT"] = hint
        request = core.compile_model(model, "CPU", options).create_infer_request()
        given = [np.ascontiguousarray(array) for array in inputs]
        request.infer(given)
    except Exception as error:  # of a kind of its own
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        raise UncorkError(
            f"OpenVINO cannot run it: {lines[-1][:300] if lines else type(error).__name__}",
            "--against",
        ) from None
    states = bool(request.query_state())
    return Contender(
        "openvino", lambda: request.infer(given), request.reset_state if states else None
    )
