"""Convolutions and transposed ones by torch; of integers by sums of products that wrap."""

from __future__ import annotations

from uncork.export.torch.registry import lowers
from uncork.export.torch.writer import Code, Value, Writer
from uncork.ops._common.spatial import Sliding
from uncork.ops.binary_convolution import BinaryConvolution1
from uncork.ops.convolution import Convolution1
from uncork.ops.convolution_backprop import ConvolutionBackpropData1


def _numbers(values: object) -> object:
    """One number for all axes where they are alike."""
    numbers = list(values)  # type: ignore[call-overload]
    return numbers[0] if len(set(numbers)) == 1 else tuple(numbers)


def pads(op: Sliding) -> list[list[int]] | str:
    """The pads at the begin and end of each axis, or the auto_pad that depends on sizes."""
    if op.auto_pad.startswith("same"):
        return op.auto_pad
    return [list(op.fixed_pads(axis)) for axis in range(op.axes)]


def even_pads(op: Sliding) -> list[int] | None:
    """The padding of each axis, where it is the same at both ends."""
    given = pads(op)
    if isinstance(given, str) or any(b != e for b, e in given):
        return None
    return [b for b, _ in given]


@lowers("Convolution", "GroupConvolution")
def convolution(w: Writer, op: Convolution1, data: Value, filters: Value) -> str:
    """F.conv1d to F.conv3d."""
    given = pads(op)
    padding = even_pads(op)
    some = all(d.low > 0 for v in (data, filters) for d in v.shape[1:])
    if padding is None or not some or op.lead != 2 or not data.type.is_float:
        options: dict[str, object] = {"strides": list(op.strides), "pads": given}
        options["dilations"] = list(op.dilations)
        if op.lead == 3:
            options["grouped"] = True
        return w.helper("convolution", data, filters, **options)
    text = f"F.conv{op.axes}d({w(data)}, {w(filters)}"
    for name, values, neutral in (
        ("stride", op.strides, 1),
        ("padding", padding, 0),
        ("dilation", op.dilations, 1),
    ):
        number = _numbers(values)
        if number != neutral:
            text += f", {name}={number}"
    return text + ")"


@lowers("ConvolutionBackpropData", "GroupConvolutionBackpropData")
def transposed(
    w: Writer, op: ConvolutionBackpropData1, data: Value, filters: Value, shape: Value | None
) -> str:
    """F.conv_transpose1d to 3d, cut to the size that is asked for."""
    options: dict[str, object] = {"strides": list(op.strides), "dilations": list(op.dilations)}
    fixed = [(0, 0) if shape is not None else op.fixed_pads(axis) for axis in range(op.axes)]
    options["cuts"] = [
        [b, e - added] for (b, e), added in zip(fixed, op.output_padding, strict=True)
    ]
    if shape is not None:
        options["sizes"] = Code(w.listed(shape))
        options["more_before"] = op.auto_pad == "same_upper"
    if op.lead == 3:
        options["grouped"] = True
    return w.helper("transposed_convolution", data, filters, **options)


@lowers("BinaryConvolution")
def binary(w: Writer, op: BinaryConvolution1, data: Value, filters: Value) -> str:
    """A convolution of the numbers -1 and 1 that the bits stand for."""
    options = {"strides": list(op.strides), "dilations": list(op.dilations), "pads": pads(op)}
    return w.helper("binary_convolution", data, filters, pad_value=op.pad_value, **options)
