"""Floats of a byte as f16 in working memory: what is read is converted to f32 by one instruction,
what is in registers by two.

The codes of a word are widened by a multiplication for those at even places and another for those
at odd ones, so that numbers of both lie apart: vectors have every second number of two.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from uncork.kernels.codegen.emit import I8, I32, Kernel, Value
from uncork.kernels.compressed.emit_stored import Column, Decoder
from uncork.kernels.compressed.spec import HALVED, HALVED_BYTES
from uncork.kernels.gemm.microkernel_dots import small_products

#: Pairs of bytes that multiply codes: the product of the even ones by 128, or of the odd ones.
_EVEN, _ODD = 0x00800080, -0x7FFF8000
#: Bytes that are copied at once where no mask loads some.
_COPIED = 8


def over_halves(
    k: Kernel,
    decoder: Decoder,
    memory: Value,
    part: tuple[Value, Value],
    columns: Sequence[Column],
    ahead: Value,
    block: Callable[[Sequence[Column], Value, bool], None],
) -> None:
    """Call `block(columns, position, partly)` for the blocks of a part of the inner dimension,
    which begins with one, with columns whose codes lie as f16; those of the next block are
    written before, so that none is read at once. Codes so many bytes ahead are asked for.
    """
    begin, end = part
    whole = begin + (end - begin) // HALVED * HALVED

    def line(number: int, position: Value) -> Value:
        return memory + number * HALVED_BYTES + (position & HALVED) * 2

    def widen(position: Value, partly: bool = False) -> None:
        for number, column in enumerate(columns):
            target, place = line(number, position), column.codes + position
            if partly:
                place = _copied(k, place, end - position)
            else:
                k.prefetch(place + ahead)
            size = 4 * decoder.stored.lanes
            for first in range(0, HALVED, size):
                words = k.load(place + first, I32, decoder.stored.lanes)
                for odd, some in enumerate(halves_of(k, decoder.stored.element_type, words)):
                    k.store(some, target + (2 * first + odd * size))

    def multiply(position: Value, partly: bool = False) -> None:
        here = [decoder.loaded(column, position, HALVED) for column in columns]
        lying = [replace(c, codes=line(number, position)) for number, c in enumerate(here)]
        block(lying, position, partly)

    with k.if_(begin < whole):
        widen(begin)
        last = whole - HALVED
        with k.loop(begin, last, HALVED) as position:
            widen(position + HALVED)
            multiply(position)
        multiply(last)
    with k.if_(whole < end):
        widen(whole, partly=True)
        multiply(whole, partly=True)


def halves_of(k: Kernel, name: str, words: Value) -> tuple[Value, Value]:
    """The codes at even places of words, and those at odd ones, as bits of f16 of which
    `of_halves` makes what they stand for.
    """
    if name == "f8e5m2":  # the upper byte of f16
        return (words & 0x00FF00FF) << 8, words & -0x00FF0100
    # As in `as_halves`, by 128 in place of a shift.
    even, odd = (
        small_products(k, k.constant(pairs, I32, words.lanes), words) for pairs in (_EVEN, _ODD)
    )
    return even & ~0x4000, odd & ~0x4000


def _copied(k: Kernel, source: Value, count: Value) -> Value:
    """The address of a copy of so many bytes, with zeros behind them up to a block."""
    room = k.stack_bytes(HALVED)
    if k.target is not None and k.target.has("avx512bw"):
        k.store(k.load(source, I8, HALVED, k.lanes_below(count, HALVED)), room)
        return room
    k.store(k.constant(0, I8, HALVED), room)
    for at, lanes in k.vectors(count, _COPIED):
        k.store(k.load(source + at, I8, lanes), room + at)
    return room
