"""How far two correct results of one layer may lie apart: by the element type and by how many terms
are added up.

Both sides are given the same inputs, so what differs is the layer's own rounding. It is measured
against the largest value of the result: sums of many terms round in steps of what is added, not of
what remains.
"""

from __future__ import annotations

import math

from uncork.compiler.work import depth
from uncork.ir.model import Node
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


def tolerance(node: Node, inputs: list[TensorSpec], output: TensorSpec) -> float:
    """How far results may lie apart, relative to the largest value of the result; 0 where they must
    be the same.
    """
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
