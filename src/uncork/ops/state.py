"""ReadValue-3, -6 and Assign-3, -6: variables that keep their value from one call to the next.

Pages: operation-specs/infrastructure/read-value-3, -6, assign-3, -6. Whoever runs the model holds
the values: a ReadValue gives the value from before the call, also when an Assign of the same call
comes first; a call that fails changes nothing.
"""

from __future__ import annotations

import numpy as np

from uncork.errors import UnsupportedError, shortened
from uncork.ops._operation import Passing, register
from uncork.ops._ports import ANY, Attribute, Input, Output, element_type_or_dynamic, shape, text
from uncork.storage import blank
from uncork.types import Array, PartialShape, TensorSpec


@register("ReadValue", 3)
class ReadValue3(Passing):
    """Gives the variable's value; `init_value` before anything was assigned to it."""

    deterministic = False
    init_value = Input(ANY, "T", moved=True)
    variable_id = Attribute(text)

    def infer(self, init_value: TensorSpec) -> PartialShape | TensorSpec:
        # What is assigned later may have another shape of the same rank.
        return (
            init_value.shape
            if init_value.rank is None
            else PartialShape([None] * len(init_value.shape))
        )


@register("ReadValue", 6)
class ReadValue6(ReadValue3):
    """States type and shape of the variable. Without `init_value` it begins as zeros, dynamic
    dimensions as 0.

    A type that is left open (`dynamic`, as for the cross-attention of decoders and in tokenizers),
    and the rank where that is, are those of `init_value`.
    """

    init_value = Input(ANY, optional=True, moved=True)
    output = Output()
    variable_type = Attribute(element_type_or_dynamic)
    variable_shape = Attribute(shape)

    def infer(self, init_value: TensorSpec | None) -> TensorSpec:
        self.require(
            init_value is None or self.variable_type in (None, init_value.element_type),
            "input 'init_value': expected {} (variable_type), got {}",
            self.variable_type,
            init_value and init_value.element_type,
        )
        self.require(
            init_value is None or init_value.shape.agrees(self.variable_shape),
            "input 'init_value': expected shape {} (variable_shape), got {}",
            self.variable_shape,
            init_value and init_value.shape,
        )
        variable_type, variable_shape = self.variable_type, self.variable_shape
        if init_value is not None:
            variable_type = init_value.element_type
            if variable_shape.rank is None and init_value.rank is not None:
                # As in version 3: what is assigned later may have another shape of the same rank.
                variable_shape = PartialShape([None] * init_value.rank)
        known = self.wanted(
            variable_type,
            "variable '{}' has variable_type dynamic and no input 'init_value': "
            "nothing says its element type",
            self.variable_id,
        )
        return TensorSpec(known, variable_shape)

    def reference(self, init_value: Array | None) -> Array:
        if init_value is not None:
            return init_value
        if self.variable_shape.rank is None:
            raise UnsupportedError(
                f"variable '{shortened(self.variable_id)}' has no initial value "
                "and a shape of unknown rank"
            )
        assert self.variable_type is not None  # `infer` has seen to that
        return np.full(
            [d.static_size or 0 for d in self.variable_shape],
            blank(self.variable_type),
            self.variable_type.dtype,
        )


@register("Assign", 3)
class Assign3(Passing):
    """Sets the variable when the call is done; passes the value on."""

    deterministic = False
    new_value = Input(ANY, "T", moved=True)
    variable_id = Attribute(text)


@register("Assign", 6)
class Assign6(Assign3):
    """Assign of opset 6, which means what that of opset 3 does."""
