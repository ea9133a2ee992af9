"""What the scattering operations share: the reductions by which an update joins the value that is
there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from uncork.ops._operation import Operation
from uncork.ops._ports import ANY, Attribute, Input
from uncork.types import Array, ElementType, TensorSpec

_REDUCTIONS: dict[str, np.ufunc] = {
    "sum": np.add,
    "sub": np.subtract,
    "prod": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
}
#: For booleans sum is or, prod is and (NumPy's own reading); NumPy has no difference of booleans.
_OF_BOOLEANS = {"sub": np.logical_xor}


class Reducing(Operation):
    """An operation with the attribute `reduction`.

    Reduction none only moves values, whatever their type; all others compute. `overwriting` is the
    same operation with moved inputs, to which reduction none is handed.
    """

    data = Input(ANY, "T")
    updates = Input(ANY, "T")
    reduction: Attribute[str]
    counts_from_end = True
    overwriting: ClassVar[type[Operation]]

    def _plain(self) -> Operation:
        return self.overwriting(strict=self.strict)

    def describe(self, specs: Sequence[TensorSpec | None]) -> tuple[TensorSpec, ...]:
        return (
            self._plain().describe(specs) if self.reduction == "none" else super().describe(specs)
        )

    def evaluate(self, specs: Sequence[TensorSpec | None]) -> tuple[TensorSpec, ...]:
        return (
            self._plain().evaluate(specs) if self.reduction == "none" else super().evaluate(specs)
        )

    def infer(self, data: TensorSpec, *others: TensorSpec) -> Any:
        unordered = data.element_type is ElementType.string or (
            data.element_type is ElementType.boolean and self.reduction == "mean"
        )
        self.require(
            not unordered, "reduction {} is not defined for {}", self.reduction, data.element_type
        )
        return super().infer(data, *others)


def accumulate(output: Array, index: tuple[Any, ...], updates: Array, reduction: str) -> None:
    """Join `updates` to the places `index` of `output`, one after the other; a place may come
    several times.
    """
    if reduction == "none":
        output[index] = updates  # NumPy keeps the last
    else:
        function = (
            _OF_BOOLEANS.get(reduction, _REDUCTIONS[reduction])
            if output.dtype == bool
            else _REDUCTIONS[reduction]
        )
        function.at(output, index, updates)
