"""Rounding to codes and back, in registers.

The numbers of a grid lie in memory, in the order of `GRID_NUMBERS`.
"""

from __future__ import annotations

from typing import Union

from msgspec import Struct

from uncork.kernels.codegen.emit import F32, I32, U8, Kernel, Value

#: What makes codes of numbers (a factor, an addend), the least and the largest code, what makes
#: numbers of codes (a step, the first level).
GRID_NUMBERS = ("factor", "addend", "least", "most", "step", "low")
#: 1.5 * 2^23: a number below 2^22 that is added to it is rounded to a whole one, half to even,
#: which its last bits then are.
_ROUNDING = 12582912.0


class OfChannels(Struct, frozen=True):
    """The numbers of a grid that has them for each channel: they `begin` with those of a channel
    and its neighbours, and follow each other after `line` bytes. Lanes are neighbours (`along`), or
    all of that channel.
    """

    begin: Value
    line: Value
    along: bool


#: Where the numbers of a grid lie.
Numbers = Union[Value, OfChannels]


def number(k: Kernel, numbers: Numbers, name: str, lanes: int) -> Value:
    """One of a grid's numbers, in every lane that it is for."""
    index = GRID_NUMBERS.index(name)
    if not isinstance(numbers, OfChannels):
        return k.splat(k.load(numbers + 4 * index, F32), lanes)
    place = numbers.begin + numbers.line * index
    return k.load(place, F32, lanes) if numbers.along else k.splat(k.load(place, F32), lanes)


class Guard:
    """Whether any value that was to be rounded was NaN."""

    def __init__(self, k: Kernel) -> None:
        self.k, self.seen = k, k.variable(k.integer(0))

    def look(self, value: Value) -> None:
        """Remember whether any lane of a value is NaN."""
        k = self.k
        fine = value.equals(value)
        bits = k.bits_of(fine) if value.lanes > 1 else k.select(fine, k.integer(1), k.integer(0))
        self.seen.set(self.seen.get() | (bits ^ ((1 << value.lanes) - 1)))

    def stop(self) -> None:
        """Stop the kernel if any value was NaN."""
        self.k.stop_unless(self.seen.get().equals(0), self.k.integer(1))


def kept(k: Kernel, value: Value, numbers: Numbers, rescaled: bool = True) -> Value:
    """The value clamped to the levels, in steps from the first level. With `rescaled` it is first
    converted to such steps.
    """
    lanes = value.lanes
    if rescaled:
        value = k.fma(
            value, number(k, numbers, "factor", lanes), number(k, numbers, "addend", lanes)
        )
    least, most = number(k, numbers, "least", lanes), number(k, numbers, "most", lanes)
    value = k.select(value > least, value, least)
    return k.select(value < most, value, most)


def to_word(k: Kernel, steps: Value) -> Value:
    """A number of steps, within the levels, as 32 bits of which the last byte is the code."""
    return (steps + _ROUNDING).bits_as(I32)


def to_grid(k: Kernel, value: Value, numbers: Value) -> Value:
    """The number that the code of a value stands for: FakeQuantize."""
    code = (kept(k, value, numbers) + _ROUNDING) - _ROUNDING
    lanes = value.lanes
    return k.fma(code, number(k, numbers, "step", lanes), number(k, numbers, "low", lanes))


def from_codes(k: Kernel, address: Value, numbers: Numbers, lanes: int) -> Value:
    """The numbers that codes in memory stand for."""
    codes = k.load(address, U8, lanes).to(I32).to(F32)
    return k.fma(codes, number(k, numbers, "step", lanes), number(k, numbers, "low", lanes))
