"""Interpolate, GridSample, patches and colours. Helpers compute the cells and weights of an axis as
the operations define them, since F.interpolate's coordinates often differ.
"""

from __future__ import annotations

from uncork.export.torch.registry import lowers
from uncork.export.torch.writer import Code, Value, Writer
from uncork.ops._operation import Operation
from uncork.ops.interpolate import Interpolate1, InterpolateByInputs, Interpolating
from uncork.types import ElementType

T = ElementType


@lowers("Interpolate")
def interpolate(w: Writer, op: Interpolating, data: Value, *inputs: Value | None) -> str | Value:
    """The data resized axis by axis, by the cells and weights that the operation defines."""
    rank = w.rank(data)
    pads = op.pads(rank)
    options: dict[str, object] = {"mode": op.mode}  # type: ignore[attr-defined]
    if isinstance(op, Interpolate1):
        wanted, axes = inputs[0], list(op.axes)
        centred = op.mode == "linear" and not any(map(any, pads))
        centred = centred and not (rank == 4 and set(op.axes) == {2, 3})
        word = "half_pixel" if centred else "asymmetric"
        coordinates = "align_corners" if op.align_corners else word
        by_sizes, rounding, coefficient = True, "simple", -0.75
    else:
        assert isinstance(op, InterpolateByInputs)
        by_sizes = op.shape_calculation_mode == "sizes"
        *choices, named = inputs
        wanted = choices[0] if by_sizes or len(choices) == 1 else choices[1]
        axes = list(range(rank)) if named is None else [a % rank for a in w.numbers(named, "axes")]
        coordinates, rounding = op.coordinate_transformation_mode, op.nearest_mode
        coefficient = op.cube_coeff
    assert wanted is not None
    if data.type.bits == 64 and not data.type.is_float and op.mode != "nearest":
        w.refuse("an Interpolate of 64-bit integers")
    if any(map(any, pads)):
        options["pads"] = [list(p) for p in pads]
    options["coordinates"] = coordinates
    if op.mode == "nearest":
        options["rounding"] = rounding
    if op.mode in ("cubic", "bicubic_pillow"):
        options["coefficient"] = coefficient
    if op.antialias:
        options["antialias"] = True
    if by_sizes:
        return w.call("resized", data, repr(axes), sizes=Code(w.listed(wanted)), **options)
    if wanted.type is T.f64:
        options["double"] = True
    if wanted.value is not None:
        from uncork.export.torch.types import literal

        numbers = [literal(wanted.type, n) for n in wanted.value.reshape(-1)]
        return w.call(
            "resized", data, repr(axes), scales=Code(f"[{', '.join(numbers)}]"), **options
        )
    return w.call("resized", data, repr(axes), scales=Code(f"{w(wanted)}.tolist()"), **options)


@lowers("GridSample")
def grid_sample(w: Writer, op: Operation, data: Value, grid: Value) -> str:
    """Images read at places of a grid. F.grid_sample is not used: it differs in mode reflection,
    and halfway between cells.
    """
    keys = ("mode", "padding_mode", "align_corners")
    return w.call("grid_sample", data, grid, **{k: getattr(op, k) for k in keys})


@lowers("ExtractImagePatches")
def patches(w: Writer, op: Operation, data: Value) -> str:
    """The windows of an image as channels."""
    keys = ("sizes", "strides", "rates")
    options: dict[str, object] = {k: list(getattr(op, k)) for k in keys}
    pad = op.auto_pad  # type: ignore[attr-defined]
    options["pads"] = [[0, 0], [0, 0]] if pad == "valid" else pad
    return w.call("image_patches", data, **options)


@lowers("Col2Im")
def col2im(w: Writer, op: Operation, data: Value, size: Value, kernel: Value) -> str:
    """Patches added up to an image."""
    keys = ("strides", "dilations", "pads_begin", "pads_end")
    options = {k: list(getattr(op, k)) for k in keys}
    return w.call("columns_to_image", data, w.listed(size), w.listed(kernel), **options)


@lowers("NV12toRGB", "NV12toBGR", "I420toRGB", "I420toBGR")
def colours(w: Writer, op: Operation, *planes: Value | None) -> str:
    """Planes Y, U and V as RGB or BGR."""
    given = ", ".join(w(p) for p in planes if p is not None)
    pairs = op.type_name.startswith("NV12")
    return w.call("yuv_to_rgb", f"[{given}]", pairs=pairs, blue_first=op.type_name.endswith("BGR"))


@lowers("ReorgYolo")
def reorg(w: Writer, op: Operation, data: Value) -> str:
    """Pixels moved to channels, in the order of the original Darknet code."""
    return w.call("reorg", data, str(op.stride))  # type: ignore[attr-defined]


@lowers("RegionYolo")
def region(w: Writer, op: Operation, data: Value) -> str:
    """Sigmoid of places and objectness, softmax or sigmoid of classes."""
    options: dict[str, object] = {
        "regions": op.regions,  # type: ignore[attr-defined]
        "coords": op.coords,  # type: ignore[attr-defined]
        "softmax": op.do_softmax,  # type: ignore[attr-defined]
        "axis": op.axis % 4,  # type: ignore[attr-defined]
        "end_axis": op.end_axis % 4,  # type: ignore[attr-defined]
    }
    return w.call("yolo_regions", data, **options)


@lowers("ROIPooling")
def roi_pooling(w: Writer, op: Operation, data: Value, rois: Value) -> str:
    """The largest cell of each bin of each box, or a read between cells."""
    keys = ("pooled_h", "pooled_w", "spatial_scale", "method")
    return w.call("roi_pooling", data, rois, **{k: getattr(op, k) for k in keys})


@lowers("ROIAlign", "ROIAlignRotated")
def roi_align(w: Writer, op: Operation, data: Value, rois: Value, images: Value) -> str:
    """The image read between cells, on a grid in each bin of each box."""
    keys = ("pooled_h", "pooled_w", "sampling_ratio", "spatial_scale", "mode")
    options = {k: getattr(op, k) for k in keys}
    if op.type_name == "ROIAlign":
        options["aligned"] = op.aligned_mode  # type: ignore[attr-defined]
    else:
        options["turned"] = "clockwise" if op.clockwise_mode else "counter"  # type: ignore[attr-defined]
    return w.call("roi_align", data, rois, images, **options)
