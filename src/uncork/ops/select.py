"""Select-1: elements of `then` where `cond` is true, of `else` elsewhere.

Page: operation-specs/condition/select-1. Its text lets `cond` stretch to the other two only; as in OpenVINO, which writes such
models for torch.where, with numpy broadcasting all three stretch to a common shape. With pdpd all stretch to `then`.
"""

from __future__ import annotations

import numpy as np

from uncork.ops._common.broadcast import Broadcasting
from uncork.ops._operation import register
from uncork.ops._ports import ANY, BOOLEAN, Input, Output
from uncork.types import Array, PartialShape, TensorSpec


@register("Select", 1)
class Select1(Broadcasting):
    """`cond`, `then` and `else`, whose name is a word of Python's."""

    cond = Input(BOOLEAN)
    then = Input(ANY, "T", moved=True)
    else_ = Input(ANY, "T", moved=True)
    output = Output("T")

    def infer(self, cond: TensorSpec, then: TensorSpec, else_: TensorSpec) -> PartialShape:
        shapes = {"then": then.shape, "else": else_.shape, "cond": cond.shape}
        return self.common_shape(list(shapes.values()), list(shapes))

    def reference(self, cond: Array, then: Array, else_: Array) -> Array:
        return np.where(self.placed(cond, then.ndim), then, self.placed(else_, then.ndim))
