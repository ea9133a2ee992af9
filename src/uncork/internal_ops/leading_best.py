"""Internal operation: the first of the best elements of rows. See the pass `shorten_topk`."""

from __future__ import annotations

from uncork.ops._common.slices import sliced
from uncork.ops._operation import Operation
from uncork.ops._ports import ARITHMETIC, INTEGER, Field, Input, Output
from uncork.ops.topk import TopK3
from uncork.types import Array, PartialShape, TensorSpec


class LeadingBest(Operation):
    """A TopK of whose results only the first `most` along its axis are made.

    It refuses what the TopK refuses.
    """

    data = Input(ARITHMETIC, "T")
    k = Input(INTEGER)
    values = Output()
    indices = Output()

    topk = Field[TopK3]()
    most = Field[int]()

    def infer(self, data: TensorSpec, k: TensorSpec) -> tuple[TensorSpec, TensorSpec]:
        values, indices = self.topk.infer(data, k)
        return self._leading(values), self._leading(indices)

    def _leading(self, spec: TensorSpec) -> TensorSpec:
        if spec.rank is None:
            return spec
        dims = list(spec.shape)
        dims[self.topk.axis] = sliced(dims[self.topk.axis], 0, self.most, 1)
        return TensorSpec(spec.element_type, PartialShape(dims))

    def reference(self, data: Array, k: Array) -> tuple[Array, Array]:
        values, indices = self.topk.reference(data, k)
        first = (*[slice(None)] * (self.topk.axis % data.ndim), slice(self.most))
        return values[first], indices[first]
