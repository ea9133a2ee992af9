"""Selection of kernels that compute on codes: products, convolutions, and conversions to codes and
back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from uncork.internal_ops.quantized import PLAIN, WORD, QuantizedPool, QuantizedProduct, Reheld
from uncork.kernels.convolution.geometry import Geometry, WindowAxis, geometry
from uncork.kernels.extents import (
    KernelDeclined,
    certainly,
    decline_if,
    extents,
    is_empty,
    nanoseconds,
    product,
)
from uncork.kernels.kernel_plan import (
    In,
    KernelCall,
    Operand,
    Out,
    Selection,
)
from uncork.kernels.layer import Layer, present, shared_call
from uncork.kernels.movement.select_blocks import channels_moved
from uncork.kernels.quantized.depthwise import depthwise_sums
from uncork.kernels.quantized.epilogues import epilogue_of
from uncork.kernels.quantized.grids import numbers_of
from uncork.kernels.quantized.layout import CodesWork
from uncork.kernels.quantized.pool import pooled_codes
from uncork.kernels.quantized.products import sums_of_codes
from uncork.kernels.quantized.spec import CODES, Codes
from uncork.kernels.runtime.addresses import address_of
from uncork.ops.avg_pool import Pooling
from uncork.ops.convolution import Convolution1
from uncork.ops.matmul import MatMul
from uncork.symbolic import SizeLike
from uncork.types import Array, TensorSpec

#: The largest sums that 32 bits hold, as integers and as f32; the largest code.
_LARGEST_SUM, _LARGEST_IN_F32, _LARGEST_CODE = 2**31 - 1, 2**24, 255


def work_of(operation: QuantizedProduct, inputs: Sequence[TensorSpec | None]) -> CodesWork:
    """A quantized product as kernels know it. Raises KernelDeclined where they do not."""
    plain = operation.plain(inputs)
    data = present(plain[0])
    (result,) = operation.operation.describe(plain)
    grid = operation.held[0].grid
    if grid is None:
        raise KernelDeclined("no kernel for data that are no codes")
    weights = operation.weights
    g, codes = (
        _matrix(operation, data)
        if isinstance(operation.product, MatMul)
        else _windows(operation, data, result)
    )
    decline_if(is_empty((*extents(data), *extents(result))), "no kernel for empty tensors")
    if not g.inside and grid.zero is None:
        raise KernelDeclined("no code stands for the zeros around the data")
    outputs = operation.weights.outputs
    depthwise = _is_depthwise(g)
    decline_if(
        bool(grid.channels) and not depthwise,
        "no kernel adds up codes of channels with limits of their own",
    )
    furthest = _LARGEST_CODE + np.abs(grid.nearest_zero)
    largest = (np.abs(codes.reshape(outputs, -1).astype(np.int64)).sum(1) * furthest).max()
    decline_if(
        largest > (_LARGEST_IN_F32 if depthwise else _LARGEST_SUM),
        "sums of 32 bits do not hold so many products",
    )
    end = epilogue_of(operation, plain, result, -1 if isinstance(operation.product, MatMul) else 1)
    coded = operation.result.grid is not None
    decline_if(
        outputs % WORD and ((coded and end.operands) or CODES in end.spec.operands),
        "no kernel ends codes that fill no words",
    )
    decline_if(
        not (np.isfinite(weights.scales).all() and np.isfinite(end.bias).all()),
        "no kernel for scales and biases that are not finite",
    )
    return CodesWork(g, codes, weights, grid, end, [held.grid for held in operation.held], coded)


def _matrix(operation: QuantizedProduct, data: TensorSpec) -> tuple[Geometry, Array]:
    """The geometry and the codes of a matrix product, whose rows are taken as a row of pixels."""
    matmul, sizes = operation.product, extents(data)
    assert isinstance(matmul, MatMul)
    decline_if(
        len(sizes) < 2 or matmul.transpose_a, "no kernel for vectors and a transposed first matrix"
    )
    codes = operation.weights.codes
    columns, inner = codes.shape
    rows = product(sizes[:-1])
    return Geometry(
        1, 1, inner, columns, WindowAxis(1, 1, 1), WindowAxis(rows, 1, rows)
    ), codes.reshape(columns, inner, 1, 1)


def _windows(
    operation: QuantizedProduct, data: TensorSpec, result: TensorSpec
) -> tuple[Geometry, Array]:
    codes = operation.weights.codes.reshape(operation.weights.shape)
    assert isinstance(operation.product, Convolution1)
    g, ordered = geometry(operation.product, extents(data), codes, extents(result))
    if _is_depthwise(g):
        if operation.result == PLAIN or (operation.result.grid is None and g.groups % WORD):
            raise KernelDeclined("no kernel ends codes that fill no words")
    elif g.groups > 1:
        filled = g.channels % WORD == 0 and g.groups * g.outputs % WORD == 0
        decline_if(not filled, "no kernel for groups of channels that fill no words")
    return g, ordered.reshape(g.groups * g.outputs, *ordered.shape[2:])


def _is_depthwise(g: Geometry) -> bool:
    """Whether each channel by itself makes one output."""
    return g.groups > 1 and g.channels == g.outputs == 1


def select_product(layer: Layer) -> Selection:
    operation, inputs, target = layer.of(QuantizedProduct), layer.inputs, layer.target
    work = work_of(operation, inputs)
    sums = depthwise_sums if _is_depthwise(work.geometry) else sums_of_codes
    return sums(work, target)


def select_pool(layer: Layer) -> Selection:
    operation, inputs, target = layer.of(QuantizedPool), layer.inputs, layer.target
    data = present(operation.plain(inputs)[0])
    (result,) = operation.operation.describe([data])
    decline_if(is_empty((*extents(data), *extents(result))), "no kernel for empty tensors")
    pool = cast("Pooling", operation.pool)
    return pooled_codes(pool, pool.kernel, extents(data), extents(result), target)


def select_reheld(layer: Layer) -> Selection:
    operation, outputs, target = layer.of(Reheld), layer.outputs, layer.target
    source, held = operation.source, operation.target
    plain = extents(TensorSpec(outputs[0].element_type, source.plain_shape(layer.input(0).shape)))
    decline_if(is_empty(plain), "no kernel for empty tensors")
    back = source.grid is not None
    if back and held.grid is not None:
        return "no kernel from codes to codes"
    grid = source.grid or held.grid
    if grid is None:
        return channels_moved((plain[0], plain[1], product(plain[2:])), held.last, target)
    moves = source.last != held.last
    decline_if(
        moves and source.last != back, "no kernel for codes whose channels are where they were"
    )
    apart = moves and not all(certainly(size, 1) for size in plain[2:])
    if apart:
        images, channels, pixels = plain[0], plain[1], product(plain[2:])
        sizes, shared = [images, channels, pixels], pixels
    else:
        held_last = source.last or held.last
        channels = plain[1] if held_last else plain[-1]
        rows = [plain[0], *plain[2:]] if held_last else plain[:-1]
        if len(rows) > 2 and not grid.channels and certainly(channels % WORD, 0):
            # No byte lies between the pixels of a row: they are as one.
            channels, rows = channels * rows[-1], rows[:-1]
        shared = product(rows)
        sizes = [1, channels, 1]
    numbers = numbers_of(grid)
    spec = Codes(target.lanes, apart, back, bool(grid.channels))

    def some(first: SizeLike, count: SizeLike) -> KernelCall:
        arguments: list[Operand] = [In(0), Out(0), address_of(numbers), *sizes, first, count]
        return spec, arguments

    cost = nanoseconds(product(plain), 1 / 8)
    return shared_call(some, [(shared, target.lanes)], cost, keep=[numbers])
