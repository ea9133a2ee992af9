"""Blocks of space moved into depth or batch and back, shuffled channels, patches of images and
images of patches.
"""

from __future__ import annotations

from collections.abc import Sequence

from uncork.export.onnx.composed import composed
from uncork.export.onnx.graph import I64, Graph, Tensor
from uncork.export.onnx.registry import lowers
from uncork.ops.col2im import Col2Im15
from uncork.ops.space_to_depth import DepthToSpace1
from uncork.types import ElementType


@lowers("Col2Im")
def col2im(
    g: Graph, op: Col2Im15, data: Tensor, output_size: Tensor, kernel_size: Tensor
) -> Tensor:
    """ONNX's Col2Im, on a batch."""
    own = data.type
    single = g.rank(data) == 2
    wide = data if own in (ElementType.f32, ElementType.f16) else None
    if wide is None:
        if own not in (
            ElementType.bf16,
            ElementType.i8,
            ElementType.u8,
            ElementType.i16,
            ElementType.u16,
        ):
            g.approximate(f"Col2Im of {own} is computed in f32")
        wide = g.cast(data, ElementType.f32)
    batched = g.unsqueeze(wide, [0]) if single else wide
    image = g.op(
        "Col2Im",
        batched,
        g.cast(output_size, I64),
        g.cast(kernel_size, I64),
        strides=list(op.strides),
        dilations=list(op.dilations),
        pads=[*op.pads_begin, *op.pads_end],
    )
    return g.cast(g.squeeze(image, [0]) if single else image, own)


@lowers("DepthToSpace")
def depth_to_space(g: Graph, op: DepthToSpace1, data: Tensor) -> Sequence[Tensor]:
    """ONNX's DepthToSpace for f32 of four dimensions, else a Reshape and a Transpose."""
    if g.rank(data) != 4 or data.type is not ElementType.f32:
        return composed(g, op, data)
    mode = "DCR" if op.mode == "blocks_first" else "CRD"
    return [g.op("DepthToSpace", data, blocksize=op.block_size, mode=mode)]
