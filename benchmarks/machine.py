"""What a result was measured on."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

_PACKAGES = (
    "uncork",
    "numpy",
    "llvmlite",
    "openvino",
    "torch",
    "fbgemm-gpu-cpu",
    "onnxruntime",
    "onnx",
    "matplotlib",
)


def describe(threads: int) -> dict[str, Any]:
    """CPU, memory, systems and versions, and how loaded the machine is."""
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "caches": _caches(),
        "memory_gib": _memory(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "versions": {name: version for name in _PACKAGES if (version := _version(name))},
        "commit": _commit(),
        "kernels_for": _target(),
        "threads": threads,
        "pinned_to": sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        "load_average": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
    }


def in_words(machine: dict[str, Any]) -> str:
    """The description as one paragraph."""
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    pinned = (
        f", pinned to CPU {machine['pinned_to']}"
        if machine["pinned_to"] and len(machine["pinned_to"]) < machine["cores"]
        else ""
    )
    return (
        f"{machine['date']}. {machine['cpu']}, {machine['cores']} cores ({machine['caches']}), "
        f"{machine['memory_gib']} GiB; "
        f"{machine['system']}, {machine['python']}; {versions}; commit {machine['commit']}. "
        f"Kernels for {machine['kernels_for']}. "
        f"Threads: {machine['threads']}{pinned}; load average at the end {machine['load_average']}."
    )


def _target() -> str:
    """The processor that kernels are made for, in LLVM's word."""
    from uncork.compiler.execute import kernels_available
    from uncork.kernels.runtime.target import host_target

    return host_target().cpu if kernels_available() else "none"


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().split("\n\n")[0].splitlines()
        fields = {
            name.strip(): value.strip()
            for name, _, value in (line.partition(":") for line in lines)
        }
        return (
            f"{fields['model name']} (family {fields.get('cpu family')}, model "
            f"{fields.get('model')})"
        )
    except (OSError, KeyError):
        return platform.processor() or platform.machine()


def _caches() -> str:
    found = []
    for folder in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            level, kind, size = (
                (folder / name).read_text().strip() for name in ("level", "type", "size")
            )
        except OSError:
            continue
        if kind != "Instruction":
            found.append(f"L{level} {size}")
    return ", ".join(found) or "caches unknown"


def _memory() -> int | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30)
    except (ValueError, OSError, AttributeError):
        return None


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _commit() -> str:
    root = Path(__file__).parent

    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", *arguments], cwd=root, capture_output=True, text=True, check=True
        ).stdout.strip()

    try:
        return git("rev-parse", "--short", "HEAD") + (
            "-changed" if git("status", "--porcelain", "--untracked-files=no", "../src") else ""
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
