"""The lowering of element-wise operations: the scalar operation of each (`codegen/scalar_ops.py`),
its types and its numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from msgspec import Struct

from uncork.kernels.extents import KernelDeclined, decline_if, extents
from uncork.ops import Operation
from uncork.ops.convert import keeps_integers
from uncork.symbolic import SizeLike
from uncork.types import Array, ElementType, TensorSpec

if TYPE_CHECKING:  # a model need not have them, and importing costs time
    from uncork.ops.activation import Clamp, PReLU

_HALVES = frozenset({"f16", "bf16"})
_FLOATS = frozenset({"f32", "f64"}) | _HALVES
_SINGLE = frozenset({"f32"}) | _HALVES
_INTEGERS = frozenset({"i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"})
_NUMBERS = _FLOATS | _INTEGERS
_BOOLEAN = frozenset({"boolean"})
_COMPARED = _NUMBERS | _BOOLEAN
#: Integers up to this are floats, as which the numbers of a kernel are known.
_EXACT = 1 << 53


class Lowered(Struct, frozen=True):
    """A lowered operation: its scalar operation, inputs, numbers, and the shapes by which the
    inputs broadcast to the result.
    """

    op: str
    inputs: tuple[int, ...]
    shapes: tuple[tuple[SizeLike, ...], ...]
    constants: tuple[float, ...] = ()


Lowering = Callable[[Operation, Sequence[TensorSpec], TensorSpec], Lowered]

_CIRCULAR = ("Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Cosh", "Sinh", "Tan")
#: Operation types that need nothing but their scalar operation: its name, and the types of their
#: first input.
_PLAIN: dict[str, tuple[str, frozenset[str]]] = {
    "Add": ("add", _NUMBERS),
    "Subtract": ("subtract", _NUMBERS),
    "Multiply": ("multiply", _NUMBERS),
    "Mod": ("remainder_cut", _INTEGERS | _SINGLE),
    "FloorMod": ("remainder_down", _INTEGERS | _SINGLE),
    "SquaredDifference": ("squared_difference", _NUMBERS),
    "KeptChannels": ("kept", _SINGLE),
    "Maximum": ("maximum", _NUMBERS),
    "Minimum": ("minimum", _NUMBERS),
    "Equal": ("equal", _COMPARED),
    "NotEqual": ("not_equal", _COMPARED),
    "Less": ("less", _COMPARED),
    "LessEqual": ("less_equal", _COMPARED),
    "Greater": ("greater", _COMPARED),
    "GreaterEqual": ("greater_equal", _COMPARED),
    "LogicalAnd": ("and", _BOOLEAN),
    "LogicalOr": ("or", _BOOLEAN),
    "LogicalXor": ("xor", _BOOLEAN),
    "Xor": ("xor", _BOOLEAN),
    "LogicalNot": ("not", _BOOLEAN),
    "Select": ("select", _BOOLEAN),
    "BitwiseAnd": ("and", _INTEGERS | _BOOLEAN),
    "BitwiseOr": ("or", _INTEGERS | _BOOLEAN),
    "BitwiseXor": ("xor", _INTEGERS | _BOOLEAN),
    "BitwiseNot": ("not", _INTEGERS | _BOOLEAN),
    "BitwiseLeftShift": ("shift_left", _INTEGERS),
    "BitwiseRightShift": ("shift_right", _INTEGERS),
    "Abs": ("abs", _NUMBERS),
    "Negative": ("negative", _NUMBERS),
    "Sign": ("sign", _NUMBERS),
    "Floor": ("floor", _NUMBERS),
    "Ceiling": ("ceiling", _NUMBERS),
    "ReLU": ("relu", _NUMBERS),
    "HSigmoid": ("hsigmoid", _FLOATS),
    "HSwish": ("hswish", _FLOATS),
    "SoftSign": ("softsign", _FLOATS),
    "Sqrt": ("sqrt", _FLOATS),
    "Sigmoid": ("sigmoid", _FLOATS),
    "Tanh": ("tanh", _FLOATS),
    "Exp": ("exp", _FLOATS),
    "Log": ("log", _FLOATS),
    "Erf": ("erf", _SINGLE),
    "ErfInv": ("erf_inverse", _SINGLE),
    "Atan2": ("atan2", _SINGLE),
    "SoftPlus": ("softplus", _SINGLE),
    "Mish": ("mish", _SINGLE),
    "Sin": ("sin", _FLOATS),
    "Cos": ("cos", _FLOATS),
    **{name: (name.lower(), _SINGLE) for name in _CIRCULAR},
    "IsNaN": ("is_nan", _FLOATS),
    "IsFinite": ("is_finite", _FLOATS),
}


#: The same of operations that say by attributes which it is, and numbers that it takes.
_VARIANTS: dict[str, Callable[[Any], tuple[Any, ...]]] = {
    "Elu": lambda op: ("elu", _SINGLE, [np.float32(op.alpha)]),
    "FakeQuantize": lambda op: ("fake_quantize", _FLOATS, [op.levels - 1]),
    "Gelu": lambda op: (
        "gelu_tanh" if getattr(op, "approximation_mode", "erf") == "tanh" else "gelu",
        _SINGLE,
    ),
    "IsInf": lambda op: ("is_infinite", _FLOATS, [op.detect_positive, op.detect_negative]),
    "Round": lambda op: (
        "round_even" if op.mode == "half_to_even" else "round_away",
        _NUMBERS,
    ),
    "Rounded": lambda op: (f"round_{op.element_type.name}", frozenset({"f32"})),
}


def lowered(operation: Operation, inputs: Sequence[TensorSpec], output: TensorSpec) -> Lowered:
    """The lowering of an operation on these static specs. Raises KernelDeclined where there is
    none.
    """
    lower = _LOWERINGS.get(operation.type_name)
    if lower is not None:
        return lower(operation, inputs, output)
    variant = _VARIANTS.get(operation.type_name)
    return _all(
        operation, inputs, *(_PLAIN[operation.type_name] if variant is None else variant(operation))
    )


def has_lowering(operation: Operation | None) -> bool:
    """Whether operations of this kind may have a lowering."""
    return operation is not None and operation.type_name in OPERATIONS


def _all(
    operation: Operation,
    inputs: Sequence[TensorSpec],
    op: str,
    types: frozenset[str],
    constants: Sequence[float] = (),
) -> Lowered:
    """The lowering to a scalar operation of which every input is an operand."""
    name = inputs[0].element_type.name
    decline_if(name not in types, f"no kernel for {name}")
    decline_if(
        getattr(operation, "auto_broadcast", "numpy") == "pdpd", "no kernel for pdpd broadcasting"
    )
    return Lowered(
        op,
        tuple(range(len(inputs))),
        tuple(extents(s) for s in inputs),
        tuple(float(n) for n in constants),
    )


def _divide(operation: Operation, inputs: Sequence[TensorSpec], output: TensorSpec) -> Lowered:
    if inputs[0].element_type.is_integer:
        word = "divide_down" if getattr(operation, "m_pythondiv", True) else "divide_cut"
        return _all(operation, inputs, word, _INTEGERS)
    return _all(operation, inputs, "divide", _FLOATS)


def _with_parameters(
    operation: Operation, inputs: Sequence[TensorSpec], op: str, types: frozenset[str]
) -> Lowered:
    """The lowering of an operation whose inputs but the first are one element each, whatever their
    rank.
    """
    found = _all(operation, inputs, op, types)
    return Lowered(op, found.inputs, (found.shapes[0], *((),) * (len(inputs) - 1)))


def _clamp(operation: Operation, inputs: Sequence[TensorSpec], output: TensorSpec) -> Lowered:
    clamp = cast("Clamp", operation)
    element_type = inputs[0].element_type
    low, high = float(clamp.min), float(clamp.max)
    if element_type.is_integer:
        limits = np.iinfo(element_type.dtype)
        least = clamp.bound(low, limits.min, limits.max, True)
        most = clamp.bound(high, limits.min, limits.max, False)
        low = -math.inf if least == limits.min else least
        high = math.inf if most == limits.max else most
        decline_if(
            any(_EXACT < abs(bound) < math.inf for bound in (low, high)),
            "no kernel for bounds of 64 bits",
        )
    elif element_type.bits <= 32:
        with np.errstate(over="ignore"):
            low, high = float(np.float32(low)), float(np.float32(high))
    return _all(operation, inputs, "clamp", _NUMBERS, [low, high])


def _prelu(operation: Operation, inputs: Sequence[TensorSpec], output: TensorSpec) -> Lowered:
    result = _all(operation, inputs, "prelu", _NUMBERS)
    if not cast("PReLU", operation).by_channel(inputs[0].shape, inputs[1].shape):
        return result
    return Lowered(
        "prelu", result.inputs, (result.shapes[0], _by_channel(result.shapes[1], result.shapes[0]))
    )


def _by_channel(
    parameter: tuple[SizeLike, ...], data: tuple[SizeLike, ...]
) -> tuple[SizeLike, ...]:
    return (*parameter, *(1,) * (len(data) - 2))


def _batch_norm(operation: Operation, inputs: Sequence[TensorSpec], output: TensorSpec) -> Lowered:
    order = (0, 1, 2, 3, 4) if operation.opset >= 5 else (2, 0, 1, 3, 4)
    name = inputs[0].element_type.name
    decline_if(name not in _FLOATS, f"no kernel for {name}")
    epsilon: float = getattr(operation, "epsilon", 0.0)
    shapes = [extents(inputs[i]) for i in order]
    constants = (float(np.float32(epsilon)) if name != "f64" else epsilon,)
    return Lowered(
        "batch_norm",
        order,
        (shapes[0], *(_by_channel(shape, shapes[0]) for shape in shapes[1:])),
        constants,
    )


def _broadcast(operation: Operation, inputs: Sequence[TensorSpec], output: TensorSpec) -> Lowered:
    decline_if(
        not all(spec.value is not None or spec.has_all_elements for spec in inputs[1:]),
        "the target shape is known at the call only",
    )
    decline_if(
        getattr(operation, "mode", "") not in ("numpy", "bidirectional"),
        "no kernel for explicit axes",
    )
    return Lowered("same", (0,), (extents(inputs[0]),))


#: Exponents that need no logarithm.
_EXPONENTS = {
    1.0: "same",
    2.0: "square",
    3.0: "cube",
    0.5: "root",
    -0.5: "inverse_root",
    -1.0: "inverse",
}


def _power(operation: Operation, inputs: Sequence[TensorSpec], output: TensorSpec) -> Lowered:
    exponents: Array | None = inputs[1].value
    op, name = None, inputs[0].element_type.name
    if (
        exponents is not None
        and exponents.size > 0
        and inputs[1].element_type.name not in _HALVES
        and (exponents == exponents.flat[0]).all()
    ):
        op = _EXPONENTS.get(float(exponents.flat[0]))
    if op is None and name in _SINGLE:
        return _all(operation, inputs, "power", _SINGLE)
    if op is None or name not in (_FLOATS if op not in ("same", "square", "cube") else _NUMBERS):
        raise KernelDeclined(f"no kernel for such powers of {name}")
    found = _all(operation, inputs, op, _NUMBERS)
    return Lowered(op, (0,), found.shapes[:1])


def _convert(operation: Operation, inputs: Sequence[TensorSpec], output: TensorSpec) -> Lowered:
    source, target = inputs[0].element_type, output.element_type
    decline_if(not _converts(source, target), f"no kernel from {source} to {target}")
    integers = source.is_integer and target.is_integer
    if source is target:
        op = "same"
    elif operation.strict and integers and not keeps_integers(source, target):
        op = "convert_exactly"
    else:
        op = "convert"
    return Lowered(op, (0,), (extents(inputs[0]),))


def _converts(source: ElementType, target: ElementType) -> bool:
    if source is target:
        return True
    if source.name not in _COMPARED or target.name not in _COMPARED:
        return False
    if target.name in _HALVES and source.name == "f64":
        return False  # it would be rounded twice
    return not (source.is_float and target is ElementType.u64)


_LOWERINGS: dict[str, Lowering] = {
    "Divide": _divide,
    "Swish": lambda operation, inputs, _output: _with_parameters(
        operation, inputs, "swish" if len(inputs) == 1 else "swish_scaled", _SINGLE
    ),
    "Selu": lambda operation, inputs, _output: _with_parameters(operation, inputs, "selu", _SINGLE),
    "HardSigmoid": lambda operation, inputs, _output: _with_parameters(
        operation, inputs, "hard_sigmoid", _FLOATS
    ),
    "Clamp": _clamp,
    "PReLU": _prelu,
    "BatchNormInference": _batch_norm,
    "Broadcast": _broadcast,
    "Power": _power,
    "Convert": _convert,
    "ConvertLike": _convert,
}
#: The types of all operations that have a lowering.
OPERATIONS = frozenset((*_PLAIN, *_VARIANTS, *_LOWERINGS))
