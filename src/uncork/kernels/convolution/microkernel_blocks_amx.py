"""The inner loop of convolutions over blocks of channels of bf16 in AMX tiles: up to 16 pixels
times one or two vectors of outputs.

What a step sees of a pixel is a row of a tile, the pairs of a step a tile of filters. Steps take
turns with two tiles of sums for each vector, since a product waits for the one before it.
"""

from __future__ import annotations

from collections.abc import Callable

from uncork.kernels.codegen.emit import F32, Kernel, Value
from uncork.kernels.convolution.tiles import TileShape
from uncork.kernels.gemm import microkernel_amx as amx

#: Steps that take turns, with sums and a tile of pixels each.
_TURNS = 2
#: The most vectors of outputs, each with a tile of filters.
_VECTORS = 2
_PIXELS = _TURNS * _VECTORS
_FILTERS = _PIXELS + _TURNS


def write_configuration(k: Kernel, address: Value, shape: TileShape) -> None:
    """Write the configuration of the tile registers for `summed_in_tiles`."""
    width, outputs, pairs = k.integer(shape.width), shape.lanes * F32.bytes, shape.inner // 2
    sums = [(width, outputs)] * _PIXELS
    pixels = [(width, shape.inner * 2)] * _TURNS
    filters = [(k.integer(pairs), outputs)] * (amx.REGISTERS - _FILTERS)
    amx.write_configuration(k, address, [*sums, *pixels, *filters])


def summed_in_tiles(
    k: Kernel,
    shape: TileShape,
    a: dict[str, Value],
    step: Callable[[Value], tuple[Value, Value]],
) -> Callable[[int, int], Value]:
    """The sums of a pixel and a vector of outputs; the registers are configured for the shape."""
    apart = a["step"] if shape.step is None else k.integer(shape.step)
    vector = shape.lanes * F32.bytes
    of_pair = k.integer(shape.blocks * vector)

    used = [(turn, o) for turn in range(_TURNS) for o in range(shape.blocks)]
    for turn, o in used:
        amx.clear(k, turn * _VECTORS + o)
    for index, number in enumerate(k.unrolled(a["count"], _TURNS)):
        turn = index % _TURNS
        source, filters = step(number)
        amx.load(k, _PIXELS + turn, source, apart)
        for o in range(shape.blocks):
            amx.load(k, _FILTERS + o, filters + o * vector, of_pair)
            amx.add_product(k, turn * _VECTORS + o, _PIXELS + turn, _FILTERS + o)
    room = k.stack_bytes(len(used) * amx.ROWS * vector)
    for place, (turn, o) in enumerate(used):
        amx.store(k, turn * _VECTORS + o, room + place * amx.ROWS * vector, k.integer(vector))

    def sums(pixel: int, o: int) -> Value:
        first, second = (
            k.load(room + ((turn * shape.blocks + o) * amx.ROWS + pixel) * vector, F32, shape.lanes)
            for turn in range(_TURNS)
        )
        return first + second

    return sums
