"""Kernels as on another processor, whose instructions this one has."""

from __future__ import annotations

import functools

from tools.kernel_recorder import TARGETS

from uncork.kernels.runtime import target as machine


def run_as(name: str) -> str:
    """Let this process select and compile kernels as on a processor of this name; why not, where
    that cannot be. It is for a process that has no kernel yet.
    """
    wanted = TARGETS.get(name)
    if wanted is None:
        return f"no target {name}: there are {', '.join(TARGETS)}"
    here = machine.host_target()
    if wanted.arch != here.arch:
        return f"{name} is a target of {wanted.arch}, and this is {here.arch}"
    missing = [
        feature
        for feature in wanted.features.split(",")
        if feature.startswith("+") and not here.has(feature[1:])
    ]
    if missing:
        return f"this processor has no {', '.join(f[1:] for f in missing)}, which {name} has"
    machine.host = functools.lru_cache(lambda: (wanted.cpu, wanted.features))
    machine.host_target.cache_clear()
    return ""
