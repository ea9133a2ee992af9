"""Filters that are stored in few bits, as direct convolutions over blocks of channels read them:
their codes lie set by set, as filters of f32 would, and those of a set, or of a slice of one, are
decoded into working memory before all of its pixels are computed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from uncork.internal_ops.decompression import numbers_of
from uncork.internal_ops.stored_filters import StoredFilters
from uncork.kernels.compressed.form import laid_out_book, stored_of
from uncork.kernels.convolution.blocked_work import BlockedWork
from uncork.kernels.convolution.group_places import SetsOfOutputs, of_sets
from uncork.kernels.runtime.packed_weights import PackedWeights, arranged, packed
from uncork.kernels.runtime.target import Target
from uncork.kernels.stored_form import Stored
from uncork.types import Array

#: The type in which zero points and scales of outputs lie, one after the other.
_KIND = "f32"


def decodes(work: BlockedWork) -> bool:
    """Whether filters stay as they are stored, and are decoded in calls: all but those that are
    multiplied as bf16. However few pixels meet a number, what is decoded takes less time than the
    bytes of f32 that are not read.
    """
    filters = work.filters.held
    return isinstance(filters, StoredFilters) and not work.half


def form_of(work: BlockedWork, vector: int, target: Target) -> Stored:
    """How kernels see the filters, with vectors of so many outputs."""
    filters = work.filters.held
    assert isinstance(filters, StoredFilters)
    form = stored_of(filters.matrix, target)
    return replace(
        form,
        lanes=vector,
        zeros=_KIND if form.zeros else "",
        scales=_KIND if form.scales else "",
        later=tuple(replace(step, kind=_KIND) for step in form.later),
        factored=False,
    )


class StepsOfSets(Struct, frozen=True):
    """What is done with the codes of each run of sets: zero points and scales
    `[group, set, operand, outputs of the set]`, f32; and the numbers of a table, if there is one.
    """

    operands: PackedWeights
    numbers: Array

    @staticmethod
    def of(work: BlockedWork, runs: Sequence[SetsOfOutputs]) -> StepsOfSets:
        filters = work.filters.held
        assert isinstance(filters, StoredFilters)
        matrix = filters.matrix
        g = work.geometry

        def made() -> list[Array]:
            outputs = [
                np.broadcast_to(numbers_of(operand)[:, 0], g.groups * g.outputs)
                for operand in matrix.operands
            ]
            return [
                _in_sets(work, run, [each.reshape(g.groups, g.outputs) for each in outputs])
                for run in runs
            ]

        how = ("steps of filters", g.weights, work.inner, work.lanes, *(run.blocks for run in runs))
        table = np.zeros(0, np.uint8) if matrix.numbers is None else laid_out_book(matrix.numbers)
        return StepsOfSets(packed(filters.sources, how, made), table)


def _in_sets(work: BlockedWork, run: SetsOfOutputs, operands: Sequence[Array]) -> Array:
    wide = run.blocks * work.lanes
    lying = [of_sets(work, run, operand) for operand in operands]
    if not lying:
        return np.zeros((len(run.alike.groups), run.sets, 0, wide), np.float32)
    return arranged(np.stack([each.reshape(len(each), run.sets, wide) for each in lying], axis=2))
