"""The inner loop of convolutions over blocks of channels: pixels times blocks of outputs, held in
registers.

`sums[pixel][block] += number of a pixel * filters[number][block]`, for each step `inner` numbers of
every pixel. What a pixel sees of a step lies somewhere; what neighbouring pixels see lies at equal
distances.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from uncork.kernels.codegen.emit import F32, Kernel, Value

#: Bytes ahead at which filters are asked for, and of what is asked for at a time.
_AHEAD, _LINE = 1 << 14, 64
#: As many tiles ask for the filters of the next set of outputs, each for a part of them.
AHEAD_TILES = 4
#: Multiplications that a turn of the inner loop has at least: so many hide what a turn costs, and
#: more only take longer to compile.
_TURN = 48
#: Where the step's source and filters are, for the number of a step.
TapAddresses = Callable[[Kernel, Value, dict[str, Value]], "tuple[Value, Value]"]
#: What becomes of the sums: `end(kernel, pixel, block, sum, arguments)`.
EpilogueEmitter = Callable[[Kernel, int, int, Value, "dict[str, Value]"], None]


def tile(
    outer: Kernel,
    name: str,
    lanes: int,
    inner: int,
    blocks: int,
    width: int,
    step: int,
    arguments: Sequence[str],
    places: TapAddresses,
    end: EpilogueEmitter,
    ahead: bool = False,
) -> Kernel:
    """A function that sums up the products of `count` steps, an argument, for `width` pixels that
    see what lies `step` bytes apart.

    With `ahead` it asks for filters from the argument "ahead" on, a part of as many as it reads;
    else for those that it will soon read itself.
    """
    k = Kernel(name, ["count", *arguments], inside=outer)
    a = dict(zip(["count", *arguments], k.arguments))
    sums = {
        (p, o): k.variable(k.constant(0.0, F32, lanes)) for p in range(width) for o in range(blocks)
    }
    unrolled = _unrolled(inner, width * blocks)
    with k.loop(0, a["count"]) as number:
        source, filters = places(k, number, a)
        # In a block of code of its own, under a condition that nothing can fold: so it is scheduled
        # apart, and sums stay in registers.
        with k.if_(number < a["count"] - 1):
            whole = inner * blocks * lanes * 4
            if ahead:
                for offset in range(0, whole // AHEAD_TILES, _LINE):
                    k.prefetch(a["ahead"] + number * (whole // AHEAD_TILES) + offset, near=False)
            else:
                for offset in range(0, whole, _LINE):
                    k.prefetch(filters + (offset + _AHEAD))
        with k.loop(0, inner, unrolled) as first:
            seen, weighed = source + first * 4, filters + first * (blocks * lanes * 4)
            for i in range(unrolled):
                weights = [
                    k.load(weighed + (i * blocks + o) * lanes * 4, F32, lanes)
                    for o in range(blocks)
                ]
                for p in range(width):
                    cell = k.splat(k.load(seen + (p * step + 4 * i), F32), lanes)
                    for o in range(blocks):
                        sums[p, o].set(k.fma(cell, weights[o], sums[p, o].get()))
    for o in range(blocks):
        for p in range(width):
            end(k, p, o, sums[p, o].get(), a)
    k.finish()
    return k


def _unrolled(inner: int, width: int) -> int:
    """How many of `inner` numbers, each with `width` multiplications, a turn of the loop has."""
    return next(
        n for n in range(1, inner + 1) if inner % n == 0 and (n * width >= _TURN or n == inner)
    )
