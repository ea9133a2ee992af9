"""How far two correct results of one layer may lie apart: by the element type and by how many terms
are added up.

Both sides are given the same inputs, so what differs is the layer's own rounding, and that of the
factors of its products where ours may be rounded to bf16. It is measured against the largest value
of the result: sums of many terms round in steps of what is added, not of what remains.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from uncork.compiler.options import Activations, Decompression
from uncork.compiler.work import depth
from uncork.ir.model import Model, Node, Source
from uncork.ops._body import SubGraphOperation
from uncork.ops._common.recurrent import RecurrentSequence
from uncork.ops.attention import ScaledDotProductAttention
from uncork.ops.convolution import Convolution1
from uncork.ops.convolution_backprop import ConvolutionBackpropData1
from uncork.ops.einsum import Einsum
from uncork.ops.matmul import MatMul
from uncork.passes.stored_values import steps_from_constant
from uncork.types import ElementType, TensorSpec

#: Steps between 1 and the next value of the type.
_STEPS = {
    ElementType.f64: 2.0**-52,
    ElementType.f32: 2.0**-23,
    ElementType.f16: 2.0**-10,
    ElementType.bf16: 2.0**-7,
    ElementType.f8e4m3: 2.0**-3,
    ElementType.f8e5m2: 2.0**-2,
    ElementType.f8e8m0: 1.0,
    ElementType.f4e2m1: 2.0**-1,
    ElementType.nf4: 2.0**-1,
}
#: How far rounded rows may move what one product gives, relative to its largest value: a step of
#: the whole numbers that they become.
_OF_ROWS = {"f32": 0.0, "i16": 2.0**-15, "i8": 2.0**-7}
#: What multiplies factors that may be rounded.
_ROUNDED = (
    *(Convolution1, ConvolutionBackpropData1, Einsum, MatMul),
    *(RecurrentSequence, ScaledDotProductAttention),
)
_PRODUCTS = frozenset({"Convolution", "Einsum", "MatMul"})
#: The most that is allowed for a whole model, and what factors that are sums of two bf16 add.
_MOST = {"f32": 1e-2, "bf16": 1e-1, "bf16x3": 1e-2}
_IN_PARTS = 2.0**-12
#: Operations that move or pick values, and change none.
_MOVES = frozenset(
    {
        "Abs", "BatchToSpace", "Broadcast", "Ceiling", "Clamp", "Concat", "ConvertLike",
        "DepthToSpace", "Floor", "Gather", "GatherElements", "GatherND", "GatherTree",
        "Identity", "MaxPool", "Maximum", "Minimum", "Negative", "Pad", "ReLU",
        "ReadValue", "Reshape", "Reverse", "ReverseSequence", "Roll",
        "ScatterElementsUpdate", "ScatterNDUpdate", "ScatterUpdate", "Select",
        "ShuffleChannels", "Sign", "Slice", "SpaceToBatch", "SpaceToDepth", "Split",
        "Squeeze", "StridedSlice", "Tile", "TopK", "Transpose", "Unsqueeze",
        "VariadicSplit",
    }
)  # fmt: skip
#: Steps that one value may be off where functions are approximated, and where a few operations
#: follow each other.
_APPROXIMATED, _FEW = 64.0, 8.0
#: Operations that approximate functions, or are several in one.
_FUNCTIONS = frozenset(
    {
        "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "BatchNormInference", "Cos",
        "Cosh", "DFT", "DetectionOutput", "Elu", "Erf", "Exp", "GRUCell", "GRUSequence",
        "Gelu", "GridSample", "GroupNormalization", "HSwish", "IDFT", "IRDFT", "ISTFT",
        "If", "Interpolate", "LRN", "LSTMCell", "LSTMSequence", "Log", "LogSoftmax",
        "Loop", "MVN", "Mish", "NormalizeL2", "PSROIPooling", "Power", "PriorBox",
        "Proposal", "RDFT", "RNNCell", "RNNSequence", "ROIAlign", "ROIPooling", "STFT",
        "ScaledDotProductAttention", "Selu", "Sigmoid", "Sin", "Sinh", "SoftPlus",
        "SoftSign", "SoftMax", "Swish", "Tan", "Tanh", "TensorIterator",
    }
)  # fmt: skip


def step(element_type: ElementType) -> float:
    """The relative distance of two neighbouring values; 0 where values are exact."""
    return _STEPS.get(element_type, 0.0)


def tolerance(node: Node, inputs: list[TensorSpec], output: TensorSpec, precision: str) -> float:
    """How far results may lie apart, relative to the largest value of the result; 0 where they must
    be the same. Factors of products may be rounded to `precision`.
    """
    more = _of_factors(node, precision) if output.element_type is ElementType.f32 else 0.0
    return _of_types(node, inputs, output) + more


def of_all(nodes: Iterable[tuple[Node, list[TensorSpec]]], precision: str) -> float:
    """The rounding that is allowed for a whole model, by its layers and the specs of their inputs:
    that of all layers, one after the other.
    """
    every = sum(
        tolerance(node, inputs, node.outputs[0].spec, precision)
        for node, inputs in nodes
        if node.type_name not in ("Const", "Parameter", "Result") and node.outputs
    )
    return min(every, _MOST[precision])


def _of_factors(node: Node, precision: str) -> float:
    """What rounding the factors of a layer's products adds: each is off by half a step of bf16 at
    most, and errors of many terms that are added up grow as the sum does. What goes from turn to
    turn is off by more than that of one.
    """
    repeated = isinstance(node.operation, (RecurrentSequence, SubGraphOperation))
    if precision == "f32" or not (repeated or isinstance(node.operation, _ROUNDED)):
        return 0.0
    if precision == "bf16x3":
        return _IN_PARTS if isinstance(node.operation, RecurrentSequence) else 0.0
    return (4.0 if repeated else 2.0) * step(ElementType.bf16)


def _of_types(node: Node, inputs: list[TensorSpec], output: TensorSpec) -> float:
    """What the types of the results, and the number of terms, explain."""
    if not output.element_type.is_float:
        return 0.0
    if node.type_name in _MOVES:  # both may have joined the layer before to it
        steps = _FEW
    else:
        steps = (_APPROXIMATED if node.type_name in _FUNCTIONS else _FEW) + 4.0 * math.sqrt(
            depth(node.type_name, inputs, output)
        )
    # Narrow floats are computed in f32 and rounded once.
    narrow = max(step(ElementType.f32), step(output.element_type))
    return (
        2.0 * narrow + steps * step(ElementType.f32)
        if narrow > step(ElementType.f32)
        else steps * narrow
    )


def rows_of_stored(model: Model, activations: Activations) -> float:
    """How far the results of a model may move, relative to the largest value, where products by
    weights of 8 bits and fewer round their rows. Each rounds on its own, so that errors add up by
    the square root of how many there are.
    """
    if not _OF_ROWS[activations]:
        return 0.0
    return _OF_ROWS[activations] * math.sqrt(
        sum(
            node.type_name in _PRODUCTS and any(_is_stored(model, source) for source in node.inputs)
            for node in model.nodes
        )
    )


def _is_stored(model: Model, source: Source) -> bool:
    """Whether a tensor is made of a constant of 8 bits or fewer."""
    path = steps_from_constant(model, source)
    return path is not None and path[-1].outputs[0].spec.element_type.bits <= 8


def dropped(model: Model, node: Node, decompression: Decompression) -> float:
    """How far a layer may lie from the other side's, relative to the largest value, since one of
    both has left out a rounding on the way from stored weights: where roundings of those do not
    count, the steps of what it reads of them.
    """
    if decompression == "as-written" or steps_from_constant(model, Source(node.id, 0)) is None:
        return 0.0
    return max((step(model.spec(source).element_type) for source in node.inputs), default=0.0)
