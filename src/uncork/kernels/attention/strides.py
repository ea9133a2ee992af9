"""Strided views of tensors, also after moves of their elements, and the loops over batches and
heads that the views share.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from uncork.internal_ops.attention import Move, Repeated, Transposed
from uncork.kernels.extents import (
    KernelDeclined,
    certainly,
    decline_if,
    elements_of,
    product,
    same,
)
from uncork.symbolic import SizeLike
from uncork.types import TensorSpec


class StridedAxis(Struct, frozen=True):
    """One dimension of a strided tensor: how many elements, the bytes from one to the next; each
    stands for `repeats` that follow each other.
    """

    size: SizeLike
    stride: SizeLike
    repeats: int = 1

    @property
    def is_one(self) -> bool:
        return certainly(self.size, 1) and self.repeats == 1


class TensorView(Struct, frozen=True):
    """A tensor's axes, and the bytes to its first element."""

    axes: tuple[StridedAxis, ...]
    offset: SizeLike = 0


def contiguous(shape: Sequence[SizeLike], element_bytes: int) -> TensorView:
    """The view of a tensor whose elements lie one after the other."""
    return TensorView(
        tuple(
            StridedAxis(size, product(shape[i + 1 :]) * element_bytes)
            for i, size in enumerate(shape)
        )
    )


def first_of(view: TensorView, axis: int, count: TensorSpec) -> TensorView:
    """The view of the first `count` elements along an axis."""
    sizes = elements_of(count)
    if not sizes:
        raise KernelDeclined("how many keys there are is known at the call only")
    axes = list(view.axes)
    axes[axis] = replace(axes[axis], size=sizes[0])
    return TensorView(tuple(axes), view.offset)


def codes_of(view: TensorView, extra: int) -> TensorView:
    """The view of rows without the elements that each has behind its codes."""
    axes = list(view.axes)
    axes[-1] = replace(axes[-1], size=axes[-1].size - extra)
    return TensorView(tuple(axes), view.offset)


def moved(view: TensorView, moves: Sequence[Move]) -> TensorView:
    """The view of a tensor after the moves."""
    for move in moves:
        axes, offset = list(view.axes), view.offset
        if isinstance(move, Transposed):
            axes = [axes[axis] for axis in move.order]
        elif isinstance(move, Repeated):
            axis = axes[move.axis]
            axes[move.axis] = StridedAxis(axis.size, axis.stride, axis.repeats * move.count)
        else:
            axis = axes.pop(move.axis)
            decline_if(
                axis.repeats > 1,
                "no kernel for one of repeated elements",
            )
            offset = offset + axis.stride * move.index
        view = TensorView(tuple(axes), offset)
    return view


class BatchLoop(Struct, frozen=True):
    """One loop of a strided walk: how many turns and, for each tensor, the bytes from one to the
    next.
    """

    size: SizeLike
    strides: Mapping[str, SizeLike]


def batch_loops(
    sizes: Sequence[SizeLike], batches: Mapping[str, Sequence[StridedAxis]]
) -> list[BatchLoop]:
    """The loops over the batch dimensions, as few as possible, with the strides of each tensor; its
    dimensions are aligned at the right, as NumPy broadcasts.
    """
    loops: list[BatchLoop] = []
    for index, size in enumerate(sizes):
        found: dict[str, StridedAxis | None] = {}
        for name, axes in batches.items():
            number = index - (len(sizes) - len(axes))
            axis = axes[number] if number >= 0 and not axes[number].is_one else None
            if axis is not None and not same(axis.size * axis.repeats, size):
                raise KernelDeclined("whether a tensor stretches is known at the call only")
            found[name] = axis
        loops += _of_axis(size, found)
    merged: list[BatchLoop] = []
    for loop in loops:
        if certainly(loop.size, 1):
            continue
        if merged and all(
            same(merged[-1].strides[name], stride * loop.size)
            for name, stride in loop.strides.items()
        ):
            merged[-1] = BatchLoop(merged[-1].size * loop.size, loop.strides)
        else:
            merged.append(loop)
    return merged


def _of_axis(size: SizeLike, axes: Mapping[str, StridedAxis | None]) -> list[BatchLoop]:
    """One loop over an axis; two where some tensor repeats its elements."""
    repeats = {axis.repeats for axis in axes.values() if axis is not None} - {1}
    if not repeats:
        return [BatchLoop(size, {name: axis.stride if axis else 0 for name, axis in axes.items()})]
    count = max(repeats)
    if len(repeats) > 1 or not isinstance(size, int) or size % count:
        raise KernelDeclined("no kernel for elements that are repeated in several ways")
    outer: dict[str, SizeLike] = {}
    inner: dict[str, SizeLike] = {}
    for name, axis in axes.items():
        whole = axis is not None and axis.repeats == 1
        outer[name] = 0 if axis is None else axis.stride * count if whole else axis.stride
        inner[name] = axis.stride if axis is not None and whole else 0
    return [BatchLoop(size // count, outer), BatchLoop(count, inner)]
