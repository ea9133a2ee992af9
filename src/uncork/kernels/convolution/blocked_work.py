"""The description of a convolution over data in blocks of channels, from which its kernels are
made.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from typing import Union

import numpy as np
from msgspec import Struct

from uncork.internal_ops.stored_filters import StoredFilters
from uncork.kernels.convolution.geometry import Geometry
from uncork.kernels.convolution.phases import Phase
from uncork.kernels.convolution.spec_blocks import number_size
from uncork.kernels.epilogue import Epilogue
from uncork.symbolic import SizeLike
from uncork.types import Array

#: Rough products in a nanosecond, per lane of a vector.
RATE = 6.0


class Filters(Struct, frozen=True):
    """The filters of a convolution of this geometry, as the model has them: numbers of f32, or
    stored in fewer bits.
    """

    geometry: Geometry
    held: Union[Array, StoredFilters]
    #: They are those of a transposed convolution: channels before outputs, taps the other way
    #: round.
    transposed: bool = False
    #: The phases that see only some of the taps.
    phases: Sequence[Phase] = ()

    @property
    def sources(self) -> list[Array]:
        """The arrays that they are made of."""
        return self.held.sources if isinstance(self.held, StoredFilters) else [self.held]

    def values(self) -> Array:
        """The numbers in f32, `[groups, outputs, channels, rows, columns]`."""
        held = self.held
        return self._ordered(held.values() if isinstance(held, StoredFilters) else held)

    def codes(self) -> Array:
        """The codes of stored ones, in the same order."""
        assert isinstance(self.held, StoredFilters)
        return self._ordered(self.held.codes())

    def _ordered(self, filters: Array) -> Array:
        g = self.geometry
        taps = [axis.taps for axis in g.axes]
        if self.transposed:
            turned = filters.reshape(g.groups, g.channels, g.outputs, *taps)
            filters = np.flip(np.swapaxes(turned, 1, 2), (3, 4, 5))
        ordered = filters.reshape(g.groups, g.outputs, g.channels, *taps)
        for axis, phase in enumerate(self.phases, ordered.ndim - len(self.phases)):
            ordered = np.take(ordered, phase.taps, axis)
        *outer, depth, rows, columns = ordered.shape
        return np.ascontiguousarray(ordered.reshape(*outer, depth * rows, columns))


class BlockedWork(Struct, frozen=True):
    """A convolution over blocks of `inner` channels of the data and `lanes` channels of the result,
    with its epilogue.
    """

    geometry: Geometry
    filters: Filters
    inner: int
    lanes: int
    end: Epilogue
    #: What the operands of the epilogue are: inputs, or numbers in memory.
    others: Sequence[int | Array]
    #: What tells the filters from others of the same source and sizes.
    kind: tuple[object, ...] = ()
    #: Data and result are bf16.
    half: bool = False
    #: The whole of which this is a part, of the phases of its filters.
    part_of: Union[Geometry, None] = None

    @property
    def whole(self) -> Geometry:
        """The geometry of the whole result."""
        return self.part_of or self.geometry

    @property
    def size(self) -> int:
        """Bytes of a number of the data and the result."""
        return number_size(self.half)

    @property
    def channels(self) -> int:
        """Blocks of the data."""
        return self.geometry.groups * self.geometry.channels // self.inner

    @property
    def numbers(self) -> list[object]:
        """Numbers in memory that calls read: they are to be kept."""
        return [other for other in self.others if not isinstance(other, int)]

    @property
    def step(self) -> int:
        """The channels of a step of the sums: as many as lie in one block together, wherever a
        group begins.
        """
        return gcd(self.geometry.channels, self.inner)

    @property
    def group_steps(self) -> int:
        """Steps over the channels of a group."""
        return self.geometry.channels // self.step

    @property
    def outputs(self) -> int:
        """Blocks of the result."""
        return self.geometry.groups * self.geometry.outputs // self.lanes

    @property
    def result_image(self) -> SizeLike:
        """Bytes of an image of the result."""
        return self.outputs * self.whole.pixels * self.lanes * self.size

    @property
    def cost(self) -> float:
        """The rough cost of a pixel of the result, in nanoseconds."""
        g = self.geometry
        return g.groups * g.outputs * g.inner / (RATE * self.lanes * (2 if self.half else 1))
