"""Interpolate, GridSample, patches and colours. Helpers compute the cells and weights of an axis as
the operations define them, since F.interpolate's coordinates often differ.
"""

from __future__ import annotations

from uncork.export.torch.composed import composed
from uncork.export.torch.registry import lowers
from uncork.export.torch.writer import Code, Value, Writer
from uncork.ops._operation import Operation
from uncork.ops.interpolate import Interpolate1, Interpolating
from uncork.ops.roi_pooling import ROIPooling1
from uncork.types import ElementType

T = ElementType


@lowers("Interpolate")
def interpolate(w: Writer, op: Interpolating, data: Value, *inputs: Value | None) -> str | Value:
    """The data resized axis by axis, by the cells and weights that the operation defines."""
    rank = w.rank(data)
    pads = op.pads(rank)
    wanted, named = op.chosen(*inputs)
    axes = list(op.axes) if isinstance(op, Interpolate1) else list(range(rank))
    if named is not None:
        axes = [a % rank for a in w.numbers(named, "axes")]
    how = op.settings(any(map(any, pads)), rank)
    options: dict[str, object] = {"mode": how.mode}
    if data.type.bits == 64 and not data.type.is_float and how.mode != "nearest":
        w.refuse("an Interpolate of 64-bit integers")
    if any(map(any, pads)):
        options["pads"] = [list(p) for p in pads]
    options["coordinates"] = how.coordinate_transformation_mode
    if how.mode == "nearest":
        options["rounding"] = how.nearest_mode
    if how.mode in ("cubic", "bicubic_pillow"):
        options["coefficient"] = how.cube_coeff
    if how.antialias:
        options["antialias"] = True
    if op.by_sizes:
        return w.helper("resized", data, repr(axes), sizes=Code(w.listed(wanted)), **options)
    if wanted.type is T.f64:
        options["double"] = True
    if wanted.value is not None:
        from uncork.export.torch.types import literal

        numbers = [literal(wanted.type, n) for n in wanted.value.reshape(-1)]
        return w.helper(
            "resized", data, repr(axes), scales=Code(f"[{', '.join(numbers)}]"), **options
        )
    return w.helper("resized", data, repr(axes), scales=Code(f"{w(wanted)}.tolist()"), **options)


@lowers("GridSample")
def grid_sample(w: Writer, op: Operation, data: Value, grid: Value) -> str:
    """Images read at places of a grid. F.grid_sample is not used: it differs in mode reflection,
    and halfway between cells.
    """
    keys = ("mode", "padding_mode", "align_corners")
    return w.helper("grid_sample", data, grid, **{k: getattr(op, k) for k in keys})


@lowers("Col2Im")
def col2im(w: Writer, op: Operation, data: Value, size: Value, kernel: Value) -> str:
    """Patches added up to an image."""
    keys = ("strides", "dilations", "pads_begin", "pads_end")
    options = {k: list(getattr(op, k)) for k in keys}
    return w.helper("columns_to_image", data, w.listed(size), w.listed(kernel), **options)


@lowers("ROIPooling")
def roi_pooling(w: Writer, op: ROIPooling1, data: Value, rois: Value) -> str | list[Value]:
    """The largest cell of each bin of each box, or a read between cells."""
    if op.method != "max":
        return composed(w, op, data, rois)
    keys = ("pooled_h", "pooled_w", "spatial_scale")
    return w.helper("roi_pooling", data, rois, **{k: getattr(op, k) for k in keys})
