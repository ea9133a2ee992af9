"""Pooling by torch's functions where they have the same windows and count the same cells, else
window by window.
"""

from __future__ import annotations

from uncork.export.torch.families.convolution import even_pads, pads
from uncork.export.torch.families.shapes import unpacked
from uncork.export.torch.registry import lowers
from uncork.export.torch.writer import Code, Value, Writer
from uncork.ops._operation import Operation
from uncork.ops.avg_pool import AvgPool1
from uncork.ops.max_pool import MaxPool1, MaxPool8


@lowers("AvgPool")
def avg_pool(w: Writer, op: AvgPool1, data: Value) -> str:
    """F.avg_pool where windows have even padding, else sums over counts."""
    padding = _narrow_pads(op)
    dilated = any(op.dilation(a) != 1 for a in range(op.axes))
    if padding is not None and not dilated and op.rounding_type == "floor" and data.type.is_float:
        text = f"F.avg_pool{op.axes}d({w(data)}, {list(op.kernel)}, {list(op.strides)}"
        if any(padding):
            text += f", {padding}, count_include_pad={not op.exclude_pad}"
        return text + ")"
    options = _options(op)
    return w.helper("average_pool", data, exclude_pad=op.exclude_pad, **options)


def _narrow_pads(op: AvgPool1 | MaxPool1 | MaxPool8) -> list[int] | None:
    """The padding of each axis where torch's pooling takes it: even, and at most half a kernel."""
    padding = even_pads(op)
    if padding is None or any(2 * b > k for b, k in zip(padding, op.kernel, strict=True)):
        return None
    return padding


def _options(op: AvgPool1 | MaxPool1 | MaxPool8) -> dict[str, object]:
    options: dict[str, object] = {
        "kernel": list(op.kernel),
        "strides": list(op.strides),
        "dilations": [op.dilation(a) for a in range(op.axes)],
        "pads": pads(op),
        "rounding": op.rounding_type,
    }
    return options


@lowers("MaxPool")
def max_pool(w: Writer, op: MaxPool1 | MaxPool8, data: Value) -> str | list[str]:
    """F.max_pool where windows have even padding; places in the whole tensor by a helper."""
    padding = _narrow_pads(op)
    if (
        isinstance(op, MaxPool1)
        and padding is not None
        and op.rounding_type == "floor"
        and data.type.is_float
    ):
        text = f"F.max_pool{op.axes}d({w(data)}, {list(op.kernel)}, {list(op.strides)}"
        if any(padding):
            text += f", {padding}"
        return text + ")"
    options = _options(op)
    if isinstance(op, MaxPool1):
        return f"{w.helper('max_pool', data, **options)}[0]"
    axis = op.axis % w.rank(data)
    options |= {"axis": axis, "dtype": Code(w.dtype(op.index_element_type))}
    return unpacked(w, w.helper("max_pool", data, **options))


@lowers("AdaptiveAvgPool", "AdaptiveMaxPool")
def adaptive(w: Writer, op: Operation, data: Value, shape: Value) -> str | list[str]:
    """F.adaptive_avg_pool, or maxima and their places by a helper."""
    count = w.rank(data) - 2
    sizes = w.listed(shape)
    if op.type_name == "AdaptiveAvgPool":
        if data.shape.size == 0 or shape.known() is None or 0 in (shape.known() or []):
            return w.helper("adaptive_average", data, sizes)
        return f"F.adaptive_avg_pool{count}d({w(data)}, {sizes})"
    code = Code(w.dtype(op.index_element_type))  # type: ignore[attr-defined]
    return unpacked(w, w.helper("adaptive_maximum", data, sizes, dtype=code))
