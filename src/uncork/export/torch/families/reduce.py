"""Reductions along axes, softmax, TopK and other operations on whole axes."""

from __future__ import annotations

from uncork.export.torch.families.shapes import unpacked
from uncork.export.torch.registry import lowers
from uncork.export.torch.writer import Code, Elements, Value, Writer, atom
from uncork.ops._operation import Operation
from uncork.types import ElementType

T = ElementType
_PLAIN = {"ReduceSum": "sum", "ReduceMean": "mean", "ReduceMax": "amax", "ReduceMin": "amin"}


@lowers(
    "ReduceSum",
    "ReduceMean",
    "ReduceProd",
    "ReduceMax",
    "ReduceMin",
    "ReduceL1",
    "ReduceL2",
    "ReduceLogicalAnd",
    "ReduceLogicalOr",
)
def reduce_(w: Writer, op: Operation, data: Value, axes: Value) -> str | Value | Elements:
    """Torch's reduction; no axes at all is the identity."""
    keep = op.keep_dims  # type: ignore[attr-defined]
    product = _of_elements(w, op, data, axes)
    if product is not None:
        return product
    if data.type is T.u64 and op.type_name in ("ReduceMax", "ReduceMin", "ReduceMean"):
        w.refuse("torch does not order unsigned 64-bit integers")
    known = axes.known()
    if known is None or data.rank is None:
        return w.helper("reduced", data, w.listed(axes), kind=op.type_name, keep=keep)
    if not known:
        return data
    along = sorted(a % data.rank for a in known)
    name = _PLAIN.get(op.type_name)
    static = all(data.shape[a].is_static and int(data.shape[a]) > 0 for a in along)
    simple = name and (static or name in ("sum", "mean")) and data.type is not T.boolean
    if simple and (data.type.is_float or name != "mean"):
        dims = str(along[0]) if len(along) == 1 else str(tuple(along))
        kept = ", keepdim=True" if keep else ""
        code = "" if data.type.is_float or name != "sum" else f", dtype={w.dtype(data.type)}"
        return f"{atom(w(data))}.{name}(dim={dims}{kept}{code})"
    return w.helper("reduced", data, repr(along), kind=op.type_name, keep=keep)


def _of_elements(w: Writer, op: Operation, data: Value, axes: Value) -> Elements | None:
    """The sum or product of Python's integers."""
    if data.elements is None or data.code or data.rank != 1 or axes.known() not in ([0], [-1]):
        return None
    sign = {"ReduceProd": " * ", "ReduceSum": " + "}.get(op.type_name)
    if sign is None or not data.elements:
        return None
    items = (f"({e})" if " " in e else e for e in data.elements)
    return Elements((sign.join(items),))


@lowers("SoftMax", "LogSoftmax")
def softmax(w: Writer, op: Operation, data: Value) -> str:
    """F.softmax or F.log_softmax along one axis."""
    name = "softmax" if op.type_name == "SoftMax" else "log_softmax"
    return f"F.{name}({w(data)}, dim={op.axis})"  # type: ignore[attr-defined]


@lowers("TopK")
def topk(w: Writer, op: Operation, data: Value, k: Value) -> list[str]:
    """The k largest or smallest elements by a stable sort: of equal ones the first is taken, which
    torch.topk does not promise.
    """
    if data.type is T.u64:
        w.refuse("torch does not order unsigned 64-bit integers")
    options = {
        "axis": op.axis,  # type: ignore[attr-defined]
        "largest": op.mode == "max",  # type: ignore[attr-defined]
        "by_index": op.sort == "index",  # type: ignore[attr-defined]
        "dtype": Code(w.dtype(w.outputs[1].element_type)),
    }
    return unpacked(w, w.helper("top_k", data, w.integer(k), **options))


@lowers("OneHot")
def one_hot(w: Writer, op: Operation, indices: Value, depth: Value, on: Value, off: Value) -> str:
    """The value `on` at one place of a new axis, `off` at the others."""
    from_end = getattr(op, "negative_indices_mode", "") == "normalize"
    axis = op.axis  # type: ignore[attr-defined]
    return w.helper("one_hot", indices, w.integer(depth), on, off, axis=axis, from_end=from_end)


@lowers("NonZero")
def non_zero(w: Writer, op: Operation, data: Value) -> str:
    """The places of elements other than 0, one a column."""
    code = w.dtype(w.outputs[0].element_type)
    return f"torch.nonzero({w(data)}).T.to({code})"


@lowers("Unique")
def unique(w: Writer, op: Operation, data: Value, axis: Value | None) -> list[str]:
    """Distinct elements or slices, the place where each first stands, the number of the one that
    each equals, and their counts.
    """
    if data.type is T.u64 or op.index_element_type not in (T.i32, T.i64):  # type: ignore[attr-defined]
        w.refuse("torch does not order unsigned 64-bit integers")
    along = None if axis is None else w.integer(axis)
    codes = [w.dtype(t) for t in (op.index_element_type, op.count_element_type)]  # type: ignore[attr-defined]
    options = {"in_order": op.sorted, "index": Code(codes[0]), "count": Code(codes[1])}  # type: ignore[attr-defined]
    return unpacked(w, w.helper("unique", data, along, **options))


@lowers("Bucketize", "SearchSorted")
def searched(w: Writer, op: Operation, first: Value, second: Value) -> str:
    """torch.searchsorted, with a NaN behind all others."""
    code = Code(w.dtype(w.outputs[0].element_type))
    if T.u64 in (first.type, second.type):
        w.refuse("torch does not order unsigned 64-bit integers")
    if T.i64 in (first.type, second.type) and first.type.is_float != second.type.is_float:
        w.approximate("64-bit integers are compared with other numbers in f64")
    if op.type_name == "Bucketize":
        right = not op.with_right_bound  # type: ignore[attr-defined]
        return w.helper("bucketize", first, second, right=right, dtype=code)
    right = op.right_mode  # type: ignore[attr-defined]
    return w.helper("search_sorted", first, second, right=right, dtype=code)


@lowers("SegmentMax")
def segment_max(w: Writer, op: Operation, data: Value, ids: Value, count: Value | None) -> str:
    """The maximum of each segment, by torch's scatter_reduce."""
    fill = op.fill_mode == "lowest"  # type: ignore[attr-defined]
    if data.type is T.u64:
        w.refuse("torch does not order unsigned 64-bit integers")
    number = None if count is None else w.integer(count)
    return w.helper("segment_max", data, ids, number, lowest=fill)
