"""Selection of the kernel that pools over blocks of channels."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from msgspec.structs import replace

from uncork.internal_ops.blocks import BlockedPooling
from uncork.kernels.convolution.row_tiles import around, pixels_at_a_time
from uncork.kernels.convolution.spec_blocks import Deep
from uncork.kernels.convolution.spec_pool import Pooled
from uncork.kernels.extents import extents, nanoseconds
from uncork.kernels.kernel_plan import (
    In,
    KernelCall,
    Out,
    Scratch,
    Selection,
)
from uncork.kernels.layer import Layer, shared_call
from uncork.kernels.loops.windows import windows_of
from uncork.ops import Operation
from uncork.ops.avg_pool import AvgPool1, Pooling
from uncork.symbolic import SizeLike

#: Pixels at a time: windows that overlap share what they load.
_PIXELS = 8
#: Most cells of a window: all are written out.
_MOST = 32


def pooling_of(operation: Operation | None) -> Pooling | None:
    """The pooling that an operation is or has as its `pool`; else None."""
    pool = getattr(operation, "pool", operation)
    return pool if isinstance(pool, Pooling) else None


def pools_blocks(pool: Pooling, sizes: Sequence[SizeLike], counts: Sequence[SizeLike]) -> bool:
    """Whether a kernel pools at most three axes of so many cells into so many windows."""
    if len(sizes) != len(pool.kernel) or len(sizes) > 3 or prod(pool.kernel) > _MOST:
        return False
    windows = windows_of(pool, sizes, counts, pool.kernel)
    if (
        isinstance(pool, AvgPool1)
        and not pool.exclude_pad
        and any(w.is_padded and not w.stays_inside for w in windows)
    ):
        return False
    return all(isinstance(w.begin, int) and isinstance(w.end, int) for w in windows)


def select_pool(layer: Layer) -> Selection:
    operation, outputs = layer.of(BlockedPooling), layer.outputs
    pool = pooling_of(operation.operation)
    images, blocks, *sizes, lanes = layer.shape(0)
    counts = extents(outputs[0])[2:-1]
    assert isinstance(pool, Pooling) and isinstance(lanes, int)
    windows = windows_of(pool, sizes, counts, pool.kernel)
    deep, rows = (windows[-n] if len(windows) >= n else None for n in (3, 2))
    columns = windows[-1]
    planes = images * blocks
    if deep and deep.is_pointwise:
        planes, deep = planes * deep.size, None  # a plane is as good as an image
    mean = isinstance(pool, AvgPool1)
    width = pixels_at_a_time(columns.count, _PIXELS, _PIXELS)
    spec = Pooled(
        "sum" if mean else "max",
        lanes,
        rows.kernel if rows else 1,
        columns.kernel,
        (rows.stride if rows else 1, columns.stride),
        (rows.dilation if rows else 1, columns.dilation),
        width,
        None,
        isinstance(pool, AvgPool1) and not pool.exclude_pad,
        operation.half,
        Deep(deep.kernel, deep.stride, deep.dilation) if deep else None,
    )
    spec = replace(spec, around=around(spec, columns, width))
    planes, height = planes * (deep.count if deep else 1), rows.count if rows else 1
    line = columns.size * lanes * spec.size

    def part(
        first: SizeLike, some: SizeLike, first_row: SizeLike, lines: SizeLike, memory: Scratch
    ) -> KernelCall:
        return spec(
            source=In(0),
            target=Out(0),
            outside=memory,
            first=first,
            end=first + some,
            first_row=first_row,
            end_row=first_row + lines,
            height=rows.size if rows else 1,
            width=columns.size,
            result_height=height,
            result_width=columns.count,
            top=rows.begin if rows else 0,
            left=columns.begin,
            depth=deep.size if deep else 1,
            result_depth=deep.count if deep else 1,
            front=deep.begin if deep else 0,
        )

    work = planes * height * columns.count
    cost = nanoseconds(work, prod(pool.kernel) / 4)
    return shared_call(part, [(planes, 1), (height, 1)], cost, own=line)
