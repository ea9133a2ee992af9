"""The work of a layer, counted: terms added up for an element, operations, bytes moved."""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec.structs import replace

from uncork.internal_ops.appended_state import AppendState
from uncork.internal_ops.attention import FusedAttention
from uncork.internal_ops.blocks import OnBlocks
from uncork.internal_ops.compressed_linear import CompressedLinear
from uncork.internal_ops.final_states import LastStates
from uncork.internal_ops.fused import Fused, product_of
from uncork.internal_ops.held import Held
from uncork.internal_ops.looked_up_sequence import LookedUp
from uncork.internal_ops.quantized import OnCodes, QuantizedProduct
from uncork.internal_ops.state_product import StateProduct
from uncork.ops import Operation
from uncork.types import Array, TensorSpec

_RECURRENT = ("GRUSequence", "LSTMSequence", "RNNSequence", "GRUCell", "LSTMCell", "RNNCell")
#: Products and their relatives: two operations for each term.
_PRODUCTS = (
    "MatMul",
    "FusedLinear",
    "Einsum",
    *_RECURRENT,
)
#: What reads those rows of a table that are looked up.
LOOKUPS = ("Gather", "Embedding", "CompressedLookup", "NarrowedBag", "LookedUp")
#: Gates of a step, by the layer.
_GATES = {"GRU": 3, "LSTM": 4, "RNN": 1}


def work(
    operation: Operation, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]
) -> tuple[float, float]:
    """The operations of a step, and the least bytes that it reads and writes. The values of inputs
    count beside their shapes: they tell how long the rows of a sequence are.

    Operations are those of the layer's formula, whatever its kernel makes of them: a convolution by
    Winograd's tiles takes fewer.
    """
    moved = traffic(operation.type_name, inputs, outputs)
    linear = product_of(operation)
    if isinstance(operation, Fused):
        seen = _seen(operation, inputs)
        return operations("", seen, outputs), traffic("", seen, outputs)
    if isinstance(linear, CompressedLinear):
        matrix = linear.weights
        stored = math.prod(matrix.shape) * matrix.element_type.bits / 8
        stored += _nbytes(*matrix.operands)
        # Of a stack only what is chosen is read.
        moved += stored * min(1.0, math.prod(linear.lead) / matrix.stack)
        return 2.0 * _count(outputs[0]) * matrix.inner, moved
    if operation.type_name in ("FusedAttention", "ScaledDotProductAttention"):
        return _attention(operation, inputs, outputs[0])
    if isinstance(operation, Held):
        return work(operation.operation, inputs, outputs)
    if isinstance(operation, AppendState):
        return 0.0, 2 * _bytes(inputs[2])
    if isinstance(operation, StateProduct):
        a, storage, length = inputs[:3]
        (matrices,) = operation.value.describe([storage, length])
        unread = _bytes(storage) - _bytes(matrices)
        return 2.0 * _count(outputs[0]) * _last(a), moved - unread
    if isinstance(operation, LookedUp):
        # The products of the table's rows are made before any call: those of the states are left.
        ids, *others, table, axis = inputs
        (x,) = operation.gather.describe([table, ids, axis])
        moved = traffic("Gather", [table, ids], [x]) + traffic("", others, outputs) - _bytes(x)
        states = work(operation.sequence, [x, *others], outputs)[0]
        return states * _last(others[0]) / (_last(x) + _last(others[0])), moved
    if isinstance(operation, LastStates):
        return work(operation.sequence, inputs, operation.sequence.describe(inputs))[0], moved
    if isinstance(operation, (OnBlocks, OnCodes)):
        # The layer as it was written: its data do not lie in blocks or codes.
        plain = operation.plain([replace(spec, value=None) for spec in inputs])
        written = [spec for spec in plain if spec is not None]
        if isinstance(operation, QuantizedProduct):
            moved += _nbytes(operation.weights.codes, operation.weights.scales)
        made = operation.operation.describe(written)
        return work(operation.operation, written, made)[0], moved
    if operation.moves_values:
        return 0.0, moved
    product = getattr(operation, "product", None)
    kind = product.type_name if isinstance(product, Operation) else operation.type_name
    return operations(kind, inputs, outputs) * _steps_taken(operation, inputs), moved


