"""Which kernel picks single elements: those at indices (GatherElements), and the largest or smallest of rows (TopK)."""

from __future__ import annotations

from collections.abc import Sequence

from uncork.kernels.extents import certainly, extents, nanoseconds, product
from uncork.kernels.kernel_plan import Choice, In, Native, Operand, Out
from uncork.kernels.runtime.target import Target
from uncork.kernels.select import chooses
from uncork.kernels.selection.spec import Best, Elements
from uncork.ops import Operation
from uncork.types import ElementType, TensorSpec

#: With more of a row than this, sorting the row is no slower than keeping the best of it in order.
_MOST_BEST = 64


@chooses("GatherElements")
def choose_elements(operation: Operation, inputs: Sequence[TensorSpec | None], outputs: Sequence[TensorSpec], target: Target) -> Choice:
    data, indices = inputs
    assert data is not None
    assert indices is not None
    if data.element_type is ElementType.string:
        return "no kernel for strings"
    shape, picked = extents(data), extents(indices)
    axis: int = getattr(operation, "axis", 0) % len(shape)
    spec = Elements(data.element_type.dtype.itemsize, indices.element_type.name)

    words: list[Operand] = [In(0), In(1), Out(0), product(shape[:axis]), shape[axis], picked[axis], product(shape[axis + 1 :])]
    return Native(spec.name, [(spec, words)], cost=nanoseconds(product(picked), 1.0))


@chooses("TopK")
def choose_best(operation: Operation, inputs: Sequence[TensorSpec | None], outputs: Sequence[TensorSpec], target: Target) -> Choice:
    data = inputs[0]
    assert data is not None
    if data.element_type is not ElementType.f32:
        return "no kernel for types other than f32"
    if getattr(operation, "sort", "") == "index":
        return "no kernel for the order of indices"
    shape = extents(data)
    axis: int = getattr(operation, "axis", 0) % len(shape)
    count = extents(outputs[0])[axis]
    if not certainly(product(shape[axis + 1 :]), 1):
        return "no kernel along other axes than the last"
    if not isinstance(count, int) or not 0 < count <= _MOST_BEST:
        return "NumPy sorts as fast for that many"
    spec = Best(getattr(operation, "mode", "") == "max", outputs[1].element_type.name, target.lanes)

    words: list[Operand] = [In(0), Out(0), Out(1), product(shape[:axis]), shape[axis], count]
    return Native(spec.name, [(spec, words)], cost=nanoseconds(product(shape), 1 / 4))
