"""Selection of the kernel that finds the places of values in sorted rows: Bucketize and
SearchSorted.
"""

from __future__ import annotations

from uncork.kernels.extents import extents, nanoseconds, product
from uncork.kernels.kernel_plan import In, Out, Selection
from uncork.kernels.layer import Layer, one_call
from uncork.kernels.search.spec import Search
from uncork.kernels.stored_types import stored_type
from uncork.ops.bucketize import Bucketize3
from uncork.ops.search_sorted import SearchSorted15
from uncork.types import ElementType

#: Rough cost of a search in nanoseconds.
_SEARCH = 8.0


def select_buckets(layer: Layer) -> Selection:
    operation, outputs, target = layer.of(Bucketize3), layer.outputs, layer.target
    data, buckets = layer.input(0), layer.input(1)
    stored = stored_type(buckets.element_type), stored_type(data.element_type)
    compared = None if None in stored else _compared(data.element_type, buckets.element_type)
    if compared is None:
        return f"no kernel to compare {data.element_type} with {buckets.element_type}"
    right = not operation.with_right_bound
    types = (str(stored[0]), str(stored[1]), compared, outputs[0].element_type.name)
    spec = Search(*types, right, refuses_nan=True, unique=operation.strict, lanes=target.lanes)
    count = product(extents(data))
    call = spec(
        sequence=In(1), values=In(0), output=Out(0), rows=1, length=extents(buckets)[0], count=count
    )
    return one_call(call, nanoseconds(count, _SEARCH))


def select_search(layer: Layer) -> Selection:
    operation, outputs, target = layer.of(SearchSorted15), layer.outputs, layer.target
    sequence, values = layer.input(0), layer.input(1)
    stored, compared = (
        stored_type(sequence.element_type),
        _compared(sequence.element_type, sequence.element_type),
    )
    if stored is None or compared is None:
        return f"no kernel to compare {sequence.element_type}"
    lead = extents(sequence)[:-1]
    wanted = extents(values)
    count = product(wanted[len(lead) :])
    spec = Search(
        stored,
        stored,
        compared,
        outputs[0].element_type.name,
        operation.right_mode,
        False,
        False,
        target.lanes,
    )
    call = spec(
        sequence=In(0),
        values=In(1),
        output=Out(0),
        rows=product(lead),
        length=extents(sequence)[-1],
        count=count,
    )
    return one_call(call, nanoseconds(product(wanted), _SEARCH))


def _compared(a: ElementType, b: ElementType) -> str | None:
    """A type that has every number of both; None where there is none."""
    if a.is_float and b.is_float:
        return "f64" if ElementType.f64 in (a, b) else "f32"
    if a.is_integer and b.is_integer:
        unsigned = [t for t in (a, b) if t.kind != "signed"]
        if len(unsigned) == 2:
            return "u64"
        return "i64" if all(t.bits < 64 for t in unsigned) else None
    return "f64" if max(t.bits for t in (a, b) if t.is_integer) <= 32 else None
