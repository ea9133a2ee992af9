"""Outputs of a step whose sizes only the step tells: they go to memory that grows, and a step
behind it, which knows the sizes, makes the outputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from uncork.kernels.runtime.addresses import native_function
from uncork.kernels.runtime.segment_plan import BufferAddress, Slot
from uncork.symbolic import Size, Symbol
from uncork.types import TensorSpec


class FoundPlaces(Struct, frozen=True):
    """Where a step puts what it finds: the slots of sizes, by output and axis, and by output where
    the address of its room goes, which is in this `buffer`.
    """

    slots: Mapping[tuple[int, int], Slot]
    rooms: Mapping[int, BufferAddress]
    buffer: int


def found_axes(
    outputs: Sequence[TensorSpec], found: Sequence[Symbol]
) -> Mapping[int, Mapping[int, Symbol]] | None:
    """By output and by axis, the sizes that a step is to find; None where an output has another
    size that is made of these, or one of these is no size.
    """
    result: dict[int, dict[int, Symbol]] = {}
    for symbol in found:
        if symbol.origin.is_element:
            return None
        result.setdefault(symbol.origin.output, {})[symbol.origin.position] = symbol
    symbols = {*found}
    for port, spec in enumerate(outputs):
        for axis, dim in enumerate(spec.shape.dims):
            own = result.get(port, {}).get(axis)
            is_size = isinstance(dim.size, Size)
            if own is not None and not (is_size and dim.size == Size.of(own)):
                return None  # also where it is a number by now
            if own is None and isinstance(dim.size, Size) and dim.size.symbols & symbols:
                return None
    return result


#: The function that makes an output of the parts in a room.
JOINING = native_function("join", "uncork.kernels.runtime.emit_rooms:emit_join")
