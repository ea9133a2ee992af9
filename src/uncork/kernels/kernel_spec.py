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

#: A size that only the call knows, in the place of a number of a spec.
OPEN = -1
#: The arguments of a kernel that sorts (`codegen/radix_sort.py`): the entries, as many again, and
#: what digits are counted in; the bytes of an entry, and of the counts.
SORTS = ("entries", "others", "counts")
SORT_ENTRY, SORT_COUNTS = 8, 4096
#: What stands between the parts of names; everything else that no symbol has is left out.
_NO_SYMBOL = re.compile(r"\W+")
#: Where the words of a class's name begin.
_WORD = re.compile(r"(?<=[a-z])(?=[A-Z])")


class KernelSpec(Struct, frozen=True):
    """What a kernel is specialised for: a frozen record. Kernels that differ have specs that
    differ.

    `emitter` names the function that takes a spec and a target and gives LLVM text,
    `module:function`. It is a name so that a spec does not import its emitter: whoever finds the
    kernel on disk needs none.
    """

    emitter: ClassVar[str]

    @property
    def name(self) -> str:
        """The name of the kernel's function: the words of the class, and its fields but for those
        that are as they mostly are.
        """
        fields, defaults = self.__struct_fields__, self.__struct_defaults__
        usual = dict(zip(fields[len(fields) - len(defaults) :], defaults, strict=True))
        parts = [_WORD.sub("_", type(self).__name__).lower()]
        for field, value in zip(fields, astuple(self), strict=True):
            if value not in (None, False, "", ()) and value != usual.get(field):
                parts.append(_told(field, value))
        return _NO_SYMBOL.sub("_", "_".join(parts))

    @property
    def arguments(self) -> Sequence[str]:
        """The names of the kernel's arguments, in their order."""
        raise NotImplementedError(f"the emitter of {type(self).__name__} names its arguments")

    def __call__(self, **operands: Any) -> tuple[KernelSpec, list[Any]]:
        """A call of the kernel with these operands, one for each argument, by name."""
        names = self.arguments
        assert operands.keys() == set(names), f"{self.name} takes {', '.join(names)}"
        for name, operand in operands.items():
            assert not isinstance(operand, int) or -(2**63) <= operand < 2**63, (
                f"{self.name}: {name} is {operand}, operands are signed numbers of 64 bits"
            )
        return self, [operands[name] for name in names]


def _told(field: str, value: Any) -> str:
    """A field in a kernel's name: of truths their names."""
    if value is True:
        return field
    if isinstance(value, tuple):
        return ("_" if isinstance(value[0], str) else "x").join(map(str, value))
    return "open" if value == OPEN else str(getattr(value, "name", value)).strip("_")


def llvm_text(spec: KernelSpec, target: Target) -> str:
    """The LLVM text of a kernel."""
    return str(writer_of(spec.emitter)(spec, target))


def writer_of(place: str) -> Callable[..., Any]:
    """The function at a place, `module:function`, which is imported when it is asked for."""
    module, _, function = place.partition(":")
    writer: Callable[..., Any] = getattr(importlib.import_module(module), function)
    return writer
