"""Which kernel multiplies with weights as they are stored: one for few rows, one for many, or
either as the call tells.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from uncork import storage
from uncork.internal_ops.compressed_linear import (
    CompressedLinear,
    CompressedMatrix,
    FusedCompressedLinear,
)
from uncork.kernels.compressed.spec import (
    CONVERTED,
    FOUR_BITS,
    PER_WORD,
    SPLIT,
    FewRows,
    ManyRows,
    Stored,
)
from uncork.kernels.extents import extents, is_empty, largest, nanoseconds, product, smallest
from uncork.kernels.kernel_plan import (
    AtLeast,
    In,
    KernelCall,
    KernelPlan,
    Operand,
    Out,
    Scratch,
    Selection,
    Stages,
    shares,
)
from uncork.kernels.runtime.packed_weights import packed
from uncork.kernels.runtime.target import Target
from uncork.kernels.select import selects
from uncork.kernels.select_epilogue import epilogue_of, operands_for
from uncork.ops import Operation
from uncork.symbolic import Size, SizeLike
from uncork.types import Array, ElementType, TensorSpec

#: Up to so many rows are few: decoding weights for four at a time costs less than turning them into
#: panels.
_FEW = 16
#: Whole numbers of both signs up to this have differences that f16 holds exactly.
_WHOLE_IN_F16 = 1024
#: The least normal number of f16, and its largest.
_LEAST_NORMAL, _MOST_IN_F16 = 2.0**-14, 65504.0
_LINE = 64


def declined(weights: CompressedMatrix, target: Target) -> str:
    """Why no kernel multiplies with these weights on this machine; nothing where one does, for
    every data of f32.
    """
    name = weights.element_type.name
    if target.has("sse2") and not target.has("f16c") and (name == "f16" or weights.half):
        return "no kernel for f16 on this machine"
    if name == "nf4" and not target.has("avx512f"):
        return "no kernel for nf4 on this machine"
    if name == "nf4" and weights.half:
        return "no kernel for nf4 that is rounded to f16"
    if is_empty((weights.columns, weights.inner)):
        return "nothing to multiply"
    if name in FOUR_BITS and weights.inner % PER_WORD:
        return "no kernel for columns of codes that end within a word"
    stored = _stored(weights, target)
    if stored.group and stored.group % stored.block and stored.block % stored.group:
        return "no kernel for groups that begin within a block"
    if stored.group and name in FOUR_BITS and stored.group % PER_WORD:
        return "no kernel for groups that begin within a word"
    return ""


@selects(CompressedLinear, FusedCompressedLinear)
def select_compressed(
    operation: Operation,
    inputs: Sequence[TensorSpec | None],
    outputs: Sequence[TensorSpec],
    target: Target,
) -> Selection:
    linear = operation.product if isinstance(operation, FusedCompressedLinear) else operation
    data = inputs[0]
    assert isinstance(linear, CompressedLinear) and data is not None
    weights = linear.weights
    if why := declined(weights, target):
        return why
    if data.element_type is not ElementType.f32:
        return f"no kernel for {data.element_type}"
    shape = extents(data)
    if len(shape) < 2 or is_empty(shape):
        return "no kernel for vectors"
    rows = product(shape[:-1])
    stored = _stored(weights, target)
    end, others = epilogue_of(operation, inputs, outputs[0], -1)
    kept, lying = _codes(weights, stored)
    parameters = _parameters(weights, stored)
    words: list[Operand] = [In(0), lying.ctypes.data, weights.inner * stored.bits // 8]
    words += [0 if array is None else array.ctypes.data for array in parameters]
    words += [
        4 * max((array.shape[1] for array in parameters if array is not None), default=0),
        Out(0),
    ]
    words += [rows, weights.inner, weights.columns]
    wide = target.lanes == 16 or target.arch == "aarch64"
    columns = 1 if weights.columns < 4 else 4
    at_once = 1 if isinstance(rows, int) and rows == 1 else 4 if wide else 2
    padded = -(-weights.inner // stored.block) * stored.block * 4
    few = FewRows(stored, columns, at_once, end)
    many = ManyRows(stored, 3 if wide else 2, end)
    scratch_of_few = smallest(rows, _FEW) * padded if stored.element_type in FOUR_BITS else 0
    table = -(-(stored.block * target.lanes + padded // 4 * many.width) * 4 // _LINE) * _LINE
    scratch_of_many = table + (rows * 8 + (_LINE - 1)) // _LINE * _LINE
    keep = [kept, *(array for array in parameters if array is not None)]

    def call(spec: FewRows | ManyRows, first: int, count: int, scratch: SizeLike) -> KernelCall:
        found = [
            *words,
            first,
            count,
            Scratch(scratch),
            Scratch(scratch + table),
            *operands_for(end, others, 0, 0),
        ]
        assert len(found) == len(spec.arguments)
        return spec, found

    kinds, when = _kinds(rows, few, many)
    scratch = largest(scratch_of_few, scratch_of_many) if many in kinds else scratch_of_few
    cost = nanoseconds(rows * weights.inner * weights.columns, 1 / 30)

    def split(threads: int) -> Stages:
        stages = [
            [
                call(spec, int(first), int(count), scratch * number)
                for number, (first, count) in enumerate(_columns(weights, spec, threads))
            ]
            for spec in kinds
        ]
        return Stages(stages, scratch * threads, when)

    name = " or ".join(spec.name for spec in kinds)
    calls = [call(spec, 0, weights.columns, 0) for spec in kinds]
    return KernelPlan(name, calls, scratch=scratch, keep=keep, cost=cost, split=split, when=when)


def _kinds(
    rows: SizeLike, few: FewRows, many: ManyRows
) -> tuple[list[FewRows | ManyRows], list[AtLeast]]:
    """The kernels, and for which rows each is, where only the call knows how many there are."""
    if not isinstance(rows, Size):
        return [few if rows <= _FEW else many], []
    return [few, many], [AtLeast(rows, _FEW + 1, otherwise=True), AtLeast(rows, _FEW + 1)]


def _columns(
    weights: CompressedMatrix, spec: FewRows | ManyRows, threads: int
) -> Sequence[tuple[int, int]]:
    """Whole blocks of columns for each thread."""
    return shares(
        weights.columns, threads, spec.columns if isinstance(spec, FewRows) else spec.width
    )


def _stored(weights: CompressedMatrix, target: Target) -> Stored:
    given = [array for array in (weights.zero_points, weights.scales) if array is not None]
    groups = max((array.shape[1] for array in given), default=1)
    zeros, scales = weights.zero_points, weights.scales
    whole = zeros is None or _is_whole(weights.element_type, zeros)
    rounds = (
        ""
        if not weights.half or scales is None
        else SPLIT
        if whole and _is_normal(weights)
        else CONVERTED
    )
    return Stored(
        weights.element_type.name,
        target.lanes,
        weights.shape[2] if groups > 1 else 0,
        zeros is not None,
        weights.scales is not None,
        weights.half and not whole,
        rounds,
    )


def _is_whole(element_type: ElementType, zeros: Array) -> bool:
    """Codes less these are whole numbers that f16 holds."""
    return element_type.is_integer and bool(
        (np.abs(zeros) <= _WHOLE_IN_F16).all() and (zeros == np.rint(zeros)).all()
    )


def _is_normal(weights: CompressedMatrix) -> bool:
    """Products of whole numbers and these scales are 0, or normal numbers of f16."""
    if not weights.element_type.is_integer or weights.scales is None:
        return False
    scales = np.abs(weights.scales[weights.scales != 0])
    most = (1 << weights.element_type.bits) + _WHOLE_IN_F16
    return not scales.size or bool(
        scales.min() >= _LEAST_NORMAL and scales.max() * most <= _MOST_IN_F16
    )


def _parameters(weights: CompressedMatrix, stored: Stored) -> list[Array | None]:
    """Zero points and scales, one for each column or for each of its groups."""
    groups = weights.shape[1] if stored.group else 1
    return [
        None if array is None else _laid_out(array, (weights.columns, groups))
        for array in (weights.zero_points, weights.scales)
    ]


def _laid_out(array: Array, shape: tuple[int, int]) -> Array:
    """As f32 of this shape, one after the other."""
    return np.ascontiguousarray(np.broadcast_to(array, shape), np.float32)


def _codes(weights: CompressedMatrix, stored: Stored) -> tuple[object, Array]:
    """What keeps the codes column by column, and they themselves: where they lie so, in the mapped
    file as it may be, nothing is copied.
    """
    if (
        stored.element_type not in FOUR_BITS
        and weights.axes == (0, 1, 2)
        and weights.codes.flags.c_contiguous
    ):
        return weights.codes, weights.codes
    packing = packed([weights.codes], (stored, weights.axes), lambda: [_packed(weights, stored)])
    return packing, packing.arrays[0]


def _packed(weights: CompressedMatrix, stored: Stored) -> Array:
    """Codes column by column; the array itself where they lie so."""
    codes = np.ascontiguousarray(weights.codes.transpose(weights.axes)).reshape(
        weights.columns, weights.inner
    )
    if stored.element_type not in FOUR_BITS:
        return codes
    return np.frombuffer(storage.pack(codes.reshape(-1), weights.element_type), np.uint8)
