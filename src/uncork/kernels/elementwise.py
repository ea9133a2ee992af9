"""Which kernel computes element by element: arithmetic, some functions, and conversions that need no rounding rule of their own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from uncork.kernels.choose import Choice, In, Native, Operand, Out, chooses
from uncork.kernels.store import STORE, has_feature, lanes
from uncork.ops import Operation
from uncork.ops.activation import ReLU, Sigmoid
from uncork.ops.arithmetic import Add, Divide, Maximum, Minimum, Multiply, SquaredDifference, Subtract
from uncork.ops.convert import Convert1
from uncork.ops.softmax import SoftMax1, SoftMax8
from uncork.ops.unary import Abs, Exp, Negative, Sqrt, Tanh
from uncork.types import ElementType, TensorSpec

#: Types that are computed as they are: f16 and bf16 would have to be rounded, smaller integers are rare here.
_TYPES = frozenset({"f32", "f64", "i32", "i64", "u8", "i8", "u32", "u64", "i16", "u16"})
_F32_ONLY = frozenset({"Sigmoid", "Tanh", "Exp"})
_FLOATS_ONLY = frozenset({"Divide", "Sqrt", "Maximum", "Minimum"})


@dataclass(frozen=True, slots=True)
class Elementwise:
    """What a kernel is specialised for. `patterns`: how each operand follows the loops, see `_patterns`."""

    operation: str
    operands: tuple[str, ...]
    result: str
    patterns: tuple[str, ...]
    lanes: int

    @property
    def name(self) -> str:
        return f"{self.operation.lower()}_{'_'.join(self.operands)}_{self.result}_{'_'.join(self.patterns)}"


def _kernel(spec: Elementwise) -> int:
    def make() -> str:
        from uncork.kernels.elementwise_code import emit_elementwise

        return emit_elementwise(spec, has_feature("avx512f"))

    return STORE.function(spec.name, repr(spec), make)


def _patterns(shapes: Sequence[tuple[int, ...]], result: tuple[int, ...]) -> tuple[tuple[str, ...], int, int] | None:
    """(patterns, outer, inner): the result as rows, each operand "full", one "inner" row, an "outer" column or "one" value."""
    aligned = [(1,) * (len(result) - len(shape)) + shape for shape in shapes]
    for split in range(len(result) + 1):
        groups = (range(split), range(split, len(result)))
        # Of each operand, for the outer and the inner dimensions: do they vary (True), stay (False), or both (not one loop)?
        varying = [[{shape[d] != 1 for d in group if result[d] != 1} for group in groups] for shape in aligned]
        if all(len(found) <= 1 for pair in varying for found in pair):
            outer, inner = math.prod(result[:split]), math.prod(result[split:])
            return tuple(_pattern(True in a, True in b, outer, inner) for a, b in varying), outer, inner
    return None


def _pattern(by_row: bool, along_row: bool, outer: int, inner: int) -> str:
    """How an operand follows the loops; a loop of one turn may count either way, so it counts the way of fewer kernels."""
    by_row, along_row = by_row or (outer == 1 and along_row), along_row or (inner == 1 and by_row)
    if by_row:
        return "full" if along_row else "outer"
    return "inner" if along_row else "one"


@chooses(Add, Subtract, Multiply, Divide, Maximum, Minimum, SquaredDifference, ReLU, Sigmoid, Tanh, Exp, Sqrt, Abs, Negative, Convert1)
def choose_elementwise(operation: Operation, inputs: Sequence[TensorSpec | None], outputs: Sequence[TensorSpec]) -> Choice:
    specs = [s for s in inputs if s is not None]
    types = [s.element_type.name for s in specs]
    result = outputs[0].element_type.name
    name = operation.type_name
    if isinstance(operation, Convert1):
        if not _converts(specs[0].element_type, outputs[0].element_type):
            return f"no kernel from {types[0]} to {result}"
    elif not _TYPES.issuperset(types) or (name in _F32_ONLY and types[0] != "f32") or (name in _FLOATS_ONLY and types[0] not in ("f32", "f64")):
        return f"no kernel for {types[0]}"
    if not all(s.shape.is_static for s in specs) or getattr(operation, "auto_broadcast", "numpy") == "pdpd":
        return "no kernel for open shapes and pdpd broadcasting"
    shape = outputs[0].shape.static
    found = _patterns([s.shape.static for s in specs], shape)
    if found is None:
        return "no kernel for this broadcasting"
    patterns, outer, inner = found
    spec = Elementwise(name, tuple(types), result, patterns, lanes())
    words: list[Operand] = [In(0), In(1) if len(specs) > 1 else 0, Out(0), outer, inner]
    return Native(spec.name, [(_kernel(spec), words)], cost=outer * inner / 4)


def _converts(source: ElementType, target: ElementType) -> bool:
    """Integers wrap and floats widen or round to nearest, as the machine does it; floats to integers have rules of their own."""
    names = {source.name, target.name} - {"boolean"}
    if not _TYPES.issuperset(names) or target is ElementType.boolean:
        return False
    return not (source.is_float and target.is_integer)


@dataclass(frozen=True, slots=True)
class SoftMax:
    """What a softmax kernel is specialised for."""

    lanes: int

    @property
    def name(self) -> str:
        return f"softmax_{self.lanes}"


def _softmax(spec: SoftMax) -> int:
    def make() -> str:
        from uncork.kernels.elementwise_code import emit_softmax

        return emit_softmax(spec, has_feature("avx512f"))

    return STORE.function(spec.name, repr(spec), make)


@chooses(SoftMax1, SoftMax8)
def choose_softmax(operation: Operation, inputs: Sequence[TensorSpec | None], outputs: Sequence[TensorSpec]) -> Choice:
    data = inputs[0]
    assert data is not None
    assert isinstance(operation, SoftMax8)
    if data.element_type is not ElementType.f32 or not data.shape.is_static:
        return "no kernel for types other than f32 and open shapes"
    shape = data.shape.static
    if not shape or operation.axis % len(shape) != len(shape) - 1:
        return "no kernel along other axes than the last"
    spec = SoftMax(lanes())
    words: list[Operand] = [In(0), Out(0), math.prod(shape[:-1]), shape[-1]]
    return Native(spec.name, [(_softmax(spec), words)], cost=2.0 * math.prod(shape))
