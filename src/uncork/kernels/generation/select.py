"""Selection of kernels that make tensors of few numbers: OneHot sets places, Range is a loop
nest, Eye is copies.
"""

from __future__ import annotations

import numpy as np

from uncork.kernels.extents import decline_if, extents, largest, nanoseconds, product, smallest
from uncork.kernels.generation.spec import OneHot
from uncork.kernels.kernel_plan import In, KernelPlan, Out, Selection
from uncork.kernels.layer import Layer
from uncork.kernels.loops.nest_call import Call, View
from uncork.kernels.movement.nd_copy import Loop, nd_copy
from uncork.kernels.movement.spec import FillBytes
from uncork.kernels.runtime.addresses import address_of
from uncork.ops._common.indices import normalised_axis
from uncork.ops.one_hot import OneHot1, OneHot16
from uncork.storage import encode

_FLOATS = ("f32", "f64")
#: Floats below it are cut to i64.
_CUT = 2.0**63
#: No matrix has a diagonal that far from its main one.
_FARTHEST = 1 << 40


def select_one_hot(layer: Layer) -> Selection:
    operation, outputs = layer.of(OneHot1), layer.outputs
    indices, value = layer.input(0), layer.input(2)
    layer.require_numbers(2)
    made = extents(outputs[0])
    along = normalised_axis(operation, operation.axis, len(made))
    item = value.element_type.dtype.itemsize
    wraps = getattr(operation, "negative_indices_mode", "") == "normalize"
    strict = operation.strict and not isinstance(operation, OneHot16)
    spec = OneHot(item, indices.element_type.name, wraps, strict)

    call = spec(
        indices=In(0),
        value=In(2),
        output=Out(0),
        outer=product(made[:along]),
        depth=made[along],
        inner=product(made[along + 1 :]),
    )
    whole = product(made) * item
    fill = FillBytes(item)(value=In(3), target=Out(0), count=whole)
    return KernelPlan(spec.name, [fill, call], cost=nanoseconds(whole, 1 / 16))


def select_range(layer: Layer) -> Selection:
    """Select a nest that makes start + i * step in i64 or f64. What inference refuses, and what no
    i64 is cut to, is refused.
    """
    result = layer.outputs[0].element_type
    is_float = result.name in _FLOATS
    decline_if(not is_float and not result.is_integer, f"no kernel for ranges of {result}")
    lines, views = list[str](), {"Y": View(Out(0), result.name, layer.result())}
    for position, view in enumerate("ABS"):  # start, stop and step
        given = layer.input(position).element_type
        decline_if(
            not given.is_integer and given.name not in _FLOATS,
            f"no kernel for ranges of {result} from {given}",
        )
        views[view] = View(In(position), given.name, (1,))
        if given.is_float:
            lines.append(f"refused = differs({view}[0] - {view}[0])")
            if not is_float:
                lines.append(f"refused = abs({view}[0]) >= {_CUT!r}")
    lines += ["refused = S[0] == 0", "a = real(A[0])", "s = real(S[0])"]
    text = "\n".join([*lines, "i*: Y[i] = a + real(integer(i)) * s"])
    (count,) = layer.result()
    made = "f64" if is_float else "i64"
    return Call(
        "range", text, {"i": count}, views, layer.target, 1, count, scalar_type=made
    ).native()


def select_eye(layer: Layer) -> Selection:
    """Select a fill with zeros, and copies of a one to the places of the diagonal. Both are codes
    of the type: a 0 of nf4 has bits.
    """
    inputs, outputs = layer.inputs, layer.outputs
    given = inputs[2]
    if given is None or given.value is None:
        return "no kernel for a diagonal that is known at the call only"
    kind = outputs[0].element_type
    *batch, rows, columns = extents(outputs[0])
    asked = min(max(int(given.value.reshape(-1)[0]), -_FARTHEST), _FARTHEST)
    index = largest(smallest(asked, columns), -1 * rows)
    first = largest(-1 * index, 0)
    length = largest(smallest(rows, columns - index) - first, 0)
    codes = encode(np.array([0, 1], np.float32 if kind.is_float else np.int64), kind)
    zero, item = address_of(codes), codes.itemsize
    loops = [
        Loop(product(batch), 0, rows * columns * item),
        Loop(length, 0, (columns + 1) * item),
    ]
    place = Out(0, (first * columns + largest(index, 0)) * item)
    whole = product(extents(outputs[0])) * item
    return KernelPlan(
        "eye",
        [
            FillBytes(item)(value=zero, target=Out(0), count=whole),
            nd_copy(zero + item, place, loops, item),
        ],
        keep=[codes],
        cost=nanoseconds(whole, 1 / 16),
    )
