"""Copies, transposes and fills, divided among threads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import prod
from typing import cast

from msgspec.structs import replace

from uncork.kernels.extents import certainly, total
from uncork.kernels.kernel_plan import (
    In,
    KernelCall,
    KernelPlan,
    Operand,
    Out,
    Scratch,
    Stages,
    grid,
    shares,
    whole_shares,
)
from uncork.kernels.layer import staged
from uncork.kernels.movement.nd_copy import Loop
from uncork.kernels.movement.spec import FillBytes, TransposeBlocks
from uncork.kernels.runtime.target import LINE
from uncork.symbolic import Size, SizeLike

#: Fewer bytes are moved by one thread before another has begun.
_LEAST = 1 << 16
#: The first words of arguments that say how much a kernel moves.
_SIZES = ("bytes", "columns", "count", "rows", "run")
#: Outer loops that threads may share.
_SHARED = 3
#: Threads share a run by pieces of so many bytes, and a matrix by so many columns.
_PIECE, _COLUMNS = 4096, 16


def shared_moves(calls: Iterable[KernelCall], threads: int) -> Iterator[list[KernelCall]]:
    """The calls, one after the other, as stages in which so many threads share the large ones."""
    for call in calls:
        yield parted(call, threads) if threads > 1 and _is_large(call) else [call]


def shared_move(call: KernelCall, cost: float | Size) -> KernelPlan:
    """The plan of a move that threads share."""
    return staged(lambda threads: Stages([parted(call, threads)], 0), cost)


def _is_large(call: KernelCall) -> bool:
    spec, operands = call
    named = zip(spec.arguments, operands, strict=True)
    sizes = [size for name, size in named if name.partition("_")[0] in _SIZES]
    counted = [size for size in sizes if isinstance(size, int)]
    element = 4 if isinstance(spec, TransposeBlocks) else 1
    return len(counted) == len(sizes) and prod(counted) * element >= _LEAST


def parted(call: KernelCall, threads: int) -> list[KernelCall]:
    """The calls that a move is divided into, by parts of its outer loops; of the columns of its
    only matrix, or of its only run.
    """
    spec, operands = call
    if isinstance(spec, FillBytes):
        value, filled, size = operands
        return [
            (spec, [value, _moved(filled, first), count])
            for first, count in shares(cast("SizeLike", size), threads, LINE)
        ]
    source, target, *words = operands
    number = sum(name.startswith("count") for name in spec.arguments)
    rest = words[3 * number :]
    if not number:
        return [
            (spec, [_moved(source, first), _moved(target, first), count])
            for first, count in whole_shares(cast("SizeLike", words[0]), threads, _PIECE)
        ]
    loops = [Loop(*cast("list[SizeLike]", words[3 * n : 3 * n + 3])) for n in range(number)]
    if isinstance(spec, TransposeBlocks) and all(certainly(loop.count, 1) for loop in loops):
        *before, columns, apart = (cast("SizeLike", word) for word in words)
        block = max(spec.side, _COLUMNS)
        return [
            (spec, [_moved(source, first * 4), _moved(target, first * apart), *before, some, apart])
            for first, some in whole_shares(columns, threads, block)
        ]
    outer, inner = loops[:_SHARED], words[3 * _SHARED : 3 * number]
    result: list[KernelCall] = []
    for part in grid([(loop.count, 1) for loop in outer], threads):
        turns = list(zip(outer, part, strict=True))
        begin = total(first * loop.source for loop, (first, _) in turns)
        place = total(first * loop.target for loop, (first, _) in turns)
        some = [word for loop, (_, n) in turns for word in (n, loop.source, loop.target)]
        result.append((spec, [_moved(source, begin), _moved(target, place), *some, *inner, *rest]))
    return result


def _moved(operand: Operand, offset: SizeLike) -> Operand:
    """The address `offset` bytes behind an operand's."""
    if isinstance(operand, (In, Out, Scratch)):
        return replace(operand, offset=operand.offset + offset)
    assert isinstance(operand, int)
    return operand + offset
