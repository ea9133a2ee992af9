"""Plans models for any level of processors, on any machine: which kernels would they ask for?

No kernel is compiled and none runs, so the level may be one that this machine has not.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import uncork
from uncork.compiler import execute
from uncork.compiler.compile import compile_for
from uncork.compiler.plan_set import CallDeclined, PlanSet
from uncork.functional import _native
from uncork.kernels.kernel_spec import KernelSpec
from uncork.kernels.runtime import kernel_cache, segment, thread_pool
from uncork.kernels.runtime.kernel_cache import ObjectStore, Preparation, Wanted
from uncork.kernels.runtime.target import Target
from uncork.types import Array

#: An address that nobody calls.
_NOWHERE = 4096


class Asked:
    """What plans have asked for: specs of kernels, and functions that are not for a layer."""

    def __init__(self) -> None:
        self.specs: dict[KernelSpec, None] = {}
        self.functions: dict[str, Wanted] = {}

    def add(self, specs: Sequence[KernelSpec]) -> None:
        self.specs.update(dict.fromkeys(specs))


@contextlib.contextmanager
def planning_for(target: Target) -> Iterator[Asked]:
    """A context in which models are planned for a target: see the module."""
    asked = Asked()

    def address(self: ObjectStore, spec: KernelSpec, target: Target | None = None) -> int:
        asked.add([spec])
        return _NOWHERE

    def address_of(self: ObjectStore, wanted: Wanted, target: Target | None = None) -> int:
        asked.functions[wanted.name] = wanted
        return _NOWHERE

    def add(self: Preparation, specs: Sequence[KernelSpec], further: Sequence[Wanted] = ()) -> None:
        asked.add(list(specs))

    def run(self: PlanSet, inputs: Sequence[Array]) -> Any:
        self.is_native(inputs)
        raise CallDeclined

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ObjectStore, "address", address)
        patch.setattr(ObjectStore, "address_of", address_of)
        patch.setattr(ObjectStore, "refusal", lambda *_: None)
        patch.setattr(Preparation, "add", add)
        patch.setattr(kernel_cache, "no_compiler", lambda: "")
        patch.setattr(segment, "native_entry", lambda target: True)
        patch.setattr(segment, "bound", lambda block, target: lambda *_: None)
        patch.setattr(PlanSet, "make", run)
        for module in (execute, _native):
            patch.setattr(module, "kernel_target", lambda *_, **__: target)
        patch.setattr(thread_pool, "_pool", {})
        yield asked


def plan_folder(folder: Path, target: Target, threads: int) -> None:
    """Plan the model of a folder for the calls of its inputs.npz (run<k>/<input>)."""
    model = uncork.read_model(folder / "model.xml")
    compiled = compile_for(model, target, threads)
    shapes: set[tuple[tuple[int, ...], ...]] = set()
    with contextlib.suppress(FileNotFoundError), np.load(folder / "inputs.npz") as file:
        for _, keys in itertools.groupby(sorted(file.files), lambda key: key.split("/")[0]):
            arrays = {int(key.split("/")[1]): file[key].shape for key in keys if "/" in key}
            if len(arrays) == len(compiled.inputs):
                shapes.add(tuple(arrays[n] for n in range(len(arrays))))
    for given in sorted(shapes) or [()]:
        names = [port.name for port in compiled.inputs]
        compiled.prepare(dict(zip(names, given, strict=True)) if given else {})


def plan_folders(folders: Sequence[Path], target: Target) -> list[str]:
    """Plan models for one thread and for several; returns what could not be planned."""
    problems = []
    for folder in folders:
        for threads in (1, 4):
            try:
                plan_folder(folder, target, threads)
            except Exception as error:
                problems.append(f"{folder.name}: {type(error).__name__}: {error}"[:300])
    return problems


def plan_functions(cases: Iterable[tuple[str, Any]]) -> None:
    """Plan calls of `uncork.functional`; those that it refuses ask for nothing."""
    # Not `isinstance`: it asks objects for their class, and other packages' may warn.
    functions = [one for one in gc.get_objects() if issubclass(type(one), _native._Calls)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _, call in cases:
            for _ in range(2):  # values that a plan has in it have one when they come again
                with contextlib.suppress(uncork.UncorkError, CallDeclined):
                    call()
            for calls in functions:  # a function remembers few kinds of calls
                calls._executors.clear()
