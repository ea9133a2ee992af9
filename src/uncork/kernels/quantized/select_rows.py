"""Selection of the kernels that keep rows of f32 in bytes: see `internal_ops/coded_rows.py`."""

from __future__ import annotations

from uncork.kernels.extents import (
    compute_nothing_of,
    decline_if,
    extents,
    is_empty,
    nanoseconds,
    product,
)
from uncork.kernels.kernel_plan import In, KernelCall, Out, Selection
from uncork.kernels.layer import Layer, shared_call
from uncork.kernels.quantized.spec import CodedRows
from uncork.symbolic import SizeLike


def select_encoded(layer: Layer) -> Selection:
    return _selected(layer, layer.input(0).shape.rank, back=False)


def select_decoded(layer: Layer) -> Selection:
    return _selected(layer, layer.input(0).shape.rank, back=True)


def _selected(layer: Layer, rank: int | None, back: bool) -> Selection:
    sizes = extents(layer.outputs[0] if back else layer.input(0))
    decline_if(not rank or is_empty(sizes[-1:]), "no kernel for empty rows")
    compute_nothing_of(sizes, "coded")
    spec, rows = CodedRows(layer.target.lanes, back), product(sizes[:-1])

    def some(first: SizeLike, count: SizeLike) -> KernelCall:
        return spec(source=In(0), target=Out(0), size=sizes[-1], first=first, count=count)

    return shared_call(some, rows, nanoseconds(product(sizes), 1 / 8))
