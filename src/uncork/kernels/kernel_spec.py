"""What all specs of kernels have: a name, arguments, and the function that writes the kernel's LLVM
text.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from msgspec import Struct
from msgspec.structs import astuple

from uncork.kernels.runtime.target import Target

#: What stands between the parts of names; everything else that no symbol has is left out.
_NO_SYMBOL = re.compile(r"\W+")


class KernelSpec(Struct, frozen=True):
    """What a kernel is specialised for: a frozen record. Kernels that differ have specs that
    differ.

    `emitter` names the function that takes a spec and a target and gives LLVM text,
    `module:function`. It is a name so that a spec does not import its emitter: whoever finds the
    kernel on disk needs none.
    """

    emitter: ClassVar[str]
    #: The first word of the kernel's name.
    prefix: ClassVar[str] = ""

    @property
    def name(self) -> str:
        """The name of the kernel's function: prefix and fields, of truths those that hold."""
        parts = [self.prefix]
        for field, value in zip(self.__struct_fields__, astuple(self), strict=True):
            if isinstance(value, bool):
                parts += [field] * value
            elif isinstance(value, tuple):
                parts += ["x".join(map(str, value))] * bool(value)
            elif value is not None and value != "":
                parts.append(str(getattr(value, "name", value)))
        return _NO_SYMBOL.sub("_", "_".join(parts))

    @property
    def arguments(self) -> Sequence[str]:
        """The names of the kernel's arguments, in their order."""
        raise NotImplementedError(f"the emitter of {type(self).__name__} names its arguments")

    def __call__(self, **operands: Any) -> tuple[KernelSpec, list[Any]]:
        """A call of the kernel with these operands, one for each argument, by name."""
        names = self.arguments
        assert operands.keys() == set(names), f"{self.name} takes {', '.join(names)}"
        return self, [operands[name] for name in names]


def llvm_text(spec: KernelSpec, target: Target) -> str:
    """The LLVM text of a kernel."""
    module, _, function = spec.emitter.partition(":")
    emit: Callable[[KernelSpec, Target], str] = getattr(importlib.import_module(module), function)
    return emit(spec, target)
