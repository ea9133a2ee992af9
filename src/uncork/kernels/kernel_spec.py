"""What all specs of kernels have: a name, and the function that writes the kernel's LLVM text."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import ClassVar, Protocol

from uncork.kernels.runtime.target import Target


class KernelSpec(Protocol):
    """What a kernel is specialised for: a frozen record. Kernels that differ have specs that
    differ.

    `emitter` names the function that takes a spec and a target and gives LLVM text,
    `module:function`. It is a name so that a spec does not import its emitter: whoever finds the
    kernel on disk needs none.
    """

    emitter: ClassVar[str]

    @property
    def name(self) -> str:
        """The name of the kernel's function."""


def llvm_text(spec: KernelSpec, target: Target) -> str:
    """The LLVM text of a kernel."""
    module, _, function = spec.emitter.partition(":")
    emit: Callable[[KernelSpec, Target], str] = getattr(importlib.import_module(module), function)
    return emit(spec, target)
