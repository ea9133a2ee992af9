"""Shapes and places: Reshape, Transpose, Concat, Split, Squeeze, Broadcast, Tile, Range, ShapeOf.

Shapes that the model computes stay Python's integers, so that the source reads as a person writes
it and torch.export follows.
"""

from __future__ import annotations

from uncork.export.torch.registry import lowers
from uncork.export.torch.writer import Code, Elements, Value, Writer, atom
from uncork.ops._operation import Operation
from uncork.ops.broadcast import Broadcast3
from uncork.ops.concat import Concat1
from uncork.ops.reshape import Reshape1
from uncork.types import ElementType

T = ElementType


@lowers("ShapeOf")
def shape_of(w: Writer, op: Operation, data: Value) -> Elements | str:
    """The shape as Python's integers."""
    if data.rank is None:
        code = w.dtype(w.outputs[0].element_type)
        return f"torch.tensor({atom(w(data))}.shape, dtype={code}{w.on_device()})"
    return Elements(tuple(w.dim(data, i) for i in range(data.rank)))


@lowers("Reshape")
def reshape(w: Writer, op: Reshape1, data: Value, shape: Value) -> str | Value | Elements:
    """Tensor.reshape, in which a 0 copies a dimension, or means 0."""
    spec = w.outputs[0].shape
    flat = spec.rank is not None and spec.rank <= 1
    if data.elements is not None and not data.code and flat:
        return Elements(data.elements)
    if spec.is_static:
        if data.shape.is_static and data.shape == spec:
            return data
        return _reshaped(w, data, [str(n) for n in spec.static])
    sizes = w.integers(shape)
    if sizes is None:
        return w.helper("reshaped", data, w.listed(shape), special_zero=op.special_zero)
    items = []
    for i, size in enumerate(sizes):
        if op.special_zero and size == "0":
            items.append(w.dim(data, i))
        else:
            items.append(size)
    if op.special_zero and any(not s.lstrip("-").isdigit() for s in sizes):
        return w.helper("reshaped", data, f"[{', '.join(sizes)}]", special_zero=True)
    known = [i for i, d in enumerate(spec) if d.is_static]
    items = [str(int(spec[i])) if i in known else s for i, s in enumerate(items)]
    zero_beside_open = "-1" in items and ("0" in items or not _no_empty(items, w, data))
    if zero_beside_open:
        return w.helper("reshaped", data, f"[{', '.join(sizes)}]", special_zero=op.special_zero)
    return _reshaped(w, data, items)


def _no_empty(items: list[str], w: Writer, data: Value) -> bool:
    """Whether a -1 has a size whatever the others are, since none of them can be 0."""
    return all(i.isdigit() and i != "0" for i in items if i != "-1")


def _reshaped(w: Writer, data: Value, items: list[str]) -> str:
    return f"{atom(w(data))}.reshape({', '.join(items) if items else '()'})"


@lowers("Transpose")
def transpose(w: Writer, op: Operation, data: Value, order: Value) -> str | Value:
    """Tensor.permute"""
    known = order.known()
    if (known is not None and not known) or (known is None and order.shape.size.high == 0):
        rank = w.rank(data)
        known = list(range(rank))[::-1]
    if known is None:
        return f"{atom(w(data))}.permute({w.listed(order)})"
    if known == list(range(len(known))):
        return data
    if known == [1, 0]:
        return f"{atom(w(data))}.T"
    return f"{atom(w(data))}.permute({', '.join(map(str, known))})"


@lowers("Squeeze")
def squeeze(w: Writer, op: Operation, data: Value, axes: Value | None) -> str | Value | Elements:
    """Tensor.squeeze; axes that are not of size 1 stay. Where the model counts on 1, others are
    refused.
    """
    if data.elements is not None and not data.code and len(data.elements) == 1:
        return Elements(data.elements)
    if axes is None or axes.shape.size == 0:
        return f"{atom(w(data))}.squeeze()"
    known = w.numbers(axes, "axes") if axes.known() is not None else None
    if known is None:
        return w.helper("squeezed", data, w.listed(axes))
    if w.outputs[0].shape.rank == data.rank and data.shape.is_static:
        return data
    unique = list(dict.fromkeys(a % w.rank(data) if data.rank else a for a in known))
    counted = w.outputs[0].shape.rank is not None and data.rank is not None
    if counted and not all(data.shape[a].is_static for a in unique):
        return w.helper("squeezed", data, unique, only=True)
    inside = str(unique[0]) if len(unique) == 1 else str(tuple(unique))
    return f"{atom(w(data))}.squeeze({inside})"


