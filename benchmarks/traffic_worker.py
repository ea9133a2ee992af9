"""One system under traffic, in a process of its own: `python -m benchmarks.traffic_worker SYSTEM
CASE FOLDER THREADS`.

Each line that comes in is {"first": number, "count": calls}; the answer has the seconds of each
call, and of another call of the same sizes, which are met by then; then resident memory and, of
uncork, how many kernels and plans there are. The first line that goes out has the sums of the
results of the first calls, by which the systems are seen to agree.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.traffic_cases import BY_NAME, Traffic
from uncork.types import Array

#: Calls whose results are compared.
COMPARED = 3
Call = Callable[[list[Array]], Sequence[Any]]


def resident() -> int:
    """Bytes of memory that this process has now."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Uncork:
    """This project."""

    def __init__(self, path: Path, threads: int) -> None:
        import uncork

        self._compiled = uncork.load(path, threads=threads)

    def call(self, inputs: list[Array]) -> Sequence[Any]:
        return self._compiled(*inputs)

    def reset(self) -> None:
        self._compiled.reset_state()

    def made(self) -> dict[str, int]:
        """Kernels of this process, and plans of the model: neither may grow with the traffic."""
        from uncork.kernels.runtime.kernel_cache import STORE

        executor = self._compiled.executor
        stateful = executor.stateful if self._compiled.model.sinks else None
        plans = (executor if stateful is None else stateful.executor).plans
        return {"kernels": len(STORE._functions), "plans": 0 if plans is None else len(plans.plans)}


class OpenVino:
    """OpenVINO, by one request that is used again and again."""

    def __init__(self, path: Path, threads: int) -> None:
        import openvino

        options = {
            "INFERENCE_PRECISION_HINT": "f32",
            "INFERENCE_NUM_THREADS": threads,
            "PERFORMANCE_HINT": "LATENCY",
        }
        compiled = openvino.Core().compile_model(str(path), "CPU", options)
        self._request, self._count = compiled.create_infer_request(), len(compiled.outputs)

    def call(self, inputs: list[Array]) -> Sequence[Any]:
        results = self._request.infer(inputs, share_inputs=True, share_outputs=True)
        return [results[i] for i in range(self._count)]

    def reset(self) -> None:
        self._request.reset_state()

    def made(self) -> dict[str, int]:
        return {}


class OnnxRuntime:
    """onnxruntime, on the model as `uncork export` writes it."""

    def __init__(self, path: Path, threads: int) -> None:
        import onnxruntime

        from uncork.export.onnx import to_onnx

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 3
        proto = to_onnx(path)
        self._session = onnxruntime.InferenceSession(
            proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        del proto
        self._names = [port.name for port in self._session.get_inputs()]

    def call(self, inputs: list[Array]) -> Sequence[Any]:
        results: Sequence[Any] = self._session.run(
            None, dict(zip(self._names, inputs, strict=True))
        )
        return results

    def reset(self) -> None:
        raise AssertionError("onnxruntime is not given models with variables")

    def made(self) -> dict[str, int]:
        return {}


SYSTEMS: dict[str, Callable[[Path, int], Uncork | OpenVino | OnnxRuntime]] = {
    "uncork": Uncork,
    "openvino": OpenVino,
    "onnxruntime": OnnxRuntime,
}


def run(
    system: Uncork | OpenVino | OnnxRuntime, traffic: Traffic, first: int, count: int
) -> dict[str, Any]:
    """So many calls, each timed. Where there is no state there is another one of the same sizes,
    made and
    called in the same way behind the call before: what the first has that this has not is a new
    size.
    """
    new: list[float] = []
    again: list[float] = []
    before = traffic.call(max(0, first - 1))
    for number in range(first, first + count):
        if traffic.sequence:
            if number % traffic.sequence == 0:
                system.reset()
            new.append(_timed(system, traffic.call(number)))
            continue
        for times, contents in ((new, 0), (again, 1)):
            inputs = traffic.call(number, contents)
            system.call(before)  # making inputs, and other systems, have filled the caches
            times.append(_timed(system, inputs))
        before = inputs
    return {"new": new, "again": again, "resident": resident(), **system.made()}


def _timed(system: Uncork | OpenVino | OnnxRuntime, inputs: list[Array]) -> float:
    """The seconds of a call."""
    start = time.perf_counter()
    system.call(inputs)
    return time.perf_counter() - start


def main(name: str, case: str, folder: str, threads: str) -> None:
    traffic = BY_NAME[case]
    system = SYSTEMS[name](Path(folder) / "model.xml", int(threads))
    if traffic.sequence:
        system.reset()
    compared = [
        [float(np.abs(np.asarray(r, np.float64)).sum()) for r in system.call(traffic.call(i))]
        for i in range(COMPARED)
    ]
    print(json.dumps({"sums": compared, "resident": resident(), **system.made()}), flush=True)
    for line in sys.stdin:
        print(json.dumps(run(system, traffic, **json.loads(line))), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
