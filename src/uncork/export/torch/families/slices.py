"""Slice, StridedSlice, SliceScatter and Pad: Python's slices where steps are positive; torch has no
others.
"""

from __future__ import annotations

from uncork.export.torch.registry import lowers
from uncork.export.torch.writer import Elements, Value, Writer, atom
from uncork.ops._operation import Operation
from uncork.ops.pad import Pad12
from uncork.ops.strided_slice import StridedSlice1

_FAR = 2**31 - 1


@lowers("Slice")
def slice_(
    w: Writer,
    op: Operation,
    data: Value,
    start: Value,
    stop: Value,
    step: Value,
    axes: Value | None,
) -> str | Elements:
    """Python's slices; a helper does negative steps."""
    by = step.known()
    bounds = [w.integers(start), w.integers(stop)]
    count = _count(start, stop, step, axes)
    along = list(range(count)) if axes is None and count is not None else _known(axes)
    taken = _of_elements(data, bounds, by, along)
    if taken is not None:
        return taken
    if by is not None and along is not None and data.rank is not None and min(by, default=1) > 0:
        first, last = (
            _taken(w, v, len(by)) if b is None else b
            for b, v in zip(bounds, (start, stop), strict=True)
        )
        parts = [":"] * data.rank
        for b, e, s, axis in zip(first, last, by, along, strict=True):
            parts[axis % data.rank] = _slice(b, e, s)
        return f"{atom(w(data))}[{_joined(parts)}]"
    lists = [w.listed(v) for v in (start, stop, step)]
    return w.helper("sliced", data, *lists, None if axes is None else w.listed(axes))


def _count(*values: Value | None) -> int | None:
    """The number of bounds: all these lists are of one length, which one of them may tell."""
    lists = (v for v in values if v is not None and v.rank == 1)
    return next((int(v.shape[0]) for v in lists if v.shape[0].is_static), None)


def _known(axes: Value | None) -> list[int] | None:
    return None if axes is None else axes.known()


def _taken(w: Writer, bounds: Value, count: int) -> list[str]:
    """The expressions of so many bounds that a tensor holds, one by one."""
    if count == 1:
        return [f"int({w(bounds)})"]
    name = w.let(w.listed(bounds), "bounds")
    return [f"{name}[{i}]" for i in range(count)]


def _of_elements(
    data: Value, bounds: list[list[str] | None], by: list[int] | None, along: list[int] | None
) -> Elements | None:
    """A part of a list of Python's integers."""
    first, last = bounds
    if (
        data.elements is None
        or data.code
        or data.rank != 1
        or not (first and last and by and along)
    ):
        return None
    if not all(n.lstrip("-").isdigit() for n in (*first, *last)) or len(by) != 1:
        return None
    return Elements(data.elements[int(first[0]) : int(last[0]) : by[0]])


def _slice(first: str, last: str, step: int) -> str:
    begin = "" if first == "0" else first
    far = last.lstrip("-").isdigit() and int(last) >= _FAR
    end = "" if far else last
    return f"{begin}:{end}" + ("" if step == 1 else f":{step}")


def _joined(parts: list[str]) -> str:
    """Subscripts without the whole axes at the end."""
    while len(parts) > 1 and parts[-1] == ":":
        parts.pop()
    return ", ".join(parts)


@lowers("StridedSlice")
def strided_slice(
    w: Writer, op: StridedSlice1, data: Value, begin: Value, end: Value, stride: Value | None
) -> str | Elements:
    """Python's subscripts: slices, single indices and new axes."""
    count = _count(begin, end, stride)
    by = [1] * (count or 0) if stride is None else stride.known()
    if count is None or by is None:
        w.refuse("the strides, or their number, are computed as the model runs")
    given = [(v, w.integers(v)) for v in (begin, end)]
    first, last = (_taken(w, v, count) if n is None else n for v, n in given)
    parts = []
    backwards: list[tuple[int, str, str, int]] = []
    place = 0
    for kind, i, _ in op.steps(count, w.rank(data)):
        if kind == "slice":
            low, high = (
                None if i < len(m) and m[i] else n[i]
                for m, n in ((op.begin_mask, first), (op.end_mask, last))
            )
            if by[i] > 0:
                parts.append(_slice(low or "0", high or str(_FAR), by[i]))
            else:
                parts.append(":")
                backwards.append((place, low or "None", high or "None", by[i]))
            place += 1
        elif kind == "shrink":
            index = op.single(i, 0)
            masked = i < len(op.begin_mask) and op.begin_mask[i]
            parts.append(str(index) if masked else first[i])
        else:
            parts.append(":" if kind == "whole" else "None")
            place += 1
    if data.elements is not None and not data.code and data.rank == 1 and not backwards:
        result = _picked(data.elements, parts)
        if result is not None:
            return result
    text = f"{atom(w(data))}[{_joined(parts)}]" if parts else w(data)
    for axis, low, high, step in backwards:
        text = w.helper("backwards", text, str(axis), low, high, str(step))
    return text


def _picked(elements: tuple[str, ...], parts: list[str]) -> Elements | None:
    kept = [p for p in parts if p != "None"]
    if len(kept) != 1 or not all(c in "0123456789-:" for c in kept[0]):
        return None
    if ":" not in kept[0]:
        return Elements((elements[int(kept[0])],))
    bounds = [int(n) if n else None for n in kept[0].split(":")]
    return Elements(elements[slice(*bounds)])


@lowers("SliceScatter")
def slice_scatter(
    w: Writer,
    op: Operation,
    data: Value,
    updates: Value,
    start: Value,
    stop: Value,
    step: Value,
    axes: Value | None,
) -> str:
    """A copy with a region replaced."""
    lists = [w.listed(v) for v in (start, stop, step)]
    along = None if axes is None else w.listed(axes)
    return w.helper("slice_scattered", data, updates, *lists, along)


@lowers("Pad")
def pad(
    w: Writer, op: Pad12, data: Value, begin: Value, end: Value, value: Value | None
) -> str | Value:
    """F.pad in mode constant with pads that are known, else a helper."""
    first, last = begin.known(), end.known()
    if op.pad_mode == "constant" and first is not None and last is not None:
        if not any(first) and not any(last):
            return data
        number = "0" if value is None else w.number(value)
        pairs = list(zip(first, last, strict=True))
        while pairs and pairs[0] == (0, 0):
            pairs.pop(0)
        flat = [n for pair in reversed(pairs) for n in pair]
        crops = min(flat) < 0
        if number is not None and not crops:
            ending = "" if number in ("0", "0.0") else f", value={number}"
            if data.type.name == "boolean" and number in ("True", "False"):
                ending = f", value={number}"
            return f"F.pad({w(data)}, {flat}{ending})"
    lists = [w.listed(v) for v in (begin, end)]
    return w.helper("padded", data, *lists, mode=op.pad_mode, value=_value(w, value))


def _value(w: Writer, value: Value | None) -> object:
    from uncork.export.torch.writer import Code

    return None if value is None else Code(w(value))
