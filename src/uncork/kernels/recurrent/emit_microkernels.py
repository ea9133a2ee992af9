"""The microkernels of a sequence: in vectors or in AMX tiles, over all panels, by one thread or by
a team.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from uncork.kernels.codegen.emit import Kernel, Value
from uncork.kernels.codegen.thread_team import ThreadTeam
from uncork.kernels.gemm import microkernel_amx as tiles
from uncork.kernels.gemm.microkernel import EpilogueEmitter, Microkernel, RegisterTile
from uncork.kernels.recurrent.emit_frame import Frame

#: Rows of a step whose activations are computed together: of one row alone each step waits for the
#: one before.
_TOGETHER = 4


class Microkernels:
    """A maker of microkernels that end in different ways."""

    def __init__(self, frame: Frame) -> None:
        self.k, self.spec, self.number = frame.k, frame.spec, frame.type
        self.layout = tiles.TileRegisters(frame.gate_vectors, frame.spec.parts)

    def make(
        self, name: str, vectors: int, extra: Sequence[str], end: EpilogueEmitter
    ) -> Microkernel | tiles.TileMicrokernel:
        if self.spec.tiles == "all" or (self.spec.tiles and name == "products"):
            return tiles.TileMicrokernel(self.k, name, self.layout, vectors, extra, end)
        tile = RegisterTile(
            self.spec.lanes,
            vectors,
            self.number,
            pairs=self.spec.parts > 0,
            alike=self.spec.alike,
            together=_TOGETHER,
            streams=self.spec.streams,
        )
        return Microkernel(self.k, name, tile, extra, end)


def each(
    k: Kernel,
    count: Value,
    do: Callable[[Value], None],
    team: ThreadTeam | None,
    backwards: Value | None = None,
) -> None:
    """Run items 0 to `count`, by this thread or by the team."""
    if team is not None:
        team.phase(count, do, backwards)
        return
    with k.loop(0, count) as i:
        do(i if backwards is None else k.select(backwards, count - 1 - i, i))
