"""Selection of kernels of NonMaxSuppression, as the two layers that `passes/count_first.py` makes
of it.
"""

from __future__ import annotations

from uncork.internal_ops.found_boxes import TakenBoxes
from uncork.kernels.detection.spec import Suppress
from uncork.kernels.extents import extents, nanoseconds, product, smallest
from uncork.kernels.kernel_plan import In, KernelCall, KernelPlan, Operand, Out, Scratch, Selection
from uncork.kernels.layer import Layer
from uncork.kernels.movement.spec_nd_copy import CopyBytes, FillBytes
from uncork.ops.non_max_suppression import NonMaxSuppression5
from uncork.symbolic import SizeLike
from uncork.types import ElementType

#: Bytes that a sort of 32-bit keys needs: see `codegen/radix_sort.py`.
_COUNTS = 4096


def select_boxes(layer: Layer) -> Selection:
    operation, inputs, outputs, target = (
        layer.of(TakenBoxes),
        layer.inputs,
        layer.outputs,
        layer.target,
    )
    floats = [
        spec.element_type for index, spec in enumerate(inputs) if spec is not None and index != 2
    ]
    if any(element_type is not ElementType.f32 for element_type in floats):
        return "no kernel for boxes of types other than f32"
    scores = layer.input(1)
    batches, classes, count = extents(scores)
    most = count if operation.limit is None else smallest(count, max(0, operation.limit))
    given = [*inputs, *[None] * (6 - len(inputs))]
    limit = given[2]
    means = operation.layer
    spec = Suppress(
        outputs[0].element_type.name,
        "" if limit is None else limit.element_type.name,
        overlap=given[3] is not None,
        least=given[4] is not None,
        sigma=given[5] is not None,
        center=getattr(means, "box_encoding", "") == "center",
        sorted=means.sort_result_descending,
        lanes=target.lanes,
        removes=given[5] is not None and isinstance(means, NonMaxSuppression5),
    )
    rows = extents(outputs[0])[0]
    sizes = [_COUNTS, count * 20, *[count * 4] * 4, (most + spec.lanes) * 20]
    sizes += [(count + spec.lanes) * 20, (count + spec.lanes) * 4] if spec.sigma else []
    sizes += [rows * 4] * 8
    scratches: list[Operand] = []
    scratch: SizeLike = 0
    for size in sizes:
        scratches.append(Scratch(scratch))
        scratch = scratch + size
    inside: list[Operand] = [
        In(position) if spec is not None else 0 for position, spec in enumerate(given)
    ]

    operands: list[Operand] = [
        *inside,
        Out(0),
        Out(1),
        Out(2),
        batches,
        classes,
        count,
        most,
        *scratches,
    ]
    # What lies behind the boxes taken is 0.
    zeros: list[KernelCall] = [
        (FillBytes(0), [0, Out(n), rows * (3 * outputs[n].element_type.dtype.itemsize)])
        for n in (0, 1)
    ]
    cost = nanoseconds(product((batches, classes, count)), 10.0)
    return KernelPlan(spec.name, [*zeros, (spec, operands)], scratch=scratch, cost=cost)


def select_first_rows(layer: Layer) -> Selection:
    outputs = layer.outputs
    count = extents(outputs[0])[0]
    index, real = (spec.element_type.dtype.itemsize for spec in outputs[:2])
    copy = CopyBytes()
    calls: list[KernelCall] = [
        (copy, [In(0), Out(0), count * (3 * index)]),
        (copy, [In(1), Out(1), count * (3 * real)]),
        (copy, [In(2), Out(2), index]),  # the low bytes of an i64 come first
    ]
    return KernelPlan("first_rows", calls, cost=nanoseconds(count, 4.0))
