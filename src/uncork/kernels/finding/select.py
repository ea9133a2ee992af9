"""Selection of kernels for layers whose data tell the size of the result: one counts, the next
writes so many.

`passes/count_first.py` makes two layers each of NonZero, Unique and SparseFillEmptyRows: one of
these operations counts, the other is told how much there is.
"""

from __future__ import annotations

from uncork.internal_ops.found_sizes import (
    FilledRows,
    UniqueElements,
)
from uncork.kernels.extents import extents, nanoseconds, product
from uncork.kernels.finding.spec import (
    CountFilled,
    CountNonZero,
    FillRows,
    NonZero,
    SortPlaces,
    Unique,
)
from uncork.kernels.kernel_plan import In, KernelPlan, Operand, Out, Scratch, Selection
from uncork.kernels.layer import Layer
from uncork.kernels.stored_types import converted_type, stored_type
from uncork.types import ElementType, TensorSpec

#: Axes of a tensor at most.
_MOST_AXES = 6
#: Rough cost in nanoseconds of an element that is sorted.
_SORTED = 15.0
#: Bytes of the counts of a digit: see `codegen/radix_sort.py`.
_DIGITS = 1024


def _lanes(spec: TensorSpec) -> int:
    return 64 // int(spec.element_type.dtype.itemsize)


def select_count(layer: Layer) -> Selection:
    inputs = layer.inputs
    data = inputs[0]
    assert data is not None
    element = stored_type(data.element_type)
    if element is None:
        return f"no kernel for {data.element_type}"
    count = product(extents(data))
    spec = CountNonZero(element, _lanes(data))
    operands: list[Operand] = [In(0), Out(0), count]
    return KernelPlan(spec.name, [(spec, operands)], cost=nanoseconds(count, 1 / 8))


def select_non_zero(layer: Layer) -> Selection:
    inputs, outputs = layer.inputs, layer.outputs
    data = inputs[0]
    assert data is not None
    element = stored_type(data.element_type)
    if element is None:
        return f"no kernel for {data.element_type}"
    shape = extents(data)
    if len(shape) > _MOST_AXES:
        return "no kernel for so many axes"
    if not shape:
        return KernelPlan("non_zero_nothing", [])
    spec = NonZero(element, outputs[0].element_type.name, len(shape), _lanes(data))

    operands: list[Operand] = [In(0), Out(0), extents(outputs[0])[1], *shape]
    return KernelPlan(spec.name, [(spec, operands)], cost=nanoseconds(product(shape), 1.0))


def select_sort(layer: Layer) -> Selection:
    inputs, target = layer.inputs, layer.target
    data = inputs[0]
    assert data is not None
    element = converted_type(data.element_type, target)
    if element is None:
        return f"no kernel for {data.element_type}"
    count = product(extents(data))
    key = 8 if data.element_type.bits == 64 else 4
    spec, counts = SortPlaces(element), key * _DIGITS
    keys = count * key

    operands: list[Operand] = [
        In(0),
        Out(0),
        Out(1),
        Scratch(counts),
        Scratch(counts + keys),
        Scratch(counts + 2 * keys),
        Scratch(),
        count,
    ]
    return KernelPlan(
        spec.name,
        [(spec, operands)],
        scratch=counts + 2 * keys + count * 4,
        cost=nanoseconds(count, _SORTED),
    )


def select_unique(layer: Layer) -> Selection:
    operation, inputs, outputs, target = layer.operation, layer.inputs, layer.outputs, layer.target
    data = inputs[0]
    assert data is not None and isinstance(operation, UniqueElements)
    element = converted_type(data.element_type, target)
    if element is None:
        return f"no kernel for {data.element_type}"
    count, is_sorted = product(extents(data)), operation.layer.sorted
    spec = Unique(element, outputs[1].element_type.name, outputs[3].element_type.name, is_sorted)

    operands: list[Operand] = [
        In(0),
        In(1),
        *(Out(i) for i in range(4)),
        Scratch(),
        Scratch(count * 4),
        count,
        extents(outputs[0])[0],
    ]
    return KernelPlan(
        spec.name,
        [(spec, operands)],
        scratch=0 if is_sorted else count * 8,
        cost=nanoseconds(count, 4.0),
    )


def select_filled_count(layer: Layer) -> Selection:
    inputs = layer.inputs
    shape, indices = inputs
    assert shape is not None and indices is not None
    elements = shape.sizes()
    if not elements or elements[0] is None:
        return "how many rows there are is known at the call only"
    count = extents(indices)[0]
    spec = CountFilled(indices.element_type.name)
    return KernelPlan(
        spec.name,
        [(spec, [In(0), In(1), Out(0), count, elements[0]])],
        cost=nanoseconds(count, 2.0),
    )


def select_filled_rows(layer: Layer) -> Selection:
    operation, inputs, outputs = layer.operation, layer.inputs, layer.outputs
    values, _, indices, _, _ = inputs
    assert values is not None and indices is not None and isinstance(operation, FilledRows)
    if values.element_type is ElementType.string:
        return "no kernel for strings"
    (count,), (total,), (rows,) = extents(values), extents(outputs[1]), extents(outputs[2])
    spec = FillRows(
        values.element_type.dtype.itemsize, indices.element_type.name, operation.layer.strict
    )

    operands: list[Operand] = [
        *(In(i) for i in range(4)),
        *(Out(i) for i in range(3)),
        count,
        rows,
        total,
    ]
    return KernelPlan(spec.name, [(spec, operands)], cost=nanoseconds(total, 3.0))
