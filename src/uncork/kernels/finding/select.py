"""Selection of kernels for layers whose data tell the size of the result: one counts, the next
writes so many.

`passes/count_first.py` makes two layers each of NonZero, Unique and SparseFillEmptyRows: one of
these operations counts, the other is told how much there is.
"""

from __future__ import annotations

from uncork.internal_ops.found_sizes import FilledRows, UniqueElements
from uncork.kernels.extents import decline_if, nanoseconds, product
from uncork.kernels.finding.spec import (
    CountFilled,
    CountNonZero,
    CountSegments,
    FillRows,
    NonZero,
    SortPlaces,
    Unique,
)
from uncork.kernels.kernel_plan import In, KernelPlan, Out, Selection, Workspace
from uncork.kernels.layer import Layer, one_call
from uncork.types import ElementType

#: Axes of a tensor at most.
_MOST_AXES = 6
#: Rough cost in nanoseconds of an element that is sorted.
_SORTED = 15.0


def _lanes(layer: Layer) -> int:
    return 64 // int(layer.input(0).element_type.dtype.itemsize)


def select_count(layer: Layer) -> Selection:
    count = product(layer.shape(0))
    spec = CountNonZero(layer.stored(0), _lanes(layer))
    return one_call(spec(data=In(0), output=Out(0), count=count), nanoseconds(count, 1 / 8))


def select_non_zero(layer: Layer) -> Selection:
    element, shape = layer.stored(0), layer.shape(0)
    decline_if(len(shape) > _MOST_AXES, "no kernel for so many axes")
    if not shape:
        return KernelPlan("non_zero_nothing", [])
    spec = NonZero(element, layer.outputs[0].element_type.name, len(shape), _lanes(layer))
    sizes = {f"size_{axis}": size for axis, size in enumerate(shape)}
    call = spec(data=In(0), output=Out(0), expected=layer.result()[1], **sizes)
    return one_call(call, nanoseconds(product(shape), 1.0))


def select_sort(layer: Layer) -> Selection:
    count, room = product(layer.shape(0)), Workspace()
    call = SortPlaces(layer.stored(0))(
        data=In(0),
        places=Out(0),
        found=Out(1),
        count=count,
        **room.sorts(count),
    )
    return one_call(call, nanoseconds(count, _SORTED), room)


def select_unique(layer: Layer) -> Selection:
    count, room = product(layer.shape(0)), Workspace()
    each = 0 if layer.of(UniqueElements).layer.sorted else count * 4
    index, counted = (layer.outputs[position].element_type.name for position in (1, 3))
    spec = Unique(layer.stored(0), index, counted, layer.of(UniqueElements).layer.sorted)
    call = spec(
        data=In(0),
        places=In(1),
        elements=Out(0),
        firsts=Out(1),
        reverse=Out(2),
        counts=Out(3),
        marks=room.take(each),
        numbers=room.take(each),
        count=count,
        found=layer.result()[0],
    )
    return one_call(call, nanoseconds(count, 4.0), room)


def select_filled_count(layer: Layer) -> Selection:
    rows, count = layer.number(0, "how many rows there are is"), layer.shape(1)[0]
    spec = CountFilled(layer.input(1).element_type.name)
    call = spec(shape=In(0), indices=In(1), output=Out(0), count=count, rows=rows)
    return one_call(call, nanoseconds(count, 2.0))


def select_filled_rows(layer: Layer) -> Selection:
    values, indices = layer.input(0).element_type, layer.input(2).element_type
    decline_if(values is ElementType.string, "no kernel for strings")
    (count,), (total,), (rows,) = layer.shape(0), layer.result(1), layer.result(2)
    spec = FillRows(values.dtype.itemsize, indices.name, layer.of(FilledRows).layer.strict)
    call = spec(
        values=In(0),
        shape=In(1),
        indices=In(2),
        default=In(3),
        output_indices=Out(0),
        output_values=Out(1),
        empty=Out(2),
        count=count,
        rows=rows,
        total=total,
    )
    return one_call(call, nanoseconds(total, 3.0))


def select_segment_count(layer: Layer) -> Selection:
    spec = CountSegments(layer.input(0).element_type.name)
    return one_call(spec(ids=In(0), output=Out(0), count=layer.shape(0)[0]), 1.0)
