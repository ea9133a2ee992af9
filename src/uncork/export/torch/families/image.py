"""GridSample, images of patches and boxes."""

from __future__ import annotations

from uncork.export.torch.composed import composed
from uncork.export.torch.registry import lowers
from uncork.export.torch.writer import Value, Writer
from uncork.ops._operation import Operation
from uncork.ops.roi_pooling import ROIPooling1


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
