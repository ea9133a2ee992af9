"""Copies of neighbouring bytes, of a size that only the call knows."""

from __future__ import annotations

from uncork.kernels.codegen.emit import F32, I8, I32, Kernel, Type, Value

#: Bytes that a turn of a loop copies.
COPIED_AT_ONCE = 256
#: From so many bytes on whole lines of the target are written.
_LONG = 2048


def copy_open(k: Kernel, source: Value | None, target: Value, size: Value) -> None:
    """Copy `size` bytes from `source` (None: zeros) to `target`; the two do not overlap. The last
    vector lies over the one before it.
    """

    def move(offset: Value, type_: Type, lanes: int = 1) -> None:
        value = (
            k.constant(0, type_, lanes) if source is None else k.load(source + offset, type_, lanes)
        )
        k.store(value, target + offset)

    def vectors(lanes: int, first: Value) -> None:
        with k.loop(first, size, lanes) as offset:
            move(k.minimum(offset, size - lanes), I8, lanes)

    def many() -> None:
        done = k.variable(k.integer(0))
        with k.loop(0, size - (COPIED_AT_ONCE - 1), COPIED_AT_ONCE) as offset:
            for byte in range(0, COPIED_AT_ONCE, 64):
                move(offset + byte, I8, 64)
            done.set(offset + COPIED_AT_ONCE)
        vectors(64, done.get())

    with k.if_else(size >= 64) as (long, other):
        with long:
            k.either(size >= _LONG, lambda: copy_long(k, source, target, size), many)
        with other, k.if_else(size >= 16) as (middle, short):
            with middle:
                vectors(16, k.integer(0))
            with short:
                words = size & -4
                with k.loop(0, words, 4) as offset:
                    move(offset, I32)
                with k.loop(words, size) as offset:
                    move(offset, I8)


def copy_long(k: Kernel, source: Value | None, target: Value, size: int | Value) -> None:
    """Copy at least 64 bytes, by whole lines of the target but for the first and the last vector:
    bytes that these share with their neighbours are written twice.
    """

    def lines(offset: Value | int, count: int) -> None:
        for byte in range(0, count, 64):
            value = (
                k.constant(0.0, F32, 16)
                if source is None
                else k.load(source + offset + byte, F32, 16)
            )
            k.store(value, target + offset + byte)

    lines(0, 64)
    done = k.variable(-(target & 63) + 64)
    for step in (COPIED_AT_ONCE, 64):
        with k.loop(done.get(), size - (step - 1), step) as offset:
            lines(offset, step)
            done.set(offset + step)
    lines(size - 64, 64)
