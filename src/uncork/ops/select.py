"""Select-1: elements of `then` where `cond` is true, of `else` elsewhere.

Page: operation-specs/condition/select-1. Its text lets `cond` stretch to the other two only; as in
OpenVINO, which writes such models for torch.where, with numpy broadcasting all three stretch to a
common shape. With pdpd all stretch to `then`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from uncork.ops._common.broadcast import Broadcasting
from uncork.ops._elements import Elements, unknown_elements
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

    def carry(
        self,
        bound: Sequence[TensorSpec | None],
        parts: Sequence[Elements | None],
        output: TensorSpec,
    ) -> Elements | None:
        """The elements of the output as expressions; only the one that `cond` takes has to be
        known.
        """
        cond, *choices = parts
        if cond is None or self.auto_broadcast == "pdpd":
            return None
        then, else_ = (
            unknown_elements(s) if p is None and s is not None else p
            for s, p in zip(bound[1:], choices, strict=False)
        )
        if then is None or else_ is None:
            return None
        arrays = np.broadcast_arrays(cond, then, else_)
        taken = [
            None if c is None else a if c else b
            for c, a, b in zip(*(array.ravel().tolist() for array in arrays), strict=True)
        ]
        result = np.full(len(taken), None, object)
        result[:] = taken
        return result.reshape(arrays[0].shape)
