"""The element types that ONNX's nodes take, and the type to compute in where a node does not take
the one at hand.

A node's types are those that both the standard (opset 21) and the CPU provider of onnxruntime have.
Where a tensor has another type it is cast to a wider one that holds all its values, and the result
is cast back; integers wrap on the way back, which is what they do in the IR. f64 is cast to f32
where there is no other way, which is not quite the same and has to be allowed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from uncork.types import ElementType

T = ElementType
_LETTERS = {
    "f": T.f32,
    "d": T.f64,
    "h": T.f16,
    "e": T.bf16,
    "q": T.f8e4m3,
    "p": T.f8e5m2,
    "b": T.i8,
    "w": T.i16,
    "i": T.i32,
    "l": T.i64,
    "B": T.u8,
    "W": T.u16,
    "I": T.u32,
    "L": T.u64,
    "?": T.boolean,
    "s": T.string,
}
_INTEGERS = "bwilBWIL"
#: Node types: letters of the types; inputs that have the type (all, or positions); the type of the
#: outputs where it is fixed.
_TABLE = """
Add Sub Mul Div Mod              fdh@         *
Max Min                          fdhbilBIL    *
Pow                              fdhil        *
PRelu                            fh            *
Equal                            fdh@?s       *  boolean
Less Greater LessOrEqual GreaterOrEqual fdh@  *  boolean
BitwiseAnd BitwiseOr BitwiseXor BitwiseNot @  *
BitShift                         BIL          *
And Or Xor Not                   ?            *
Abs Sign                         fdh@         *
Neg                              fdhbwil      *
Floor Ceil Round Exp Log Sqrt Reciprocal Tanh Sigmoid Sin Cos  fdh *
Relu                             fdhbi        *
Erf Tan Asin Acos Atan Sinh Cosh Asinh Acosh Atanh  fh *
Softplus Softsign Elu Selu LeakyRelu HardSigmoid HardSwish Mish Gelu  fh *
IsNaN IsInf                      fdh          *  boolean
Identity Reshape                 fdheqp@?s    0
Squeeze Unsqueeze Gather GatherElements GatherND Split Slice  fdhe@?s 0
Transpose                        fdheqp@?s    *
Concat                           fdhe@?s      *
Shape Size                       fdh@?s       *  i64
NonZero                          fhilB?       *  i64
Softmax LogSoftmax               fdh          *
ReduceSum ReduceMean ReduceProd ReduceL1 ReduceL2 ReduceLogSumExp ReduceSumSquare  fdhil 0
ReduceMax ReduceMin              fdhbilB?     0
ArgMax ArgMin                    fdhbilB      *  i64
CumSum                           fdhil        0
MatMul                           fdhilIL      *
Gemm                             fdh          *
Einsum                           fdhil        *
Clip                             fdhbilBIL    *
Where                            fdhbilBIs    1,2
Expand Tile                      fdh@?s       0
Pad                              fdhbilBIL?   0,2
ScatterND ScatterElements        fdhe@?s      0,2
ReverseSequence                  fdh@?s       0
DepthToSpace SpaceToDepth        fdhbB        *
OneHot                           fls          2
Conv ConvTranspose               fh           *
MaxPool                          fdhbB        *
AveragePool LpPool GlobalAveragePool  fh      *
BatchNormalization LayerNormalization GroupNormalization  fdh *
InstanceNormalization LRN        fh           *
GRU LSTM RNN                     fh           0,1,2,3,5,6
Range                            fdwil        *
Resize                           fhbiB        0
GridSample RoiAlign              fdh          0,1
DFT STFT                         fdh          0
NonMaxSuppression                f            0,1  i64
TopK                             fdhbwilB     0
Unique                           fdhbls       0
Det                              fh            *
"""


@dataclass(frozen=True)
class Signature:
    """The types of one node type."""

    types: frozenset[ElementType]
    positions: tuple[int, ...] | None
    result: ElementType | None

    def typed(self, position: int) -> bool:
        """Whether the input at this position has the node's type."""
        return self.positions is None or position in self.positions


def _signatures() -> dict[str, Signature]:
    results: dict[str, Signature] = {}
    for line in _TABLE.strip().splitlines():
        words = line.split()
        result = ElementType[words.pop()] if words[-1] in ElementType.__members__ else None
        positions = words.pop()
        letters = words.pop().replace("@", _INTEGERS)
        types = frozenset(_LETTERS[letter] for letter in letters)
        where = None if positions == "*" else tuple(map(int, positions.split(",")))
        results.update((name, Signature(types, where, result)) for name in words)
    return results


SIGNATURES = _signatures()

#: What is tried in this order. The types that come first hold every value; the last may hold its
#: bits only.
_WIDER: dict[ElementType, Sequence[ElementType]] = {
    T.bf16: (T.f32,),
    T.f16: (T.f32,),
    T.f8e4m3: (T.f16, T.f32),
    T.f8e5m2: (T.f16, T.f32),
    T.i8: (T.i16, T.i32, T.i64, T.f32),
    T.i16: (T.i32, T.i64, T.f32),
    T.i32: (T.i64, T.f64),
    T.u8: (T.i16, T.u16, T.i32, T.u32, T.i64, T.f32),
    T.u16: (T.i32, T.u32, T.i64, T.f32),
    T.u32: (T.i64, T.u64, T.f64),
    T.u64: (T.i64,),
    T.boolean: (T.u8, T.i32, T.f32),
}
#: The carrier of an element type in ONNX, where it is not the type itself: numbers of fewer bits
#: than eight, and codes.
CARRIERS = dict.fromkeys((T.u1, T.u2, T.u3, T.u4, T.u6, T.nf4, T.f4e2m1, T.f8e8m0), T.u8) | {
    T.i4: T.i8
}
#: Nodes that order their elements: the bits of an unsigned number alone will not do.
ORDERED = frozenset(
    {
        "Max",
        "Min",
        "ReduceMax",
        "ReduceMin",
        "ArgMax",
        "ArgMin",
        "TopK",
        "Clip",
        "Less",
        "Greater",
        "Div",
        "Mod",
    }
)


def carrier(element_type: ElementType) -> ElementType:
    """The element type that tensors of this type have in ONNX."""
    return CARRIERS.get(element_type, element_type)


def computed_in(op_type: str, element_type: ElementType) -> ElementType | None:
    """The type to compute in; None when the node has none that holds the values."""
    signature = SIGNATURES.get(op_type)
    if signature is None or element_type in signature.types:
        return element_type
    for wider in _WIDER.get(element_type, ()):
        if wider in signature.types and not (element_type is T.u64 and op_type in ORDERED):
            return wider
    return None
