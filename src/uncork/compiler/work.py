"""The work of a layer, counted: terms added up for an element, operations, bytes moved."""

from __future__ import annotations

import math
from collections.abc import Sequence

from uncork.types import TensorSpec

#: Products and their relatives: two operations for each term.
_PRODUCTS = (
    "MatMul",
    "FusedLinear",
    "Einsum",
    "GRUSequence",
    "LSTMSequence",
    "RNNSequence",
    "GRUCell",
    "LSTMCell",
    "RNNCell",
)
#: What reads those rows of a table that are looked up.
LOOKUPS = ("Gather", "Embedding", "CompressedLookup", "SparseLookup", "NarrowedBag", "LookedUp")
#: Gates of a step, by the layer.
_GATES = {"GRU": 3, "LSTM": 4, "RNN": 1}


def depth(type_name: str, inputs: Sequence[TensorSpec], output: TensorSpec) -> float:
    """How many terms are added up for one element of the result, about; 1 where it is not a sum."""
    sizes = [_count(spec) for spec in inputs]
    if not sizes:
        return 1.0
    many = max(1.0, sizes[0] / max(1.0, _count(output)))
    if type_name in ("MatMul", "Einsum", "FusedLinear") and len(sizes) > 1:
        # [.., m, k] times [.., k, n]: both together have k times k more elements than the result.
        return max(1.0, math.sqrt(sizes[0] * sizes[1] / max(1.0, _count(output))))
    if "Convolution" in type_name and len(sizes) > 1:
        if "Backprop" in type_name:  # each value of the input goes to a filter's worth of elements
            return max(
                1.0,
                sizes[0]
                * sizes[1]
                / max(1.0, _filters(type_name, inputs[1]))
                / max(1.0, _count(output)),
            )
        return max(1.0, sizes[1] / max(1.0, _filters(type_name, inputs[1])))
    if type_name in (
        "GRUSequence",
        "LSTMSequence",
        "RNNSequence",
        "GRUCell",
        "LSTMCell",
        "RNNCell",
    ):
        steps = sizes[0] / max(1.0, _last(inputs[0]) or 1.0)
        return max(1.0, steps * (_last(inputs[0]) + _last(inputs[1])))
    if type_name in (
        "SoftMax",
        "LogSoftmax",
        "MVN",
        "NormalizeL2",
        "GroupNormalization",
        "CumSum",
        "DFT",
        "RDFT",
        "IRDFT",
        "IDFT",
    ):
        return max(1.0, sizes[0] / max(1.0, _first(inputs[0])))
    if type_name.startswith("Embedding") and len(sizes) > 1:
        return max(1.0, sizes[1])
    return many


def _filters(type_name: str, filters: TensorSpec) -> float:
    """How many filters there are, those of all groups together."""
    count = 1 + ("Group" in type_name)
    return (
        math.prod(float(dim.static_size or 1) for dim in filters.shape[:count])
        if filters.shape.rank
        else 1.0
    )


def _count(spec: TensorSpec) -> float:
    if spec.shape.rank is None:
        return 1.0
    return math.prod(float(dim.static_size or 1) for dim in spec.shape)


def _last(spec: TensorSpec) -> float:
    return float(spec.shape[-1].static_size or 1) if spec.shape.rank else 1.0


def _first(spec: TensorSpec) -> float:
    return float(spec.shape[0].static_size or 1) if spec.shape.rank else 1.0


def operations(
    type_name: str, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]
) -> float:
    """Additions and multiplications of a layer, about: two for each term of products, one for each
    element that is read elsewhere.
    """
    if not inputs or not outputs:
        return 0.0
    size = _count(outputs[0])
    if type_name in _PRODUCTS or "Convolution" in type_name:
        gates = next((number for name, number in _GATES.items() if type_name.startswith(name)), 1)
        if gates > 1 or type_name.startswith("RNN"):
            return 2.0 * gates * size * (_last(inputs[0]) + _last(inputs[1]))
        return 2.0 * size * depth(type_name, inputs, outputs[0])
    if type_name.startswith(LOOKUPS):
        return _looked_up(inputs) if type_name.startswith("Embedding") else 0.0
    return max(size, *(_count(spec) for spec in inputs))


def traffic(type_name: str, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> float:
    """Bytes that a layer reads and writes at least: of a table only the rows that are looked up."""
    written = sum(_bytes(spec) for spec in outputs)
    read = [_bytes(spec) for spec in inputs]
    if type_name.startswith(LOOKUPS) and len(read) > 1:
        rows = _looked_up(inputs) if type_name.startswith("Embedding") else _count(outputs[0])
        read[0] = min(read[0], rows * inputs[0].element_type.bits / 8)
    return sum(read) + written


def _looked_up(inputs: Sequence[TensorSpec]) -> float:
    """The elements of the rows that ids name."""
    if len(inputs) < 2 or not inputs[0].shape.rank:
        return 0.0
    return _count(inputs[1]) * _count(inputs[0]) / max(1.0, _first(inputs[0]))


def _bytes(spec: TensorSpec) -> float:
    return _count(spec) * max(1, spec.element_type.bits) / 8
