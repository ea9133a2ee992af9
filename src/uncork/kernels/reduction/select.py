"""Selection of reductions along axes (sums, means, norms, extremes), and of softmax and MVN along
rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np
from msgspec.structs import replace

from uncork.kernels.extents import certainly, decline_if, extents, is_empty, nanoseconds, product
from uncork.kernels.kernel_plan import (
    In,
    KernelCall,
    Operand,
    Out,
    Selection,
    Stages,
    grid,
)
from uncork.kernels.layer import Layer, shared_call, staged
from uncork.kernels.loops import rows as nests
from uncork.kernels.reduction.spec import Reduction, Rows
from uncork.kernels.runtime.target import Target
from uncork.ops._common.indices import normalised_axes, normalised_axis
from uncork.symbolic import SizeLike
from uncork.types import ElementType

if TYPE_CHECKING:  # a model need not have them, and importing costs time
    from uncork.ops.mvn import MVN1, MVN6

#: Threads share columns by so many vectors.
_SHARED = 4
#: Sums of more values than this are sums of blocks, which lose less.
_LONG = 1 << 14
_SUMS = frozenset({"sum", "mean", "l1", "l2"})
_FLOATS = frozenset({"f32", "f64", "f16", "bf16"})
_INTEGERS = frozenset({"i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"})


def _fitting(size: SizeLike, element_bytes: int, lanes: int) -> int:
    """The lanes of a vector that is no longer than a row; of a full vector where only the call
    knows how long rows are.
    """
    width = max(1, lanes * 4 // element_bytes)
    while isinstance(size, int) and width > max(1, size):
        width //= 2
    return width


def _in_blocks(count: SizeLike) -> bool:
    """Whether a sum may be long."""
    return not isinstance(count, int) or count > _LONG


def _chains(count: SizeLike, width: int) -> int:
    """The number of accumulators of a row's sum: an addition waits for the one before it, but in a
    short row that does not matter.
    """
    return 4 if not isinstance(count, int) or count >= 8 * width else 1


def _side_by_side(inner: SizeLike, lanes: int) -> int:
    """How many vectors of columns are reduced at a time: of one at a time each row's line is read
    twice.
    """
    vectors = 8
    while isinstance(inner, int) and vectors > max(1, inner // lanes):
        vectors //= 2
    return vectors


_OPS = {
    "ReduceSum": "sum",
    "ReduceMean": "mean",
    "ReduceMax": "max",
    "ReduceMin": "min",
    "ReduceProd": "prod",
    "ReduceL1": "l1",
    "ReduceL2": "l2",
    "ReduceLogicalAnd": "all",
    "ReduceLogicalOr": "any",
}


def select_reduction(layer: Layer) -> Selection:
    operation, target = layer.operation, layer.target
    data, axes = layer.input(0), layer.constant(1, "axes are")
    op, name = _OPS[operation.type_name], data.element_type.name
    if op in ("all", "any"):
        name = "u8"  # by which booleans are stored
    decline_if(
        name not in (_FLOATS if op in ("mean", "l2") else _FLOATS | _INTEGERS),
        f"no kernel for {name}",
    )
    decline_if(
        name == "f16" and target.has("sse2") and not target.has("f16c"),
        "no kernel for f16 on this machine",
    )
    shape = extents(data)
    folds = _folds(shape, normalised_axes(operation, axes, len(shape)))
    decline_if(not axes.size and op in ("l1", "l2"), "no kernel for no axes")
    if folds is None:
        return nests.reduction(
            op, shape, normalised_axes(operation, axes, len(shape)), name, target
        )
    outer, count, inner = folds
    along_rows = certainly(inner, 1)
    element_bytes = 4 if name in ("f16", "bf16") else data.element_type.dtype.itemsize
    row = count if along_rows else inner
    lanes = _fitting(row, element_bytes, target.lanes)
    long = op in _SUMS and name in _FLOATS and _in_blocks(count)
    spec = Reduction(
        op,
        name,
        along_rows,
        lanes,
        (_chains(count, lanes) if long else 1) if along_rows else _side_by_side(inner, lanes),
        open_row=not isinstance(row, int),
        blocks=long,
    )
    stored = data.element_type.dtype.itemsize

    def part(turns: tuple[SizeLike, SizeLike], columns: tuple[SizeLike, SizeLike]) -> KernelCall:
        """The call for some columns of some of the outer turns."""
        begin, left = turns[0] * inner * stored, columns[0] * stored
        places: list[Operand] = [In(0, begin * count + left), Out(0, begin + left)]
        return spec, [*places, turns[1], count, columns[1], inner]

    def split(threads: int) -> Stages:
        axes = [(outer, 1), (inner, _SHARED * spec.lanes)]
        return Stages([[part(*some) for some in grid(axes, threads, whole=True)]], 0)

    return staged(split, nanoseconds(outer * count * inner, 1 / spec.lanes))


def _folds(
    shape: tuple[SizeLike, ...], axes: tuple[int, ...]
) -> tuple[SizeLike, SizeLike, SizeLike] | None:
    """The sizes (outer, count, inner) before, along and after the axes; None when another dimension
    lies between them.
    """
    along = [d for d in axes if not certainly(shape[d], 1)]
    if not along:
        return product(shape), 1, 1
    first, last = min(along), max(along)
    if any(not certainly(shape[d], 1) and d not in along for d in range(first, last)):
        return None
    return product(shape[:first]), product(shape[first : last + 1]), product(shape[last + 1 :])


def _rows(
    kind: str, rows: SizeLike, count: SizeLike, epsilon: float, cost: float, target: Target
) -> Selection:
    decline_if(is_empty((rows, count)), "nothing to compute")
    width = _fitting(count, 4, target.lanes)
    open_row = not isinstance(count, int)
    found = Rows(kind, width, _chains(count, width), epsilon, open_row, _in_blocks(count))

    def part(first: SizeLike, number: SizeLike) -> KernelCall:
        """The call for some of the rows."""
        begin = first * count * 4
        return found, [In(0, begin), Out(0, begin), number, count]

    plan = shared_call(part, rows, nanoseconds(rows * count, cost))
    return replace(plan, split=None) if certainly(rows, 1) else plan


def select_softmax(layer: Layer) -> Selection:
    operation, target = layer.operation, layer.target
    data = layer.input(0)
    name = data.element_type.name
    decline_if(name not in ("f32", "f16", "bf16"), f"no kernel for {name}")
    shape = extents(data)
    decline_if(not shape, "no kernel for a scalar")
    axis: int = getattr(operation, "axis", -1)
    along = normalised_axis(operation, axis, len(shape))
    kind = "log_softmax" if operation.type_name == "LogSoftmax" else "softmax"
    if name != "f32" or not certainly(product(shape[along + 1 :]), 1):
        return nests.softmax(kind, shape, along, name, target)
    return _rows(kind, product(shape[:along]), shape[along], 0.0, 2.0, target)


def select_standardising(layer: Layer) -> Selection:
    operation, target = layer.operation, layer.target
    data = layer.input(0)
    shape = extents(data)
    if operation.opset < 6:
        axes, outside = cast("MVN1", operation).axes(len(shape)), False
    else:
        given = layer.constant(1, "axes are")
        axes, outside = (
            normalised_axes(operation, given, len(shape)),
            cast("MVN6", operation).eps_mode == "outside_sqrt",
        )
    folds = _folds(shape, axes)
    divide: bool = cast("MVN1", operation).normalize_variance
    if (
        data.element_type is not ElementType.f32
        or folds is None
        or not certainly(folds[2], 1)
        or not axes
    ):
        epsilon = cast("MVN1", operation).eps
        return nests.standardised(
            shape, axes, epsilon, data.element_type.name, target, divide, not outside
        )
    kind = ("standardise_outside" if outside else "standardise") if divide else "centre"
    epsilon = float(np.float32(cast("MVN1", operation).eps)) if divide else 0.0
    return _rows(kind, folds[0], folds[1], epsilon, 1.0, target)
