"""Selection of the loop nest that counts how often each place occurs among keys."""

from __future__ import annotations

from uncork.internal_ops.scattered_counts import COUNTED
from uncork.kernels.extents import decline_if, product
from uncork.kernels.kernel_plan import In, Out, Selection
from uncork.kernels.layer import Layer
from uncork.kernels.loops.nest_call import Call, View
from uncork.kernels.stored_types import element_bytes

#: The result holds the counts C while they grow, as integers of its width. A place that does not
#: occur keeps its value; a key that is no place is refused.
_TEXT = """p*: C[p] = 0
i:
  key = index(0, K[i])
  refused = either(key < 0, key >= index(0, places))
  C[at(key)] = C[at(key)] + 1
p*: Y[p] = where(C[p] == 0, D[p], real(C[p]))"""


def select_counts(layer: Layer) -> Selection:
    keys, name = layer.input(1).element_type, layer.input(0).element_type.name
    layer.require(0, *COUNTED)
    decline_if(keys.bits < 8, f"no kernel for {keys}")
    (places, *_), count = layer.shape(0), product(layer.shape(1))
    views = {
        "C": View(Out(0), f"i{8 * element_bytes(name)}", (places,)),
        "K": View(In(1), keys.name, (count,)),
        "D": View(In(0), name, (places,)),
        "Y": View(Out(0), name, (places,)),
    }
    sizes = {"p": places, "i": count, "places": places}
    cost = (count + places) * 3 // 2
    return Call(
        "count_keys", _TEXT, sizes, views, layer.target, cost=cost, scalar_type=name
    ).native()
