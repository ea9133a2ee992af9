"""The emitter of the table of a length that only the call knows."""

from __future__ import annotations

import math

from uncork.kernels.codegen.doubles import sine_and_cosine
from uncork.kernels.codegen.emit import F32, F64, Kernel, Value, emitter
from uncork.kernels.fourier.spec import (
    FINE,
    HEAD,
    LARGEST_PRIME,
    PAIR,
    STEP,
    WORDS,
    WRITTEN,
    FourierTable,
)


@emitter
def emit_table(k: Kernel, spec: FourierTable) -> None:
    """The LLVM text of the kernel."""
    factored, rooted = _factored(k), _rooted(k)
    length, table = k.arguments
    k.stop_unless(length >= 1, k.integer(1))
    type_ = F64 if spec.size == F64.bytes else F32
    pair = 2 * spec.size
    fine = table + WORDS * 8
    chirp = fine + FINE * PAIR
    roots = chirp + length * pair

    def stored(real: Value, imaginary: Value, place: Value) -> None:
        k.store(real.to(type_), place)
        k.store(imaginary.to(type_), place + spec.size)

    padded = k.variable(length)
    rest = k.call(factored, [length, table])
    with k.if_(rest > 1):
        padded.set(_padded(k, length))
        k.call(factored, [padded.get(), table])
        with k.loop(0, length) as n:
            square = n * n
            twice = length * 2
            k.call(rooted, [square - square // twice * twice, twice, fine])
            stored(k.load(fine, F64), k.load(fine + 8, F64), chirp + n * pair)
    head = {
        "padded": padded.get(),
        "roots": roots,
        "chirp": k.select(rest > 1, chirp, k.integer(0)),
    }
    for name, word in head.items():
        k.store(word, table + HEAD.index(name) * 8)
    count = padded.get()
    with k.loop(0, k.minimum(count, k.integer(FINE))) as n:
        k.call(rooted, [n, count, fine + n * PAIR])
    own = k.stack_bytes(PAIR)
    with k.loop(0, count, FINE) as block:  # the root of block + n is that of the block times n's
        k.call(rooted, [block, count, own])
        a, b = k.load(own, F64), k.load(own + 8, F64)
        with k.loop(0, k.minimum(count - block, k.integer(FINE))) as n:
            c, d = (k.load(fine + n * PAIR + at, F64) for at in (0, 8))
            place = roots + (block + n) * pair
            stored(k.fma(-b, d, a * c), k.fma(a, d, b * c), place)


def _padded(k: Kernel, length: Value) -> Value:
    """The length in which two sequences of `length` are convolved; see `tables.padded_length`."""
    least = length * 2 - 1
    power = k.variable(k.integer(1))
    with k.while_(lambda: power.get() < least):
        power.set(power.get() * 2)
    three = (power.get() >> 2) * 3
    return k.select(three >= least, three, power.get())


def _factored(kernel: Kernel) -> Kernel:
    """A function (length, table) that writes the steps of a length and how many there are; it gives
    back what is left of the length, 1 where it has small factors.
    """
    k = Kernel("factored", ["length", "table"], inside=kernel)
    length, table = k.arguments
    left, together, count = (k.variable(v) for v in (length, k.integer(1), k.integer(0)))

    def divided(radix: Value) -> None:
        with k.while_(lambda: (left.get() // radix * radix).equals(left.get())):
            left.set(left.get() // radix)
            place = table + len(HEAD) * 8 + count.get() * (len(STEP) * 8)
            for index, word in enumerate((radix, left.get(), together.get())):
                k.store(word, place + index * 8)
            together.set(together.get() * radix)
            count.set(count.get() + 1)

    for written in WRITTEN:
        divided(k.integer(written))
    with k.if_(left.get() > 1), k.loop(7, LARGEST_PRIME + 1, 2) as radix:
        divided(radix)
    k.store(count.get(), table + HEAD.index("count") * 8)
    k.finish(left.get())
    return k


def _rooted(kernel: Kernel) -> Kernel:
    """A function (exponent, order, place) that stores exp(-2 pi i * exponent / order) in f64, for
    exponents from 0 up to the order: by the distance from the nearest multiple of a quarter, which
    is at most pi / 4, so that nothing is lost before the series.
    """
    k = Kernel("rooted", ["exponent", "order", "place"], inside=kernel)
    exponent, order, place = k.arguments
    octant = exponent * 8 // order
    rest = exponent * 8 - octant * order
    rest = k.select((octant & 1).equals(1), order - rest, rest)
    x = rest.to(F64) / order.to(F64) * (math.pi / 4)
    sine, cosine = sine_and_cosine(k, x)
    turned = ((octant + 1) >> 1 & 1).equals(1)
    sine, cosine = k.select(turned, cosine, sine), k.select(turned, sine, cosine)
    k.store(k.select(((octant + 2) >> 2 & 1).equals(1), -cosine, cosine), place)
    k.store(k.select((octant >> 2).equals(1), sine, -sine), place + 8)
    k.finish()
    return k
