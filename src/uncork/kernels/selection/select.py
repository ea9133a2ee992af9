"""Which kernel picks single elements: those at indices (GatherElements), and the largest or smallest of rows (TopK)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from uncork.kernels.runtime.kernel_cache import STORE, lanes
from uncork.kernels.select import Choice, In, Native, Operand, Out, chooses
from uncork.ops import Operation
from uncork.types import ElementType, TensorSpec

#: With more of a row than this, sorting the row is no slower than keeping the best of it in order.
_MOST_BEST = 64


@dataclass(frozen=True, slots=True)
class Elements:
    """What a GatherElements kernel is specialised for: bytes of an element, and the type of an index."""

    item: int
    index: str

    @property
    def name(self) -> str:
        return f"gather_elements_{self.item}_{self.index}"


@dataclass(frozen=True, slots=True)
class Best:
    """What a kernel of the best of f32 rows is specialised for."""

    largest: bool
    index: str
    lanes: int

    @property
    def name(self) -> str:
        return f"{'largest' if self.largest else 'smallest'}_{self.index}_{self.lanes}"


@chooses("GatherElements")
def choose_elements(operation: Operation, inputs: Sequence[TensorSpec | None], outputs: Sequence[TensorSpec]) -> Choice:
    data, indices = inputs
    assert data is not None
    assert indices is not None
    if not data.shape.is_static or not indices.shape.is_static or data.element_type is ElementType.string:
        return "no kernel for strings and open shapes"
    shape, picked = data.shape.static, indices.shape.static
    axis: int = getattr(operation, "axis", 0) % len(shape)
    spec = Elements(data.element_type.dtype.itemsize, indices.element_type.name)

    def make() -> str:
        from uncork.kernels.selection.emit import emit_elements

        return emit_elements(spec)

    words: list[Operand] = [In(0), In(1), Out(0), math.prod(shape[:axis]), shape[axis], picked[axis], math.prod(shape[axis + 1 :])]
    return Native(spec.name, [(STORE.function(spec.name, repr(spec), make), words)], cost=float(math.prod(picked)))


@chooses("TopK")
def choose_best(operation: Operation, inputs: Sequence[TensorSpec | None], outputs: Sequence[TensorSpec]) -> Choice:
    data = inputs[0]
    assert data is not None
    if data.element_type is not ElementType.f32 or not data.shape.is_static or not outputs[0].shape.is_static:
        return "no kernel for types other than f32 and open shapes"
    if getattr(operation, "sort", "") == "index":
        return "no kernel for the order of indices"
    shape = data.shape.static
    axis: int = getattr(operation, "axis", 0) % len(shape)
    count = outputs[0].shape.static[axis]
    if math.prod(shape[axis + 1 :]) != 1:
        return "no kernel along other axes than the last"
    if not 0 < count <= _MOST_BEST:
        return "NumPy sorts as fast for that many"
    spec = Best(getattr(operation, "mode", "") == "max", outputs[1].element_type.name, lanes())

    def make() -> str:
        from uncork.kernels.selection.emit import emit_best

        return emit_best(spec)

    words: list[Operand] = [In(0), Out(0), Out(1), math.prod(shape[:axis]), shape[axis], count]
    return Native(spec.name, [(STORE.function(spec.name, repr(spec), make), words)], cost=math.prod(shape) / 4)
