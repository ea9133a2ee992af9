"""Zeros that fill blocks of channels, and what layers make of them.

What convolutions make of the zeros are zeros (`KeptChannels`). What other layers make of them is
read by zeros of filters only, so it needs to be finite.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf, isfinite

import numpy as np

from uncork.internal_ops.blocks import ChannelLayout
from uncork.internal_ops.fused import product_of
from uncork.internal_ops.stored_filters import StoredConstant
from uncork.ir.model import Model, Node, Source
from uncork.kernels.convolution.select_pool import pooling_of
from uncork.kernels.elementwise.lowering import has_lowering, lowered
from uncork.kernels.epilogue import CHANNEL
from uncork.kernels.extents import KernelDeclined
from uncork.kernels.select_epilogue import epilogue_of
from uncork.ops.concat import Concat1
from uncork.ops.interpolate import InterpolateByInputs
from uncork.ops.mvn import MVN6
from uncork.ops.slice import Slice8
from uncork.ops.split import Split1, VariadicSplit1
from uncork.passes.blocked_layers import (
    CONVOLUTIONS,
    REDUCTIONS,
    channels_of,
    is_depthwise,
    product_of_node,
    resizes_pixels,
)
from uncork.types import TensorSpec

#: Scalar operations that make finite numbers of finite ones, by how large these may be: as large as
#: the sum and the product of the operands, or about as large as the largest operand or constant.
_SUMS, _PRODUCTS = frozenset({"add", "subtract"}), frozenset({"multiply", "prelu"})
_KEEP = frozenset(
    (
        *("abs", "ceiling", "clamp", "elu", "floor", "gelu", "gelu_tanh", "hard_sigmoid"),
        *("hsigmoid", "hswish", "maximum", "minimum", "mish", "negative", "relu", "selu"),
        *("sigmoid", "softplus", "softsign", "swish", "swish_scaled", "tanh"),
    )
)
#: Modes of Interpolate that make means of pixels.
_MEANS = frozenset({"nearest", "linear", "linear_onnx", "bilinear_pillow"})
#: How much larger than its operands and constants the result of one of the last may be, and the
#: largest number that is surely finite after some more layers.
_TIMES, _MOST = 2.0, 1e30


def beside_infinities(model: Model, layouts: Mapping[Source, ChannelLayout]) -> set[Source]:
    """What lies beside zeros of which a layer may make an infinity or NaN, or that a layer would
    read for filters which it cannot be given zeros for.
    """
    filled = {source for source, layout in layouts.items() if not layout.is_full}
    largest: dict[Source, float] = {}
    found: set[Source] = set()
    for node in model.nodes if filled else ():
        made = [Source(node.id, number) for number in range(len(node.outputs))]
        involved = filled.intersection((*made, *node.inputs))
        if not made or not involved:
            continue
        number = _largest(model, node, [largest.get(source, 0.0) for source in node.inputs])
        if number > _MOST:
            found |= involved
        largest |= dict.fromkeys(made, min(number, _MOST))
    return found


def _largest(model: Model, node: Node, given: Sequence[float]) -> float:
    """The largest number that a layer makes of the zeros, and of what others have made of them;
    infinite where there is no telling. What is not done over blocks is always given zeros.
    """
    product = product_of_node(node)
    operation, result = node.operation, model.spec(Source(node.id, 0))
    specs = [model.spec(source) for source in node.inputs]
    if operation is None:
        return 0.0
    if isinstance(product, CONVOLUTIONS):
        return 0.0 if _has_zeros(model, node) else inf
    if isinstance(operation, (Concat1, Split1, VariadicSplit1, Slice8)) or pooling_of(operation):
        return max(given)
    if isinstance(product, MVN6):
        return max(1.0, *given) if product.eps > 0 else inf
    if isinstance(operation, InterpolateByInputs) and resizes_pixels(model, node):
        # Means of pixels; what cubic makes of others than zeros depends on its coefficient.
        return max(given) if max(given) == 0 or operation.mode in _MEANS else inf
    if node.type_name in REDUCTIONS:
        return inf if node.type_name == "ReduceSum" else max(given)
    if not has_lowering(operation) or channels_of(result) == 0:
        return 0.0
    try:
        how = lowered(operation, specs, result)
    except KernelDeclined:
        return 0.0
    channels = channels_of(result)
    # Other operands than those with all channels are one number for all of these.
    numbers = [
        given[n] if channels_of(specs[n]) == channels else _number(specs[n]) for n in how.inputs
    ]
    return _after(how.op, numbers, how.constants)


def _has_zeros(model: Model, node: Node) -> bool:
    """Whether a convolution can be given zeros for channels: of numbers that are known."""
    operation = node.checked_operation
    specs = [model.spec(source) for source in node.inputs]
    constant = model.by_id[node.inputs[1].node].operation
    stored = constant.filters if isinstance(constant, StoredConstant) else None
    known = specs[1].value is not None if stored is None else stored.has_zeros
    grouped = getattr(product_of(operation), "lead", 2) > 2 and not is_depthwise(model, node)
    if not known or grouped or node.hints.direct_sums:
        return False
    try:
        end, positions = epilogue_of(operation, specs, model.spec(Source(node.id, 0)), 1)
    except KernelDeclined:
        return False
    return all(
        kind != CHANNEL or specs[position].value is not None
        for kind, position in zip(end.operands, positions, strict=True)
    )


def _number(spec: TensorSpec) -> float:
    """The size of what is one number for all channels; infinite where only the call knows it."""
    return inf if spec.value is None else float(np.abs(spec.value).max(initial=0.0))


def _after(op: str, operands: Sequence[float], constants: Sequence[float]) -> float:
    """The largest result of a scalar operation on numbers at most as large as these."""
    finite = [abs(number) for number in constants if isfinite(number)]
    if not all(map(isfinite, operands)):
        return inf
    if op in _SUMS:
        return sum(operands)
    if op in _PRODUCTS:
        return float(np.prod(operands))
    return _TIMES * max(1.0, *operands, *finite) if op in _KEEP else inf
