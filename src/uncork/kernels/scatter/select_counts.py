"""Selection of kernels that count how often each place occurs among keys."""

from __future__ import annotations

from uncork.internal_ops.scattered_counts import COUNTED
from uncork.kernels.extents import decline_if, extents, nanoseconds, product
from uncork.kernels.kernel_plan import In, Out, Selection
from uncork.kernels.layer import Layer, one_call
from uncork.kernels.scatter.spec_counts import CountKeys


def select_counts(layer: Layer) -> Selection:
    data, keys = layer.input(0), layer.input(1)
    layer.require(0, *COUNTED)
    decline_if(keys.element_type.bits < 8, f"no kernel for {keys.element_type}")
    places, count = extents(data)[0], product(extents(keys))
    spec = CountKeys(data.element_type.name, keys.element_type.name)
    call = spec(data=In(0), keys=In(1), output=Out(0), places=places, count=count)
    return one_call(call, nanoseconds(count + places, 1.5))
