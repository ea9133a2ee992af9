"""The inner loop of convolutions over blocks of channels of bf16 in AMX tiles: up to 16 pixels
times one or two vectors of outputs.

What a step sees of a pixel is a row of a tile, the pairs of a step a tile of filters.
"""

from __future__ import annotations

from collections.abc import Callable

from uncork.kernels.codegen.emit import Kernel, Value
from uncork.kernels.convolution.tiles import TileShape
from uncork.kernels.gemm import microkernel_amx as amx

#: Steps that take turns, with sums and a tile of pixels each.
_TURNS = 2


def _registers(shape: TileShape) -> amx.TileRegisters:
    return amx.TileRegisters(shape.blocks, turns=_TURNS, lanes=shape.lanes, words=shape.words)


def write_configuration(k: Kernel, address: Value, shape: TileShape) -> None:
    """Write the configuration of the tile registers for `summed_in_tiles`."""
    _registers(shape).write(k, address, k.integer(shape.width))


def summed_in_tiles(
    k: Kernel,
    shape: TileShape,
    a: dict[str, Value],
    step: Callable[[Value], tuple[Value, Value]],
) -> Callable[[int, int], Value]:
    """The sums of a pixel and a vector of outputs; the registers are configured for the shape."""
    registers, used = _registers(shape), shape.blocks
    apart = a["step"] if shape.step is None else k.integer(shape.step)
    of_pair = k.integer(used * registers.vector_bytes)
    registers.clear(k, 1, used)
    for index, number in enumerate(k.unrolled(a["count"], _TURNS)):
        source, filters = step(number)
        registers.add(k, [[source]], apart, filters, of_pair, used, index % _TURNS)
    room = k.stack_bytes(amx.SUMS_BYTES)
    registers.store(k, room, [k.integer(0)], used)
    return lambda pixel, o: registers.total(k, room, pixel, o, used)
