"""What internal operations that stand for several layers have in common: what is asked of one, it
asks of its layers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from uncork.ops._operation import Operation
from uncork.ops._ports import ANY, Input
from uncork.types import TensorSpec

Specs = Sequence["TensorSpec | None"]
#: What is asked of a layer: the specs of its outputs from those of its inputs, with values or
#: without.
Step = Callable[[Operation, Specs], tuple[TensorSpec, ...]]


class OfLayers(Operation):
    """An operation whose meaning is that of layers."""

    values = Input(ANY, variadic=True)

    def through(self, step: Step, specs: Specs) -> tuple[TensorSpec, ...]:
        """The outputs, by `step` of the layers one after the other."""
        raise NotImplementedError

    def describe(self, specs: Specs) -> tuple[TensorSpec, ...]:
        return self.through(lambda layer, given: layer.describe(given), specs)

    def evaluate(self, specs: Specs) -> tuple[TensorSpec, ...]:
        return self.through(lambda layer, given: layer.evaluate(given), specs)
