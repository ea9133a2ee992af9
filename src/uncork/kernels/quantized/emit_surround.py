"""Kernel that copies rows of codes with a border, for windows that reach beyond the data."""

from __future__ import annotations

from collections.abc import Callable

from uncork.kernels.codegen.emit import I16, U8, U16, Kernel, Type, Value, emitter
from uncork.kernels.quantized.spec import Surround

#: Codes that are copied or written at a time; rows are whole words of codes.
_SIZES = (64, 16, 4)


@emitter
def emit_surround(k: Kernel, spec: Surround) -> None:
    """The LLVM text of the kernel."""
    a = k.named
    made: Type = I16 if spec.wide else U8
    size = made.bytes
    target = k.variable(a["target"])

    def made_of(count: Value, codes: Callable[[Value, int], Value]) -> None:
        """Write a number of codes, so many at a time from one on."""
        begin = target.get()
        done = k.variable(k.integer(0))
        for some in _SIZES:
            with k.loop(done.get(), count - (some - 1), some) as i:
                k.store(codes(i, some), begin + i * size)
                done.set(i + some)
        target.set(begin + count * size)

    def copied(source: Value, count: Value) -> None:
        def codes(i: Value, some: int) -> Value:
            found = k.load(source + i, U8, some)
            return found.to(U16).bits_as(I16) if spec.wide else found

        made_of(count, codes)

    def written(count: Value) -> None:
        """Write a number of codes of the border, which are of whole pixels."""
        if spec.each:
            with k.loop(0, count, a["pixel"]):
                copied(a["code"], a["pixel"])
        else:
            code = a["code"].to(made)
            made_of(count, lambda _, some: k.splat(code, some))

    row = a["left"] + a["copied"] + a["right"]
    below = a["rows"] - a["above"] - a["inside"]
    with k.loop(0, a["images"]) as image:
        written(row * a["above"])
        with k.loop(0, a["inside"]) as y:
            written(a["left"])
            copied(a["source"] + image * a["source_image"] + y * a["source_row"], a["copied"])
            written(a["right"])
        written(row * below)
