"""Copies and transposes that lay data out for other kernels, divided among threads: first memory is
cleared, then data are moved.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import prod

from msgspec.structs import replace

from uncork.kernels.kernel_plan import (
    LINE,
    In,
    KernelCall,
    Operand,
    Out,
    Scratch,
    grid,
    shares,
)
from uncork.kernels.kernel_spec import KernelSpec
from uncork.kernels.movement.spec import BLOCK_LOOPS, COPY_LOOPS, StridedCopy, TransposeBlocks
from uncork.symbolic import SizeLike

#: Fewer numbers are moved by one thread before another has begun.
_LEAST = 1 << 14
#: Operands before the loops, by the kernel.
_BEFORE: dict[type[KernelSpec], int] = {StridedCopy: 4, TransposeBlocks: 2}
_LOOPS: dict[type[KernelSpec], int] = {
    StridedCopy: COPY_LOOPS,
    TransposeBlocks: BLOCK_LOOPS,
}


def shared_moves(calls: Iterable[KernelCall], threads: int) -> Iterator[list[KernelCall]]:
    """The calls, one after the other, as stages in which so many threads share the large ones."""
    for call in calls:
        spec, operands = call
        if threads > 1 and isinstance(spec, StridedCopy) and _is_large(operands[3], 4):
            cleared, clear = operands[2:4]
            assert isinstance(clear, int)
            nothing = [0] * (3 * (COPY_LOOPS + 1))
            yield [
                (spec, [0, 0, _moved(cleared, first), count, *nothing])
                for first, count in shares(clear, threads, LINE)
            ]
            call = spec, [*operands[:2], 0, 0, *operands[4:]]
        if threads > 1 and isinstance(spec, (StridedCopy, TransposeBlocks)):
            yield _parts(call, threads)
        else:
            yield [call]


def _is_large(size: Operand, element: int) -> bool:
    return isinstance(size, int) and size >= _LEAST * element


def _parts(call: KernelCall, threads: int) -> list[KernelCall]:
    """The calls that a move is divided into, by parts of its outer loops."""
    spec, operands = call
    before, number = _BEFORE[type(spec)], _LOOPS[type(spec)]
    clears = before == 4 and not (isinstance(operands[3], int) and operands[3] == 0)
    loops = [operands[n : n + 3] for n in range(before, before + 3 * number, 3)]
    rest = operands[before + 3 * number :]
    sizes = [*(loop[0] for loop in loops), rest[0], *rest[2:3]]
    counted = [size for size in sizes if isinstance(size, int)]
    if clears or len(counted) < len(sizes) or not _is_large(prod(counted), 1):
        return [call]
    result: list[KernelCall] = []
    for part in grid([(count, 1) for count in counted[:number]], threads):
        source, target, *others = operands[:before]
        some: list[Operand] = []
        for (_, step, to), (first, count) in zip(loops, part, strict=True):
            source, target = _moved(source, _times(first, step)), _moved(target, _times(first, to))
            some += [count, step, to]
        result.append((spec, [source, target, *others, *some, *rest]))
    return result


def _times(first: SizeLike, step: Operand) -> SizeLike:
    assert not isinstance(step, (In, Out, Scratch))
    result: SizeLike = first * step  # type: ignore[operator]
    return result


def _moved(operand: Operand, offset: SizeLike) -> Operand:
    """The address `offset` bytes behind an operand's; an address of 0 stays 0."""
    if isinstance(operand, (In, Out, Scratch)):
        return replace(operand, offset=operand.offset + offset)
    assert isinstance(operand, int)
    return operand if operand == 0 else operand + offset
