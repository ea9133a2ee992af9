"""Which kernel reduces: sums, means, norms, largest and smallest elements along axes; softmax and MVN along rows."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np

from uncork.kernels.runtime.kernel_cache import STORE, has_feature, lanes
from uncork.kernels.select import Choice, In, Native, Operand, Out, chooses
from uncork.ops import Operation
from uncork.ops._common.indices import normalised_axes, normalised_axis
from uncork.types import ElementType, TensorSpec

if TYPE_CHECKING:  # a model need not have them, and importing costs time
    from uncork.ops.mvn import MVN1, MVN6

#: Longer rows are left to NumPy, which adds in pairs: more accurate, and as fast there.
_LONGEST = 1 << 16
_FLOATS = frozenset({"f32", "f64", "f16", "bf16"})
_INTEGERS = frozenset({"i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"})


@dataclass(frozen=True, slots=True)
class Reduction:
    """What a reduction is specialised for. `along_rows`: what is joined is contiguous; else neighbours stay neighbours."""

    word: str
    element_type: str
    along_rows: bool
    lanes: int
    chains: int = 1

    @property
    def name(self) -> str:
        return f"reduce_{self.word}_{self.element_type}_{'rows' if self.along_rows else 'columns'}_{self.lanes}x{self.chains}"


@dataclass(frozen=True, slots=True)
class Rows:
    """What a kernel of whole f32 rows is specialised for: softmax, log_softmax, centre, standardise or standardise_outside."""

    kind: str
    lanes: int
    chains: int
    epsilon: float = 0.0

    @property
    def name(self) -> str:
        tail = f"_{hashlib.sha256(repr(self.epsilon).encode()).hexdigest()[:8]}" if self.epsilon else ""
        return f"{self.kind}_{self.lanes}x{self.chains}{tail}"


def _fitting(size: int, element_bytes: int) -> int:
    """Lanes of a vector that is no longer than a row."""
    width = max(1, lanes() * 4 // element_bytes)
    while width > max(1, size):
        width //= 2
    return width


def _chains(count: int, width: int) -> int:
    """Sums that are added to in turn: an addition waits for the one before it, but a short row is no wait."""
    return 4 if count >= 8 * width else 1


def _make(spec: Reduction | Rows, emitter: str) -> int:
    def make() -> str:
        from uncork.kernels.reduction import emit as reduce_code

        emit: Callable[[Reduction | Rows, bool], str] = getattr(reduce_code, emitter)
        return emit(spec, has_feature("avx512f"))

    return STORE.function(spec.name, repr(spec), make)


_WORDS = {
    "ReduceSum": "sum",
    "ReduceMean": "mean",
    "ReduceMax": "max",
    "ReduceMin": "min",
    "ReduceProd": "prod",
    "ReduceL1": "l1",
    "ReduceL2": "l2",
}


@chooses(*_WORDS)
def choose_reduction(operation: Operation, inputs: Sequence[TensorSpec | None], outputs: Sequence[TensorSpec]) -> Choice:
    data, axes = inputs[0], inputs[1]
    assert data is not None
    assert axes is not None
    if not data.shape.is_static or axes.value is None:
        return "axes or shapes are known at the call only"
    word, name = _WORDS[operation.type_name], data.element_type.name
    if name not in (_FLOATS if word in ("mean", "l2") else _FLOATS | _INTEGERS):
        return f"no kernel for {name}"
    if name == "f16" and has_feature("sse2") and not has_feature("f16c"):
        return "no kernel for f16 on this machine"
    shape = data.shape.static
    folds = _folds(shape, normalised_axes(operation, axes.value, len(shape)))
    if folds is None or (not axes.value.size and word in ("l1", "l2")):
        return "no kernel for no axes, or axes that are not next to each other"
    outer, count, inner = folds
    if count > _LONGEST:
        return "NumPy adds long rows as fast"
    spec = Reduction(
        word, name, inner == 1, _fitting(count if inner == 1 else inner, 4 if name in ("f16", "bf16") else data.element_type.dtype.itemsize)
    )
    words: list[Operand] = [In(0), Out(0), outer, count, inner]
    return Native(spec.name, [(_make(spec, "emit_reduction"), words)], cost=outer * count * inner / spec.lanes)


def _folds(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, int, int] | None:
    """(outer, count, inner): the dimensions before, along and after the axes, when no other lies between them."""
    along = [d for d in axes if shape[d] != 1]
    if not along:
        return math.prod(shape), 1, 1
    first, last = min(along), max(along)
    if any(shape[d] != 1 and d not in along for d in range(first, last)):
        return None
    return math.prod(shape[:first]), math.prod(shape[first : last + 1]), math.prod(shape[last + 1 :])


def _rows(kind: str, spec: TensorSpec, count: int, epsilon: float, emitter: str, cost: float) -> Choice:
    size = math.prod(spec.shape.static)
    if not size:
        return "nothing to compute"
    if count > _LONGEST:
        return "NumPy adds long rows as fast"
    width = _fitting(count, 4)
    found = Rows(kind, width, _chains(count, width), epsilon)
    words: list[Operand] = [In(0), Out(0), size // count, count]
    return Native(found.name, [(_make(found, emitter), words)], cost=cost * size)


@chooses("SoftMax", "LogSoftmax")
def choose_softmax(operation: Operation, inputs: Sequence[TensorSpec | None], outputs: Sequence[TensorSpec]) -> Choice:
    data = inputs[0]
    assert data is not None
    if data.element_type is not ElementType.f32 or not data.shape.is_static:
        return "no kernel for types other than f32 and open shapes"
    shape = data.shape.static
    axis: int = getattr(operation, "axis", -1)
    along = normalised_axis(operation, axis, len(shape)) if shape else 0
    if not shape or math.prod(shape[along + 1 :]) != 1:
        return "no kernel along other axes than the last"
    kind = "log_softmax" if operation.type_name == "LogSoftmax" else "softmax"
    return _rows(kind, data, shape[along], 0.0, "emit_softmax", 2.0)


@chooses("MVN")
def choose_standardising(operation: Operation, inputs: Sequence[TensorSpec | None], outputs: Sequence[TensorSpec]) -> Choice:
    data = inputs[0]
    assert data is not None
    if data.element_type is not ElementType.f32 or not data.shape.is_static:
        return "no kernel for types other than f32 and open shapes"
    shape = data.shape.static
    if operation.opset < 6:
        axes, outside = cast("MVN1", operation).axes(len(shape)), False
    else:
        given = inputs[1]
        assert given is not None
        if given.value is None:
            return "axes are known at the call only"
        axes, outside = normalised_axes(operation, given.value, len(shape)), cast("MVN6", operation).eps_mode == "outside_sqrt"
    folds = _folds(shape, axes)
    if folds is None or folds[2] != 1 or not axes:
        return "no kernel along other axes than the last"
    divide: bool = cast("MVN1", operation).normalize_variance
    kind = ("standardise_outside" if outside else "standardise") if divide else "centre"
    epsilon = float(np.float32(cast("MVN1", operation).eps)) if divide else 0.0
    return _rows(kind, data, folds[1], epsilon, "emit_standardising", 1.0)
