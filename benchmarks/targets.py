"""Kernels as on another processor, whose instructions this one has."""

from __future__ import annotations

from uncork.kernels.runtime import target as machine


def run_as(name: str) -> str:
    """Let this process select and compile kernels as on a processor of this level; why not, where
    that cannot be. It is for a process that has no kernel yet.
    """
    wanted = machine.LEVELS.get(name)
    if wanted is None:
        return f"no target {name}: there are {', '.join(machine.LEVELS)}"
    if missing := machine.lacking(wanted):
        return f"{name} needs {missing}, which this machine has not"
    machine.levels_here = lambda tiles=False: iter([wanted])
    machine.host_target.cache_clear()
    return ""
