"""Inference of the shapes of nodes' outputs, as far as they follow at once: lowerings ask for
ranks, and choose by sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from uncork.ops._common.broadcast import broadcast_dimension
from uncork.types import DYNAMIC, Dimension, PartialShape

#: From the shapes of the inputs, their values where they are known, and the attributes.
Rule = Callable[[Sequence[PartialShape], Sequence[Any], Mapping[str, Any]], PartialShape]

_STRETCHING = (
    "Add Sub Mul Div Mod Max Min Pow PRelu Equal Less Greater LessOrEqual GreaterOrEqual And Or Xor"
)
_STRETCHING += " BitwiseAnd BitwiseOr BitwiseXor BitShift Where"
_ALIKE = """
Not BitwiseNot Abs Sign Neg Floor Ceil Round Exp Log Sqrt Reciprocal Erf IsNaN IsInf Identity Clip
Sin Cos Tan Asin Acos Atan Sinh Cosh Tanh Asinh Acosh Atanh
Relu Sigmoid Softplus Softsign Elu Selu HardSwish Mish Gelu Softmax LogSoftmax CumSum
ScatterElements ScatterND QuantizeLinear DequantizeLinear ReverseSequence
BatchNormalization LayerNormalization GroupNormalization LRN
"""


def _stretched(
    shapes: Sequence[PartialShape], values: Sequence[Any], attributes: Mapping[str, Any]
) -> PartialShape:
    if any(s.rank is None for s in shapes):
        return PartialShape()
    rank = max(len(s) for s in shapes)
    dims: list[Dimension] = [Dimension(1, 1)] * rank
    for shape in shapes:
        for index, dim in enumerate(shape, rank - len(shape)):
            dims[index] = broadcast_dimension(dims[index], dim) or DYNAMIC
    return PartialShape(dims)


def _first(
    shapes: Sequence[PartialShape], values: Sequence[Any], attributes: Mapping[str, Any]
) -> PartialShape:
    return shapes[0]


def _gathered(
    shapes: Sequence[PartialShape], values: Sequence[Any], attributes: Mapping[str, Any]
) -> PartialShape:
    data, indices = shapes[:2]
    if data.rank is None or indices.rank is None:
        return PartialShape()
    axis = attributes.get("axis", 0) % data.rank
    return PartialShape([*data[:axis], *indices, *data[axis + 1 :]])


def _transposed(
    shapes: Sequence[PartialShape], values: Sequence[Any], attributes: Mapping[str, Any]
) -> PartialShape:
    if shapes[0].rank is None:
        return PartialShape([None] * len(attributes["perm"]))
    return PartialShape([shapes[0][i] for i in attributes["perm"]])


def _reduced(
    shapes: Sequence[PartialShape], values: Sequence[Any], attributes: Mapping[str, Any]
) -> PartialShape:
    data = shapes[0]
    keeps = attributes.get("keepdims", 1)
    if data.rank is None or (len(values) > 1 and values[1] is None):
        return (
            PartialShape([None] * data.rank) if keeps and data.rank is not None else PartialShape()
        )
    axes = (
        range(data.rank) if len(values) < 2 else {int(a) % data.rank for a in values[1].reshape(-1)}
    )
    if not keeps:
        return PartialShape([d for i, d in enumerate(data) if i not in axes])
    return PartialShape([1 if i in axes else d for i, d in enumerate(data)])


def _chosen(
    shapes: Sequence[PartialShape], values: Sequence[Any], attributes: Mapping[str, Any]
) -> PartialShape:
    """The shape of ArgMax and ArgMin."""
    data = shapes[0]
    if data.rank is None:
        return PartialShape()
    axis = attributes.get("axis", 0) % data.rank
    kept = [Dimension(1, 1)] if attributes.get("keepdims", 1) else []
    return PartialShape([*data[:axis], *kept, *data[axis + 1 :]])


def _squeezed(
    shapes: Sequence[PartialShape], values: Sequence[Any], attributes: Mapping[str, Any]
) -> PartialShape:
    data = shapes[0]
    if data.rank is None or len(values) < 2 or values[1] is None:
        return PartialShape()
    axes = {int(a) % data.rank for a in values[1].reshape(-1)}
    return PartialShape([d for i, d in enumerate(data) if i not in axes])


def _unsqueezed(
    shapes: Sequence[PartialShape], values: Sequence[Any], attributes: Mapping[str, Any]
) -> PartialShape:
    data = shapes[0]
    if data.rank is None or values[1] is None:
        return PartialShape()
    total = data.rank + values[1].size
    axes, rest = {int(a) % total for a in values[1].reshape(-1)}, iter(data)
    return PartialShape([1 if i in axes else next(rest) for i in range(total)])


def _reshaped(
    shapes: Sequence[PartialShape], values: Sequence[Any], attributes: Mapping[str, Any]
) -> PartialShape:
    if values[1] is not None:
        return PartialShape([int(n) if n > 0 else None for n in values[1].reshape(-1)])
    return _of_length(shapes[1])


def _expanded(
    shapes: Sequence[PartialShape], values: Sequence[Any], attributes: Mapping[str, Any]
) -> PartialShape:
    if values[1] is not None:
        return _stretched(
            [shapes[0], PartialShape([int(n) for n in values[1].reshape(-1)])], (), {}
        )
    target = _of_length(shapes[1])
    return target if shapes[0].rank == 0 else _stretched([shapes[0], target], (), {})


def _of_length(vector: PartialShape) -> PartialShape:
    """The shape of unknown sizes whose rank is the length of a vector of sizes."""
    count = vector[0].static_size if vector.rank == 1 else None
    return PartialShape() if count is None else PartialShape([None] * count)


def _same_rank(
    shapes: Sequence[PartialShape], values: Sequence[Any], attributes: Mapping[str, Any]
) -> PartialShape:
    rank = shapes[0].rank
    return PartialShape() if rank is None else PartialShape([None] * rank)


def _vector(
    shapes: Sequence[PartialShape], values: Sequence[Any], attributes: Mapping[str, Any]
) -> PartialShape:
    return PartialShape([None])


def _product(
    shapes: Sequence[PartialShape], values: Sequence[Any], attributes: Mapping[str, Any]
) -> PartialShape:
    a, b = shapes[:2]
    if a.rank is None or b.rank is None or a.rank < 2 or b.rank < 2:
        return PartialShape()
    return PartialShape([*_stretched([a[:-2], b[:-2]], (), {}), a[-2], b[-1]])


def _shape_of(
    shapes: Sequence[PartialShape], values: Sequence[Any], attributes: Mapping[str, Any]
) -> PartialShape:
    rank = shapes[0].rank
    if rank is None:
        return PartialShape([None])
    return PartialShape([len(range(rank)[attributes.get("start", 0) : attributes.get("end")])])


_RULES: dict[str, Rule] = {
    **dict.fromkeys(_STRETCHING.split(), _stretched),
    **dict.fromkeys(_ALIKE.split(), _first),
    **dict.fromkeys(
        ("ReduceSum", "ReduceMean", "ReduceProd", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2"),
        _reduced,
    ),
    **dict.fromkeys(("ArgMax", "ArgMin"), _chosen),
    **dict.fromkeys(("Slice", "Pad", "TopK", "Resize", "Concat"), _same_rank),
    "Gather": _gathered,
    "Transpose": _transposed,
    "Squeeze": _squeezed,
    "Unsqueeze": _unsqueezed,
    "Reshape": _reshaped,
    "Expand": _expanded,
    "Range": _vector,
    "MatMul": _product,
    "Shape": _shape_of,
}


def shape_of(
    op_type: str,
    shapes: Sequence[PartialShape],
    values: Sequence[Any],
    attributes: Mapping[str, Any],
) -> PartialShape:
    """The shape of a node's first output; unknown where no rule tells it."""
    rule = _RULES.get(op_type)
    return PartialShape() if rule is None or not shapes else rule(shapes, values, attributes)
