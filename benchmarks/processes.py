"""Fresh processes to measure: their programs, their environment, and when they had their first
result.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import uncork

#: What each system's program begins with: `load(path, inputs)` and `run(loaded, inputs)`, in the
#: words that a user would write.
PROGRAMS = {
    "uncork": """
import uncork
def load(path, inputs):
    # How many threads a compiled file takes was said when it was compiled.
    return uncork.load(path) if path.endswith(".uncork") else uncork.load(path, threads=THREADS)
def run(loaded, inputs):
    return list(loaded(*inputs))
""",
    "openvino": """
import openvino
def load(path, inputs):
    core = openvino.Core()
    options = {"INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"}
    options["INFERENCE_NUM_THREADS"] = THREADS
    if CACHE:
        options["CACHE_DIR"] = CACHE
    model = core.read_model(path)
    if FIXED:
        model.reshape({i: list(a.shape) for i, a in enumerate(inputs)})
    return core.compile_model(model, "CPU", options)
def run(loaded, inputs):
    results = loaded(inputs)
    return [results[i] for i in range(len(loaded.outputs))]
""",
    "nothing": """
def load(path, inputs):
    return None
def run(loaded, inputs):
    return inputs
""",
}


def environment(home: Path, threads: int) -> dict[str, str]:
    """Variables of a process whose home, and with it every cache, is this folder."""
    source = str(Path(uncork.__file__).resolve().parent.parent)
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "PYTHON"))
    }
    return inherited | {
        "HOME": str(home),
        "PYTHONPATH": source,
        "OMP_NUM_THREADS": str(threads),
        "OPENBLAS_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
    }


def command(
    system: str, program: str, threads: int, cache: str = "", fixed: bool = False
) -> list[str]:
    """Python, with a program that may use what `PROGRAMS[system]` defines. `cache` and `fixed`
    (shapes) are OpenVINO's.
    """
    return [
        sys.executable,
        "-c",
        f"THREADS, CACHE, FIXED = {threads}, {cache!r}, {fixed}\n{PROGRAMS[system]}\n{program}",
    ]


@dataclass(frozen=True)
class Run:
    """How one process went. Its memory is not known where it does not tell."""

    seconds: float
    peak_bytes: int | None


#: What a program says when it has its first result: "ready" at once, then the most memory it had by
#: then, in KiB.
READY = """
print("ready", flush=True)
import re
with open("/proc/self/status") as status:
    print(re.search(r"VmHWM:\\s+(\\d+)", status.read())[1], flush=True)
"""


def timed(arguments: list[str], env: dict[str, str], folder: Path) -> Run:
    """Start a process in a folder and wait until it is ready. Raises RuntimeError when it fails."""
    start = time.perf_counter()
    with subprocess.Popen(
        arguments, env=env, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        line = process.stdout.readline()
        seconds = time.perf_counter() - start
        more, errors = process.stdout.read(), process.stderr.read()
    if line.strip() != "ready" or process.returncode:
        raise RuntimeError((errors.strip().splitlines() or ["it ended without a word"])[-1][:300])
    return Run(seconds, int(more) * 1024)


def ended(arguments: list[str], env: dict[str, str], folder: Path) -> Run:
    """Start a process in a folder and wait for its end. Raises RuntimeError when it fails."""
    start = time.perf_counter()
    with subprocess.Popen(
        arguments, env=env, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        errors = process.stderr.read()
        process.wait()
        seconds = time.perf_counter() - start
    if process.returncode:
        raise RuntimeError((errors.strip().splitlines() or ["it ended without a word"])[-1][:300])
    return Run(seconds, None)
