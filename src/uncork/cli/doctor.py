"""`uncork doctor`: what a bug report needs to know of a machine, and whether kernels work on it."""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
import sys
from typing import Any

import numpy as np

from uncork import __version__
from uncork.cli._output import answer
from uncork.cli._parser import Parser
from uncork.compiler.compile import compile_model
from uncork.compiler.execute import kernel_target
from uncork.compiler.threads import available_threads
from uncork.errors import UncorkError
from uncork.ir.build import Builder
from uncork.kernels import select
from uncork.kernels.runtime.bundle import bundle_of
from uncork.kernels.runtime.disk_cache import Folder, default_folder
from uncork.kernels.runtime.target import host_target, level_of, no_compiler
from uncork.kernels.stored_types import multiplies_pairs
from uncork.memory import available
from uncork.quoting import in_terminal

_EPILOG = """\
examples:
  uncork doctor
  uncork doctor --json
exit status: 0 kernels work, 1 they do not: everything runs by the references
"""
#: Instruction sets that kernels look for.
_FEATURES = (
    "sse4.2",
    "avx",
    "avx2",
    "fma",
    "f16c",
    "avx512f",
    "avx512bw",
    "avx512vnni",
    "avx512bf16",
    "amx-tile",
    "amx-bf16",
    "amx-int8",
    "neon",
)
#: Packages that matter where they are there.
_PACKAGES = (
    *("numpy", "msgspec", "llvmlite", "pyarrow", "ray"),
    *("onnx", "onnxruntime", "openvino", "torch"),
)


def parser() -> Parser:
    parser = Parser(
        "uncork doctor",
        "Say what uncork finds on this machine.",
        _EPILOG,
        "uncork doctor [OPTION]...",
    )
    parser.add_json()
    return parser


def execute(arguments: argparse.Namespace) -> int:
    facts = _facts()
    answer(arguments, {"schema": "uncork-doctor-1", **facts}, _text(facts))
    return 0 if facts["kernels"] == "work" else 1


def _facts() -> dict[str, Any]:
    target = kernel_target() or host_target()
    bundle = bundle_of(target)
    memory, bound_by = available()
    folder = Folder(default_folder())
    return {
        "uncork": __version__,
        "where": os.path.dirname(sys.modules["uncork"].__file__ or ""),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "system": platform.platform(),
        "packages": {name: version for name in _PACKAGES if (version := _version(name))},
        "processor": platform.machine(),
        "cpu": level_of(target) or target.cpu,
        "features": [name for name in _FEATURES if target.has(name)],
        "registers": target.lanes,
        "bf16": multiplies_pairs(target),
        "threads": available_threads(),
        "memory": memory,
        "memory_by": bound_by,
        "kernels": _kernels(),
        "bundled": 0 if bundle is None else len(bundle),
        "folder": None if folder.path is None else str(folder.path),
        "files": len(folder.entries()),
    }


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _kernels() -> str:
    """Whether a small model runs by kernels, with the right result; else why not."""
    missing = select.unavailable()
    if missing:
        return missing
    builder = Builder("trial")
    table = builder.constant(np.arange(16, dtype=np.float32).reshape(4, 4))
    ids, offsets = (
        builder.parameter("ids", "i64", [None]),
        builder.parameter("offsets", "i64", [None]),
    )
    builder.result(builder.add("EmbeddingBagOffsetsSum", 3, table, ids, offsets)[0])
    try:
        compiled = compile_model(builder.model())
        result = compiled(np.array([0, 2, 3]), np.array([0, 2]))[0]
    except UncorkError as error:
        return str(error)
    if result.tolist() != [[8.0, 10.0, 12.0, 14.0], [12.0, 13.0, 14.0, 15.0]]:
        return f"a kernel gave {result.tolist()}"
    by = {step.kernel for step in compiled.plan.steps}
    return "work" if "reference" not in by else "not used"


def _processor(facts: dict[str, Any]) -> str:
    features = " ".join(facts["features"]) or "no instruction sets that matter"
    return f"{facts['processor']}, {facts['cpu']}: {features}"


def _others(facts: dict[str, Any]) -> str:
    """Where kernels come from."""
    others = no_compiler()
    return f"; {facts['bundled']:,} come with uncork, others " + (
        f"cannot be compiled: {others}" if others else "are compiled"
    )


def _text(facts: dict[str, Any]) -> str:
    packages = ", ".join(f"{name} {version}" for name, version in facts["packages"].items())
    lines = {
        "uncork": f"{facts['uncork']}, in {facts['where']}",
        "python": facts["python"],
        "system": facts["system"],
        "packages": packages,
        "processor": _processor(facts),
        "precision": "f32 unless another is asked for; the processor "
        + (
            "multiplies bf16, too, which 'fast' takes"
            if facts["bf16"]
            else "has no products of bf16: 'fast' multiplies f32"
        ),
        "threads": str(facts["threads"]),
        "memory": f"{facts['memory'] / 2**30:.1f} GiB, {facts['memory_by']}",
        "kernels": facts["kernels"]
        + (_others(facts) if facts["kernels"] == "work" else "; everything runs by the references"),
        "kept in": f"{facts['folder']}, {facts['files']:,} files"
        if facts["folder"]
        else "nowhere: every process compiles them",
    }
    width = max(map(len, lines))
    return "".join(f"{name.ljust(width)}  {in_terminal(text)}\n" for name, text in lines.items())
