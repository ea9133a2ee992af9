"""Copies of neighbouring bytes, of a size that only the call knows."""

from __future__ import annotations

from uncork.kernels.codegen.emit import I8, I32, Kernel, Type, Value


def copy_open(k: Kernel, source: Value | None, target: Value, size: Value) -> None:
    """Copy `size` bytes from `source` (None: zeros) to `target`; the two do not overlap. The last
    vector lies over the one before it.
    """

    def move(offset: Value, type_: Type, lanes: int = 1) -> None:
        value = (
            k.constant(0, type_, lanes) if source is None else k.load(source + offset, type_, lanes)
        )
        k.store(value, target + offset)

    def vectors(lanes: int) -> None:
        with k.loop(0, size, lanes) as offset:
            move(k.minimum(offset, size - lanes), I8, lanes)

    with k.if_else(size >= 64) as (long, other):
        with long:
            vectors(64)
        with other, k.if_else(size >= 16) as (middle, short):
            with middle:
                vectors(16)
            with short:
                words = size & -4
                with k.loop(0, words, 4) as offset:
                    move(offset, I32)
                with k.loop(words, size) as offset:
                    move(offset, I8)
