"""Selection of the kernel that multiplies by a matrix in the storage of a variable."""

from __future__ import annotations

from uncork.internal_ops.state_product import StateProduct
from uncork.kernels.extents import (
    decline_if,
    extents,
    is_empty,
    nanoseconds,
    product,
    same,
    same_extents,
)
from uncork.kernels.gemm.select_matmul import specialised
from uncork.kernels.kernel_plan import In, KernelCall, Out, Scratch, Selection
from uncork.kernels.layer import Layer, shared_call
from uncork.symbolic import SizeLike
from uncork.types import ElementType


def select_state_product(layer: Layer) -> Selection:
    """The plan of a product by the kernel of any product, which takes the second matrix by its
    strides.

    A matrix that is repeated is one for more rows of the first.
    """
    operation, target = layer.of(StateProduct), layer.target
    a, storage, length = (layer.input(position) for position in range(3))
    decline_if(a.element_type is not ElementType.f32, f"no kernel for {a.element_type}")
    left, stored, matrix = (
        extents(a),
        extents(storage),
        extents(operation.matrices(storage, length)),
    )
    rank, repeats, matmul = len(stored), operation.repeats, operation.product
    decline_if(
        rank < 3 or len(left) != rank or operation.value.axis < rank - 2 or matmul.transpose_a,
        "no kernel for matrices that lie so",
    )
    decline_if(is_empty((*left, *matrix)), "no kernel for empty products")
    decline_if(
        not same_extents(left[:-3], matrix[:-3]) or not same(left[-3], matrix[-3] * repeats),
        "no kernel for batches that stretch",
    )
    rows, inner, batches = left[-2] * repeats, left[-1], product(matrix[:-2])
    columns = matrix[-2] if matmul.transpose_b else matrix[-1]
    spec = specialised(target.lanes, columns, packed=False)
    line = stored[-1] * 4
    table = rows * 8
    panels = (columns + (spec.width - 1)) // spec.width * spec.width * inner * 4
    made = rows * columns * 4

    def part(first: SizeLike, count: SizeLike, memory: Scratch) -> KernelCall:
        """The call that multiplies some of the batches."""
        return spec(
            a=In(0, first * (rows * inner * 4)),
            a_row=inner * 4,
            a_batch=rows * inner * 4,
            a_outer=0,
            b=In(1, first * (line * stored[-2])),
            b_inner=4 if matmul.transpose_b else line,
            b_column=line if matmul.transpose_b else 4,
            b_batch=line * stored[-2],
            b_outer=0,
            output=Out(0, first * made),
            output_row=columns * 4,
            output_batch=made,
            outer=1,
            batches=count,
            rows=rows,
            inner=inner,
            columns=columns,
            table=memory,
            packed_weights=Scratch(memory.offset + table),
            sums=memory,
        )

    cost = nanoseconds(batches * rows * inner * columns, 1 / 30)
    return shared_call(part, batches, cost, own=table + panels)
