"""Copying between strided views: what Concat, Split, Slice, Tile, Transpose and other moves come
down to, and how kernels lay out their data in their working memory.

A view is loops around an address: how many times, and the bytes from one turn to the next in the
source and in the target. The innermost turn copies a run of neighbouring bytes. Sizes may be open.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from msgspec import Struct

from uncork.kernels.extents import certainly, product, same
from uncork.kernels.kernel_plan import KernelCall, Operand
from uncork.kernels.kernel_spec import OPEN
from uncork.kernels.movement.spec import FillBytes, NdCopy
from uncork.symbolic import SizeLike
from uncork.types import TensorSpec

#: Runs of up to so many bytes are copied by straight code, of a kernel of their own.
_SHORT = 64
#: Elements of so many bytes may be picked by vectors, and the steps between them.
_PICKED_BYTES = (1, 2, 4, 8)
_PICKED_STEPS = (-4, -3, -2, -1, 0, 2, 3, 4)
#: Runs of so many bytes are rows. Shorter ones move so many bytes at most, or one part of so many.
_ROW, _FEW, _MOSTLY = 16, 256, 8
#: Loops of one kernel at most.
MOST_LOOPS = 6
#: What a number is taken to be that only the call knows.
_MANY = 1 << 20


class Loop(Struct, frozen=True):
    """`count` turns, and the bytes from one to the next in the source and in the target."""

    count: SizeLike
    source: SizeLike
    target: SizeLike


class Copy(Struct, frozen=True):
    """A copy between an input and an output: offsets in bytes, loops, and the bytes of a run."""

    source: int
    target: int
    source_offset: SizeLike
    target_offset: SizeLike
    loops: tuple[Loop, ...]
    run: SizeLike


class Fill(Struct, frozen=True):
    """An output filled with the first element of an input (`value`; None: zeros), of so many
    bytes.
    """

    value: int | None
    element: int


def strides(shape: Sequence[SizeLike], element: int) -> list[SizeLike]:
    """Bytes from one element to the next along each axis."""
    return [product(shape[axis + 1 :]) * element for axis in range(len(shape))]


def permuted(data: TensorSpec, view: Sequence[SizeLike], order: Sequence[int]) -> list[Copy]:
    """The copy that permutes the dimensions of a view of a tensor."""
    element = data.element_type.dtype.itemsize
    source, target = strides(view, element), strides([view[axis] for axis in order], element)
    loops = (Loop(view[axis], source[axis], to) for axis, to in zip(order, target, strict=True))
    return [Copy(0, 0, 0, 0, tuple(loops), element)]


def merged(loops: Sequence[Loop], run: SizeLike) -> tuple[list[Loop], SizeLike]:
    """Fewer loops that make the same copies, and their run: a loop is merged into the one inside
    it, or into the run, where both sides go on without a gap.
    """
    kept: list[Loop] = []
    for loop in reversed(loops):
        if certainly(loop.count, 1):
            continue
        if not kept and same(loop.source, run) and same(loop.target, run):
            run = run * loop.count
        elif kept and _follows(loop, kept[-1]):
            kept[-1] = Loop(loop.count * kept[-1].count, kept[-1].source, kept[-1].target)
        else:
            kept.append(loop)
    return kept[::-1], run


def go_by_rows(copies: Sequence[Copy]) -> bool:
    """Whether copies move most of their bytes as rows, or as vectors of single elements.

    A size that only the call knows counts as one: it is mostly that of all of them.
    """
    bytes_of = [_known_bytes(copy) for copy in copies]
    short = sum(size for size, copy in zip(bytes_of, copies, strict=True) if _has_short_runs(copy))
    return short <= max(_FEW, sum(bytes_of) // _MOSTLY)


def _has_short_runs(copy: Copy) -> bool:
    loops, run = merged(copy.loops, copy.run)
    return isinstance(run, int) and run < _ROW and _picked_step(loops, run) == 1


def _known_bytes(copy: Copy) -> int:
    sizes = [copy.run, *(loop.count for loop in copy.loops)]
    return prod(size for size in sizes if isinstance(size, int))


def _picked_step(loops: Sequence[Loop], run: SizeLike) -> int:
    """From one element to the next in the source, where vectors may pick them; otherwise 1."""
    if not loops or not isinstance(run, int) or run not in _PICKED_BYTES:
        return 1
    inner = loops[-1]
    if not certainly(inner.target, run) or not isinstance(inner.source, int):
        return 1
    step, rest = divmod(inner.source, run)
    return step if not rest and step in _PICKED_STEPS else 1


def _follows(outer: Loop, inner: Loop) -> bool:
    return same(outer.source, inner.source * inner.count) and same(
        outer.target, inner.target * inner.count
    )


def nd_copy(source: Operand, target: Operand, loops: Sequence[Loop], run: SizeLike) -> KernelCall:
    """The call that copies runs of `run` bytes by these loops, outermost first."""
    loops, run = merged(loops, run)
    short = run if isinstance(run, int) and run <= _SHORT else OPEN
    spec = NdCopy(len(loops), short, _picked_step(loops, run))
    operands: list[Operand] = [
        source,
        target,
        *(w for loop in loops for w in (loop.count, loop.source, loop.target)),
        run,
    ]
    return spec, operands


def layout_copy(
    source: Operand, target: Operand, loops: Sequence[Loop], run: int = 4
) -> KernelCall:
    """The call that lays out data for another kernel: that of `nd_copy`, with the two innermost
    loops in the better order. A loop that makes one run of its turns is innermost, or one whose
    turns are picked as vectors; otherwise the longer one.
    """

    def worth(loop: Loop) -> tuple[bool, bool, int]:
        most = loop.count if isinstance(loop.count, int) else _MANY
        neighbours = certainly(loop.source, run) and certainly(loop.target, run)
        picked = _picked_step([loop], run) != 1 and most * run >= _ROW
        return neighbours and most > 1, picked, most

    return nd_copy(source, target, [*loops[:-2], *sorted(loops[-2:], key=worth)], run)


def zeros(target: Operand, size: SizeLike) -> KernelCall:
    """The call that clears so many bytes."""
    return FillBytes(0)(value=0, target=target, count=size)
