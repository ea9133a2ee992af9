"""Which kernel runs an einsum: that of products, where one operand is a constant and the other's sums run over neighbours."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Union

import numpy as np

from uncork.kernels.gemm.indirect import multiplied, panels, products
from uncork.kernels.runtime.kernel_cache import lanes
from uncork.kernels.runtime.packed_weights import packed
from uncork.kernels.select import Choice, In, KernelCall, Native, Operand, Out, Room, Stages, chooses, shares
from uncork.ops import Operation
from uncork.ops.einsum import Einsum
from uncork.types import Array, ElementType, TensorSpec

#: Longer sums' panels no longer fit the second-level cache; more calls would be a plan too long.
_LONGEST, _MOST_CALLS = 1 << 13, 1 << 8
#: Threads share rows by whole blocks of the microkernel.
_BLOCK = 8
Label = Union[str, int]


@chooses(Einsum)
def choose_einsum(operation: Operation, inputs: Sequence[TensorSpec | None], outputs: Sequence[TensorSpec]) -> Choice:
    assert isinstance(operation, Einsum)
    constants = [i for i, spec in enumerate(inputs) if spec is not None and spec.value is not None]
    if len(inputs) != 2 or not constants:
        return "no kernel for other than two operands, one of them a constant"
    choices = [_chosen(operation, inputs, outputs[0], constant) for constant in constants]
    return next((choice for choice in choices if isinstance(choice, Native)), choices[0])


def _chosen(operation: Einsum, inputs: Sequence[TensorSpec | None], output: TensorSpec, constant: int) -> Choice:
    data, matrix = inputs[1 - constant], inputs[constant]
    assert data is not None and matrix is not None and matrix.value is not None
    if data.element_type is not ElementType.f32:
        return f"no kernel for {data.element_type}"
    if not data.shape.is_static or not output.shape.is_static:
        return "shapes are known at the call only"
    shapes = [data.shape.static, matrix.shape.static, output.shape.static]
    if any(0 in shape for shape in shapes):
        return "no kernel for empty tensors"
    subscripts, result = operation.parsed()
    parsed = [subscripts[1 - constant], subscripts[constant], result]
    own, fixed, made = ([*operation.spread(labels, len(shape))] for labels, shape in zip(parsed, shapes))
    sizes: dict[Label, int] = {**dict(zip(fixed, shapes[1])), **dict(zip(own, shapes[0]))}
    fits = [sizes.get(label) == size for labels, shape in zip((own, fixed, made), shapes) for label, size in zip(labels, shape)]
    parts = _Parts(
        batch=[label for label in made if label in own and label in fixed],
        rows=[label for label in made if label in own and label not in fixed],
        columns=[label for label in made if label not in own],
        summed=[label for label in own if label not in made],
    )
    known = {*parts.batch, *parts.columns, *parts.summed}
    if not all(fits) or len(set(own)) < len(own) or sorted(map(str, fixed)) != sorted(map(str, known)) or not {*parts.summed} <= {*fixed}:
        return "no kernel for diagonals, dimensions that stretch and sums of one operand"
    if own[len(own) - len(parts.summed) :] != parts.summed or _count(parts.summed, sizes) > _LONGEST:
        return "no kernel for sums over other than the last dimensions of the data"
    places = [made.index(label) for label in parts.columns]
    if places != [place + places[0] for place in range(len(places))]:
        return "no kernel for columns that are not neighbours"
    if _count(parts.batch[:-1], sizes) > _MOST_CALLS:
        return "no kernel for that many batches of several dimensions"
    order = [fixed.index(label) for label in (*parts.batch, *parts.columns, *parts.summed)]
    return _native(matrix.value, order, 1 - constant, sizes, parts, _steps(own, shapes[0]), _steps(made, shapes[2]))


@dataclass(frozen=True)
class _Parts:
    """The labels by their places: in both operands and the output, in data and output, in constant and output, in no output."""

    batch: Sequence[Label]
    rows: Sequence[Label]
    columns: Sequence[Label]
    summed: Sequence[Label]


def _count(labels: Sequence[Label], sizes: Mapping[Label, int]) -> int:
    return math.prod(sizes[label] for label in labels)


def _steps(labels: Sequence[Label], shape: Sequence[int]) -> dict[Label, int]:
    """Bytes from one index of a label to the next."""
    return {label: 4 * math.prod(shape[axis + 1 :]) for axis, label in enumerate(labels)}


def _places(labels: Sequence[Label], sizes: Mapping[Label, int], steps: Mapping[Label, int]) -> Array:
    """Bytes to every combination of some labels, the last of them fastest."""
    places = np.zeros(1, np.int64)
    for label in labels:
        places = (places[:, np.newaxis] + np.arange(sizes[label]) * steps[label]).reshape(-1)
    return np.ascontiguousarray(places, np.int64)


def _native(
    matrix: Array,
    order: Sequence[int],
    data: int,
    sizes: Mapping[Label, int],
    parts: _Parts,
    data_steps: Mapping[Label, int],
    output_steps: Mapping[Label, int],
) -> Native:
    batches, count, width, inner = (_count(some, sizes) for some in (parts.batch, parts.rows, parts.columns, parts.summed))
    outer, last = parts.batch[:-1], parts.batch[-1:]
    together = _count(last, sizes)
    column = output_steps[parts.columns[-1]] if parts.columns else 4
    spec = products(width, lanes(), column == 4)
    packing = packed([matrix], (spec, tuple(order), batches), lambda: [panels(spec, matrix.transpose(order).reshape(batches, width, inner))])
    matrix_bytes = packing.arrays[0].nbytes // batches
    sources, targets = (_places(parts.rows, sizes, steps) for steps in (data_steps, output_steps))
    starts = list(zip(*(_places(outer, sizes, steps).tolist() for steps in (data_steps, output_steps))))

    def call(number: int, first: int, some: int, share: int) -> KernelCall:
        """Some rows, of the batches of one combination of the outer labels, by the thread of a number."""
        source, target = starts[number]
        operands: dict[str, Operand] = {
            "source": In(data, source),
            "target": Out(0, target),
            "matrix": packing.arrays[0].ctypes.data + number * together * matrix_bytes,
            "bias": 0,
            "sources": sources.ctypes.data + first * 8,
            "targets": targets.ctypes.data + first * 8,
            "rows": some,
            "inner": inner,
            "columns": width,
            "column": column,
            "batches": together,
            "source_batch": data_steps[last[0]] if last else 0,
            "target_batch": output_steps[last[0]] if last else 0,
            "room": Room(first * 8),
            "scratch": Room(count * 8 + share * spec.scratch_bytes),
        }
        return multiplied(spec, operands)

    def stages(threads: int) -> Stages:
        rows = list(enumerate(shares(count, threads, _BLOCK)))
        calls = [[call(number, *some, share) for share, some in rows] for number in range(len(starts))]
        return Stages(calls, count * 8 + threads * spec.scratch_bytes)

    alone = stages(1)
    keep = [packing, sources, targets]
    calls = [one for stage in alone.stages for one in stage]
    return Native(spec.name, calls, alone.room, keep, batches * count * inner * width / 30, stages)
