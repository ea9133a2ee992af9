"""Selection of kernels of NonMaxSuppression, and of the second layer of all that choose boxes: see
`passes/count_first.py`.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence

from uncork.internal_ops.found_rows import TakenBoxes
from uncork.kernels.detection.spec import NUMBERS, Suppress
from uncork.kernels.extents import bytes_of, nanoseconds, product, smallest
from uncork.kernels.kernel_plan import (
    In,
    KernelCall,
    KernelPlan,
    Operand,
    Out,
    Selection,
    Workspace,
)
from uncork.kernels.layer import Layer
from uncork.kernels.movement.nd_copy import zeros
from uncork.kernels.movement.spec import COPY_BYTES
from uncork.ops.non_max_suppression import NonMaxSuppression5
from uncork.types import ElementType, TensorSpec


def bits(number: float) -> int:
    """The bits of the nearest f32."""
    limited = max(-math.inf, min(number, math.inf))
    return int(struct.unpack("<I", struct.pack("<f", limited))[0])


def zeros_in(outputs: Sequence[TensorSpec]) -> list[KernelCall]:
    """The calls that fill outputs with 0."""
    return [zeros(Out(n), bytes_of(spec)) for n, spec in enumerate(outputs)]


def select_boxes(layer: Layer) -> Selection:
    operation, lanes = layer.of(TakenBoxes), layer.target.lanes
    given = [layer.optional(position) for position in range(len(operation.inputs))]
    for position, tensor in enumerate(given):
        if position != 2 and tensor is not None and tensor.element_type is not ElementType.f32:
            return "no kernel for boxes of types other than f32"
    batches, classes, count = layer.shape(1)
    most = count if operation.limit is None else smallest(count, max(0, operation.limit))
    names = ("boxes", "scores", "limit", "overlap", "least", "sigma")
    inputs: dict[str, Operand] = {
        name: 0 if given[position] is None else In(position) for position, name in enumerate(names)
    }
    means = operation.layer
    spec = Suppress(
        layer.outputs[0].element_type.name,
        "" if given[2] is None else given[2].element_type.name,
        overlap=layer.has(3),
        least=layer.has(4),
        sigma=layer.has(5),
        center=getattr(means, "box_encoding", "") == "center",
        sorted=means.sort_result_descending,
        lanes=lanes,
        removes=layer.has(5) and isinstance(means, NonMaxSuppression5),
    )
    rows, room = layer.result()[0], Workspace()
    box = NUMBERS * 4
    memory = room.sorts(count)
    memory |= {"corners": room.take(count * box), "chosen": room.take((most + lanes) * box)}
    if spec.sigma:
        memory["live"] = room.take((count + lanes) * box)
        memory["live_scores"] = room.take((count + lanes) * 4)
    memory |= room.sorts(rows, "row_")
    of_rows = ("batches", "classes", "boxes", "values")
    memory |= {f"row_{name}": room.take(rows * 4) for name in of_rows}
    chosen = spec(
        **inputs,
        rows=Out(0),
        row_scores=Out(1),
        found=Out(3),
        batches=batches,
        classes=classes,
        count=count,
        most=most,
        **memory,
    )
    # The low bytes of an i64 come first.
    counted = COPY_BYTES(source=Out(3), target=Out(2), run=bytes_of(layer.outputs[2]))
    # What lies behind the boxes taken is 0.
    calls = [*zeros_in(layer.outputs[:2]), chosen, counted]
    cost = nanoseconds(product((batches, classes, count)), 10.0)
    return KernelPlan(spec.name, calls, room.bytes, cost=cost)


def select_first(layer: Layer) -> Selection:
    """Select copies of how much of each input there is in the outputs."""
    calls: list[KernelCall] = [
        COPY_BYTES(source=In(n), target=Out(n), run=bytes_of(spec))
        for n, spec in enumerate(layer.outputs)
    ]
    return KernelPlan("first_rows", calls, cost=nanoseconds(layer.result()[0], 4.0))
