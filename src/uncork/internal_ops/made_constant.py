"""Internal operation: a constant whose value is made when somebody asks for it."""

from __future__ import annotations

import weakref
from collections.abc import Callable

from uncork.ops._ports import Field
from uncork.ops.parameter import Const
from uncork.types import Array, TensorSpec


class Remade:
    """The array that a function makes, cached while somebody holds it, then made again."""

    def __init__(self, function: Callable[[], Array]) -> None:
        self._function = function
        self._made: weakref.ref[Array] | None = None

    def __call__(self) -> Array:
        result = None if self._made is None else self._made()
        if result is None:
            result = self._function()
            self._made = weakref.ref(result)
        return result


class MadeConstant(Const):
    """A constant of f32 that has what it is made of. Unless it is `kept`, its value is made when
    somebody asks for it, and forgotten with the last who has it: who reads what it is made of never
    asks.
    """

    make = Field[Remade]()
    kept = Field[Array | None](None)

    @property
    def value(self) -> Array:  # type: ignore[override]
        return self.make() if self.kept is None else self.kept

    def infer(self) -> TensorSpec:
        return TensorSpec(self.element_type, self.shape, self.kept)