@lowers("Unsqueeze")
def unsqueeze(w: Writer, op: Operation, data: Value, axes: Value) -> str | Elements:
    """Tensor.unsqueeze at places of the result."""
    if data.elements is not None and not data.code and data.rank == 0:
        return Elements(data.elements)
    known = axes.known()
    if known is None or data.rank is None:
        return w.helper("unsqueezed", data, w.listed(axes))
    rank = data.rank + len(known)
    places = sorted(a % rank for a in known)
    text = w(data)
    for place in places:
        text = f"{atom(text)}.unsqueeze({place})"
    return text


@lowers("Concat")
def concat(w: Writer, op: Concat1, *tensors: Value) -> str | Elements:
    """torch.cat, or a list of Python's integers."""
    if all(t.rank == 1 and t.elements is not None for t in tensors) and any(
        not t.code and t.constant is None and t.value is None for t in tensors
    ):
        items = [e for t in tensors for e in w.integers(t) or ()]
        if w.outputs[0].element_type in (T.i64, T.i32):
            return Elements(tuple(items))
    axis = op.axis
    return f"torch.cat([{', '.join(map(w, tensors))}], dim={axis})"


@lowers("Split")
def split(w: Writer, op: Operation, data: Value, axis: Value) -> list[str]:
    """Parts of one size."""
    count = len(w.outputs)
    along = w.integer(axis)
    dim = None
    known = axis.known()
    if known is not None and data.rank is not None:
        dim = data.shape[known[0]].static_size
    size = (
        f"{w.dim(data, known[0])} // {count}" if known else f"{w(data)}.shape[{along}] // {count}"
    )
    text = str(dim // count) if dim is not None else size
    if dim == 0 or dim is None:
        return unpacked(w, w.helper("split_in", data, str(count), along))
    return unpacked(w, f"{atom(w(data))}.split({text}, dim={along})")


@lowers("VariadicSplit")
def variadic_split(w: Writer, op: Operation, data: Value, axis: Value, sizes: Value) -> list[str]:
    """Parts of given sizes, of which one may be the rest."""
    known, where = sizes.known(), axis.known()
    if known is not None and where is not None and -1 in known:
        dim = data.shape[where[0]].static_size if data.rank is not None else None
        if dim is not None:
            rest = dim - sum(n for n in known if n >= 0)
            known = [rest if n == -1 else n for n in known]
    if known is None or -1 in known:
        text = w.listed(sizes)
        return unpacked(w, w.helper("split_by", data, text, w.integer(axis)))
    return unpacked(w, f"{atom(w(data))}.split({known}, dim={w.integer(axis)})")


def unpacked(w: Writer, expression: str) -> list[str]:
    """A variable for each output, from an expression that gives all of them."""
    from uncork.export.torch.names import variable

    count = len(w.outputs)
    names = [w.program.variable(f"{variable(w.layer)}_{i}") for i in range(count)]
    if count == 1:
        w.line(f"{names[0]} = {atom(expression)}[0]")
        return names
    w.line(f"{', '.join(names)} = {expression}")
    return names


@lowers("Broadcast")
def broadcast(
    w: Writer, op: Operation, data: Value, target: Value, axes: Value | None
) -> str | Value:
    """The data broadcast to a shape; in mode explicit its dimensions lie at given axes of the
    shape.
    """
    mode = op.mode  # type: ignore[attr-defined]
    if mode == "bidirectional":
        assert isinstance(op, Broadcast3)
        return w.helper("stretched_both_ways", data, w.listed(target))
    text = w(data)
    if mode != "numpy" and axes is not None:
        if target.shape.rank is None or not target.shape[0].is_static:
            return w.helper("placed_and_stretched", data, w.listed(target), w.listed(axes))
        count, known = int(target.shape[0]), axes.known()
        if known is None:
            return w.helper("placed_and_stretched", data, w.listed(target), w.listed(axes))
        sizes = ["1"] * count
        for i, place in enumerate(known):
            sizes[place] = w.dim(data, i)
        text = f"{atom(text)}.reshape({', '.join(sizes) or '()'})"
    return f"{atom(text)}.expand({w.listed(target)})"


@lowers("Tile")
def tile(w: Writer, op: Operation, data: Value, repeats: Value) -> str:
    """torch.tile"""
    return f"torch.tile({w(data)}, {w.listed(repeats)})"


@lowers("Range")
def range_(w: Writer, op: Operation, start: Value, stop: Value, step: Value) -> str:
    """torch.arange; of floats start + i * step, without the stop."""
    to = w.outputs[0].element_type
    code = w.dtype(to)
    bounds = [w.integers(v) for v in (start, stop, step)]
    whole = all(not v.type.is_float for v in (start, stop, step))
    if T.u64 in (start.type, stop.type, step.type):
        w.refuse("torch does not order unsigned 64-bit integers")
    if whole and not to.is_float:
        first, last, by = (
            b[0] if b else f"int({w(v)})" for b, v in zip(bounds, (start, stop, step), strict=True)
        )
        plain = last.isdigit() or (".shape[" in last and " " not in last)
        if by == "1" and first == "0" and plain:
            return f"torch.arange({last}, dtype={code}{w.on_device()})"
        return w.helper("integer_range", first, last, by, dtype=Code(code), **_device(w))
    values = (w.number(v) or f"{atom(w(v))}.item()" for v in (start, stop, step))
    single = all(v.type in (T.f32, T.f16, T.bf16) for v in (start, stop, step))
    return w.helper("float_range", *values, dtype=Code(code), single=single, **_device(w))


def _device(w: Writer) -> dict[str, Code]:
    return {} if w.first_tensor is None else {"device": Code(f"{w.first_tensor}.device")}


@lowers("Eye")
def eye(
    w: Writer, op: Operation, rows: Value, columns: Value, diagonal: Value, batch: Value | None
) -> str:
    """1 where column - row is the number of the diagonal."""
    code = w.dtype(w.outputs[0].element_type)
    sizes = "[]" if batch is None else w.listed(batch)
    numbers = [w.integer(v) for v in (rows, columns, diagonal)]
    return w.helper("eye", *numbers, sizes, dtype=Code(code), **_device(w))


@lowers("CumSum")
def cumsum(w: Writer, op: Operation, data: Value, axis: Value | None) -> str:
    """torch.cumsum; a helper does exclusive and reverse."""
    along = "0" if axis is None else w.integer(axis)
    code = w.dtype(data.type)
    if not op.exclusive and not op.reverse:  # type: ignore[attr-defined]
        return f"torch.cumsum({w(data)}, dim={along}, dtype={code})"
    options = {"exclusive": op.exclusive, "reverse": op.reverse}  # type: ignore[attr-defined]
    return w.helper("cumulative_sum", data, along, **options)


@lowers("Reverse")
def reverse(w: Writer, op: Operation, data: Value, axis: Value) -> str | Value:
    """torch.flip"""
    known = w.numbers(axis, "axis")
    if op.mode == "mask":  # type: ignore[attr-defined]
        axes = [i for i, n in enumerate(known) if n]
    else:
        axes = sorted({a % max(w.rank(data), 1) for a in known})
    return f"torch.flip({w(data)}, {axes})" if axes else data


@lowers("Roll")
def roll(w: Writer, op: Operation, data: Value, shift: Value, axes: Value) -> str | Value:
    """torch.roll, one shift for each axis."""
    by, along = shift.known(), axes.known()
    if by is not None and along is not None:
        by = by * len(along) if len(by) == 1 else by
        if not along:
            return data
        return f"torch.roll({w(data)}, {by}, {along})"
    return w.helper("rolled", data, w.listed(shift), w.listed(axes))


@lowers("ReverseSequence")
def reverse_sequence(w: Writer, op: Operation, data: Value, lengths: Value) -> str:
    """The first steps of each row, as many as its length, in reverse."""
    axes = {"batch_axis": op.batch_axis, "seq_axis": op.seq_axis}  # type: ignore[attr-defined]
    return w.helper("reverse_sequence", data, lengths, **axes)
