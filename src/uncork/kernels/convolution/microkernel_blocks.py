"""The inner loop of convolutions over blocks of channels: pixels times blocks of outputs, held in
registers.

`sums[pixel][block] += number of a pixel * filters[number][block]`, for each step `inner` numbers of
every pixel. What a pixel sees of a step lies somewhere; what neighbouring pixels see lies at equal
distances.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from uncork.kernels.codegen.emit import F32, I32, Kernel, Value
from uncork.kernels.convolution.microkernel_blocks_amx import summed_in_tiles
from uncork.kernels.convolution.tiles import TileShape
from uncork.kernels.runtime.target import LINE

#: Bytes ahead at which filters are asked for.
AHEAD = 1 << 14
#: Bytes that are asked for in a turn of a loop.
_TURN_OF_PREFETCHES = 8 * LINE
#: As many tiles ask for the filters of the next set of outputs, each for a part of them.
AHEAD_TILES = 4
#: Multiplications that a turn of the inner loop has at least: so many hide what a turn costs, and
#: more only take longer to compile.
_TURN = 48
#: Multiplications of vectors that a tile makes after it has asked for data and before it sees them:
#: so many take longer than reading from the second cache.
_AHEAD_OF_DATA = 384
#: Where the step's source and filters are, for the number of a step.
TapAddresses = Callable[[Kernel, Value, dict[str, Value]], "tuple[Value, Value]"]
#: Pixels whose addresses are told by one address and one or two steps, which is how processors add
#: them for nothing.
_TOGETHER = 3
#: What becomes of the sums: `end(kernel, pixel, block, sum, arguments)`.
EpilogueEmitter = Callable[[Kernel, int, int, Value, "dict[str, Value]"], None]


def tile(
    outer: Kernel,
    name: str,
    shape: TileShape,
    arguments: Sequence[str],
    places: TapAddresses,
    end: EpilogueEmitter,
    begun: Callable[[Kernel, int, int, dict[str, Value]], Value] | None = None,
    beside: Callable[[Kernel, Value, dict[str, Value]], None] | None = None,
) -> Kernel:
    """A function that sums up the products of `count` steps, an argument, and what sums begin with
    where that is `begun(kernel, pixel, block, arguments)` and not 0.

    It asks for filters that it will soon read or, where there is an argument "ahead" that is not 0,
    for those from there on, a part of as many as it reads. Where what steps see lies anywhere, it
    asks for what the coming ones see. With each step it calls `beside(kernel, number of the step,
    arguments)`, which asks for other memory.
    """
    k = Kernel(name, ["count", *arguments], inside=outer)
    a = dict(zip(["count", *arguments], k.arguments, strict=True))

    def step(number: Value) -> tuple[Value, Value]:
        """Where the source and the filters of a step are, after what is read soon was asked for."""
        source, filters = places(k, number, a)
        # In a block of code of its own, under a condition that nothing can fold: so it is scheduled
        # apart, and sums stay in registers.
        with k.if_(number < a["count"] - 1):
            whole = shape.words * shape.blocks * shape.lanes * 4
            coming = shape.inner * shape.blocks * shape.lanes * shape.stored_bytes or whole
            _prefetch(k, filters, number, a.get("ahead"), whole, coming)
            if beside:
                beside(k, number, a)
        return source, filters

    def soon(number: Value) -> Value:
        """Where what is seen lies for a step that comes some steps later."""
        later = k.minimum(number + _steps_ahead(shape), a["count"] - 1)
        return places(k, later, a)[0]

    sums = (
        summed_in_tiles(k, shape, a, step) if shape.amx else _summed(k, shape, a, step, soon, begun)
    )
    for o in range(shape.blocks):
        for p in range(shape.width):
            end(k, p, o, sums(p, o), a)
    k.finish()
    return k


def _summed(
    k: Kernel,
    shape: TileShape,
    a: dict[str, Value],
    step: Callable[[Value], tuple[Value, Value]],
    soon: Callable[[Value], Value],
    begun: Callable[[Kernel, int, int, dict[str, Value]], Value] | None,
) -> Callable[[int, int], Value]:
    """The sums of a pixel and a vector of outputs, in vector registers."""
    lanes, blocks, width, pairs = shape.lanes, shape.blocks, shape.width, shape.pairs
    apart = a["step"] if shape.step is None else shape.step
    inner = shape.words
    type_ = I32 if pairs else F32
    sums = {
        (p, o): k.variable(begun(k, p, o, a) if begun else k.constant(0.0, F32, lanes))
        for p in range(width)
        for o in range(blocks)
    }
    unrolled = _unrolled(inner, width * blocks)
    pixels_of_line = max(1, LINE // (inner * 4))
    # A part of the lines with each turn: all at once they take what reads lines for other data.
    of_turn, at_first = divmod(-(-width // pixels_of_line), inner // unrolled)
    with k.loop(0, a["count"]) as number:
        source, filters = step(number)
        pixels = _pixels(k, source, width, apart)
        coming = (
            None
            if isinstance(apart, int)
            else _ComingLines(k, soon(number), apart * pixels_of_line)
        )
        if coming:
            coming.ask(at_first)
        with k.loop(0, inner, unrolled) as first:
            if coming:
                coming.ask(of_turn)
            seen = [pixel + first * 4 for pixel in pixels]
            weighed = filters + first * (blocks * lanes * 4)
            for i in range(unrolled):
                weights = [
                    k.load(weighed + (i * blocks + o) * lanes * 4, type_, lanes)
                    for o in range(blocks)
                ]
                for p in range(width):
                    address = _pixel(seen, p, apart) + 4 * i
                    cell = k.splat(k.load(address, type_), lanes)
                    for o in range(blocks):
                        total = sums[p, o].get()
                        sums[p, o].set(
                            k.dot_pairs(total, cell, weights[o])
                            if pairs
                            else k.fma(cell, weights[o], total)
                        )
    return lambda p, o: sums[p, o].get()


def _prefetch(
    k: Kernel, filters: Value, number: Value, ahead: Value | None, whole: int, coming: int
) -> None:
    """Ask for filters, of which a step has `whole` bytes, and `coming` ones of those ahead."""
    soon = filters + AHEAD
    if ahead is None:
        _prefetch_each(k, soon, whole, near=True)
        return
    part = coming // AHEAD_TILES
    k.either(
        ahead.equals(0),
        lambda: _prefetch_each(k, soon, whole, near=True),
        lambda: _prefetch_each(k, ahead + number * part, part, near=False),
    )


class _ComingLines:
    """Lines of a cache that will soon be read, `apart` bytes from each other."""

    def __init__(self, k: Kernel, first: Value, apart: Value) -> None:
        self.k, self.apart = k, apart
        self.next = k.variable(first)

    def ask(self, count: int) -> None:
        """Ask for the next ones."""
        for _ in range(count):
            self.k.prefetch(self.next.get())
            self.next.set(self.next.get() + self.apart)


def _prefetch_each(k: Kernel, first: Value, size: int, near: bool) -> None:
    turn = next(n for n in (_TURN_OF_PREFETCHES, size) if size % n == 0)
    with k.loop(0, size, turn) as begin:
        for offset in range(0, turn, LINE):
            k.prefetch(first + begin + offset, near)


def _pixels(k: Kernel, source: Value, width: int, step: int | Value) -> list[Value]:
    """The addresses from which those of all pixels are told."""
    if isinstance(step, int):
        return [source]
    return [source + step * p if p else source for p in range(0, width, _TOGETHER)]


def _pixel(seen: Sequence[Value], pixel: int, step: int | Value) -> Value:
    """The address of a pixel."""
    if isinstance(step, int):
        return seen[0] + pixel * step
    rest = pixel % _TOGETHER
    return seen[pixel // _TOGETHER] + step * rest if rest else seen[pixel // _TOGETHER]


def _steps_ahead(shape: TileShape) -> int:
    """How many steps before it is seen data are asked for."""
    return -(-_AHEAD_OF_DATA // (shape.words * shape.width * shape.blocks))


def _unrolled(inner: int, width: int) -> int:
    """How many of `inner` numbers, each with `width` multiplications, a turn of the loop has."""
    return next(
        n for n in range(1, inner + 1) if inner % n == 0 and (n * width >= _TURN or n == inner)
    )