def _seen(operation: Fused, inputs: Sequence[TensorSpec]) -> list[TensorSpec]:
    """What a fused layer reads: its inputs, or what moves among its members make of them, where
    that is less.
    """
    read_by_others = {
        n for m in operation.members if not m.operation.moves_values for n in m.arguments
    }
    known = list(inputs)
    seen = {n: spec for n, spec in enumerate(inputs) if n in read_by_others}
    for member in operation.members:
        given = [known[n] for n in member.arguments]
        for spec in member.operation.describe(given):
            if member.operation.moves_values and len(known) in read_by_others:
                seen[len(known)] = min(given[0], spec, key=_bytes)
            known.append(spec)
    return list(seen.values())


def _attention(
    operation: Operation, inputs: Sequence[TensorSpec], output: TensorSpec
) -> tuple[float, float]:
    """The operations of attention, and the least bytes that it reads and writes. There are two
    products for each pair of a query and a key that it may see.
    """
    fused = operation if isinstance(operation, FusedAttention) else FusedAttention(operation)
    given = fused.lying_and_moved(inputs)
    query, key, value = (moved for _, moved in given)
    targets, sources = (float(spec.shape[-2].static_size or 1) for spec in (query, key))
    pairs = targets * sources
    if getattr(fused.attention, "causal", False):
        pairs = sum(min(row + 1.0, sources) for row in range(int(targets)))
    heads = _count(output) / max(1.0, targets * _last(value))
    # Of a tensor that holds all three, each is a part; repeated heads are there once.
    read = sum(min(_bytes(lying), _bytes(moved)) for lying, moved in given)
    moved = read + traffic("", inputs[3:], [output])
    return 2.0 * heads * pairs * (_last(query) + _last(value)), moved


def _nbytes(*arrays: Array | None) -> float:
    return float(sum(array.nbytes for array in arrays if array is not None))


def _steps_taken(operation: Operation, inputs: Sequence[TensorSpec]) -> float:
    """The share of the steps of a sequence that its lengths leave; 1 where they are not known."""
    names = [port.name for port in operation.inputs]
    if "sequence_lengths" not in names:
        return 1.0
    lengths, steps = inputs[names.index("sequence_lengths")].value, inputs[0].shape[1].static_size
    if lengths is None or not lengths.size or not steps:
        return 1.0
    return float(lengths.mean()) / steps


def depth(type_name: str, inputs: Sequence[TensorSpec], output: TensorSpec) -> float:
    """How many terms are added up for one element of the result, about; 1 where it is not a sum."""
    sizes = [_count(spec) for spec in inputs]
    if not sizes:
        return 1.0
    many = max(1.0, sizes[0] / max(1.0, _count(output)))
    if type_name in ("MatMul", "Einsum", "FusedLinear") and len(sizes) > 1:
        # [m, k] times [k, n]: both together have k times k more elements than the result, and of
        # pairs of matrices so many times more as there are pairs.
        one = type_name == "Einsum"  # whose axes may lie in any order
        shared = 1.0 if one else _batch(inputs[0]) * _batch(inputs[1]) / _batch(output)
        return max(1.0, math.sqrt(sizes[0] * sizes[1] / max(1.0, _count(output) * shared)))
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
    if type_name in _RECURRENT:
        steps = sizes[0] / max(1.0, _last(inputs[0]) or 1.0)
        return max(1.0, steps * (_last(inputs[0]) + _last(inputs[1])))
    if type_name in (
        "SoftMax",
        "LogSoftmax",
        "MVN",
        "NormalizeL2",
        "GroupNormalization",
        "FusedNormalization",
        "BlockedNormalization",
        "ChannelNormalization",
        "CumSum",
        "RunningProduct",
        "DFT",
        "RDFT",
        "IRDFT",
        "IDFT",
    ):
        return max(1.0, sizes[0] / max(1.0, _first(inputs[0])))
    if type_name.startswith("Embedding") and len(sizes) > 1:
        return max(1.0, sizes[1])
    return many


def _batch(spec: TensorSpec) -> float:
    """How many matrices there are."""
    return math.prod(float(d.static_size or 1) for d in spec.shape[:-2]) if spec.shape.rank else 1.0


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
