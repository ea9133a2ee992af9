"""The tables that tell direct convolutions over blocks where taps find their data and filters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from msgspec import Struct

from uncork.kernels.convolution.blocked_work import BlockedWork
from uncork.kernels.convolution.geometry import known
from uncork.kernels.convolution.group_places import SetsOfOutputs
from uncork.kernels.convolution.spec_blocks import ENTRY
from uncork.kernels.convolution.tap_regions import Region
from uncork.kernels.extents import is_known
from uncork.kernels.gemm.address_table import address_table_call
from uncork.kernels.kernel_plan import KernelCall, Operand, Scratch
from uncork.kernels.runtime.addresses import address_of
from uncork.symbolic import SizeLike
from uncork.types import Array


class LyingData(Struct, frozen=True):
    """How the data of a convolution lie: bytes from one block, plane and row to the next, and those
    of the working memory that they take.
    """

    block: SizeLike
    plane: SizeLike
    row: SizeLike
    scratch: SizeLike


class TapTables:
    """The tables of a convolution, one for each run of sets of outputs and each region: an entry a
    step of the sums, in the order planes, rows, channels, columns.

    Where only the call knows how the data lie, calls fill them, in the working memory behind the
    data.
    """

    def __init__(
        self,
        work: BlockedWork,
        runs: Sequence[SetsOfOutputs],
        slices: Sequence[int],
        together: int,
        lying: LyingData,
    ) -> None:
        self.work, self.g, self.lying = work, work.geometry, lying
        self.runs, self.slices = runs, slices
        #: Neighbouring taps of a row that are one step.
        self.together = together
        self._made: dict[tuple[object, ...], Array] = {}

    @property
    def arrays(self) -> list[Array]:
        """The tables that plans have asked for."""
        return list(self._made.values())

    @property
    def bytes(self) -> int:
        """Bytes of the tables that calls fill."""
        return 0 if is_known(self.lying.block) else self._before(len(self.runs))

    def _before(self, number: int) -> int:
        """Bytes of the tables that calls fill for the runs before this one."""
        taps = self.g.rows.taps * self.g.columns.taps
        return sum(self._entries(taps, n) for n in range(number)) * ENTRY

    def steps(self, number: int) -> int:
        """Steps over the channels of a slice, of the sets of a run."""
        return self.work.group_steps // self.slices[number]

    def entries(self, region: Region, number: int) -> int:
        """Entries of the table of a region, for a run of sets."""
        return self._entries(region.taps, number)

    def _entries(self, taps: int, number: int) -> int:
        return self.g.depth.taps * self.steps(number) * taps // self.together

    def _in_filters(self, number: int) -> tuple[int, int, int, int]:
        """Bytes from one plane of taps, row of taps, step over channels and column of taps to the
        next in the filters of a run.
        """
        tap = self.work.step * self.runs[number].blocks * self.work.lanes * self.work.size
        rows, columns = self.g.rows.taps, self.g.columns.taps
        row = self.steps(number) * columns * tap
        return rows * row, row, columns * tap, tap

    def _channels_of(self, run: SetsOfOutputs, step: int) -> SizeLike:
        """Bytes from the first block of a group's data to the channels of a step."""
        blocks, lane = divmod(run.alike.channels_before + step * self.work.step, self.work.inner)
        return blocks * self.lying.block + lane * self.work.size

    @property
    def _tap(self) -> tuple[SizeLike, SizeLike, int]:
        """Bytes from one plane, row, and column of taps to the next in the data."""
        g = self.g
        return (
            g.depth.dilation * self.lying.plane,
            g.rows.dilation * self.lying.row,
            g.columns.dilation * self.work.inner * self.work.size,
        )

    def place(self, region: Region, number: int) -> Operand:
        """Where the table of a region's taps is, for a run of sets; it counts from the first of
        these taps in the data.
        """
        run = self.runs[number]
        if not is_known(self.lying.block):
            return Scratch(self.lying.scratch + self._before(number))
        key = (region.row_taps, region.column_taps, run.blocks, run.alike.channels_before)
        if key not in self._made:
            self._made[key] = self._table(region, number)
        return address_of(self._made[key])

    def _table(self, region: Region, number: int) -> Array:
        steps, run = self.steps(number), self.runs[number]
        across = region.column_taps[1] // self.together
        counts = self.g.depth.taps, region.row_taps[1], steps, across
        planes, rows, channels, columns = np.indices(counts).reshape(4, -1)
        columns = columns * self.together
        places = np.array([known(self._channels_of(run, step)) for step in range(steps)])
        inward, down, right = (known(size) for size in self._tap)
        row, column = region.row_taps[0], region.column_taps[0]
        skipped = planes, rows + row, channels, columns + column
        words = [
            planes * inward + rows * down + places[channels] + columns * right,
            np.dot(self._in_filters(number), np.stack(skipped)),
        ]
        return np.ascontiguousarray(np.stack(words, 1).reshape(-1, 2), np.int64)

    def fill(self) -> Iterator[KernelCall]:
        """The calls that fill the tables where only the call knows sizes: for all steps together
        where each is a whole block, else step by step.
        """
        if is_known(self.lying.block):
            return
        g = self.g
        for number, run in enumerate(self.runs):
            steps, table = self.steps(number), self.lying.scratch + self._before(number)
            some_steps = steps if self.work.step == self.work.inner else 1
            across = g.columns.taps // self.together
            counts = g.depth.taps, g.rows.taps, some_steps, across
            step = across * ENTRY
            in_table = (g.rows.taps * steps * step, steps * step, step, ENTRY)
            inward, down, right = self._tap
            *outer, tap = self._in_filters(number)
            distances = (
                (inward, down, self.lying.block, right * self.together),
                (*outer, tap * self.together),
            )
            for first in range(0, steps, some_steps):
                begins = self._channels_of(run, first), first * distances[1][2]
                for word, (begin, some) in enumerate(zip(begins, distances, strict=True)):
                    place = Scratch(table + first * step + word * 8)
                    yield address_table_call(
                        place, begin, list(zip(counts, in_table, some, strict=True))
                    )
