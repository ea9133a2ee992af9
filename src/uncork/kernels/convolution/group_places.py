"""Where the channels of a group lie in blocks, which groups need not fill.

A group may begin within a block and end within another. Groups that lie alike have the same table
of taps and filters in the same order; lanes of a block that are another group's are not stored.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd, lcm

import numpy as np
from msgspec import Struct

from uncork.kernels.convolution.blocked_work import BlockedWork
from uncork.kernels.convolution.geometry import Geometry
from uncork.kernels.convolution.tiles import runs_of_sets
from uncork.kernels.runtime.packed_weights import arranged
from uncork.storage import encode
from uncork.types import Array, ElementType

#: The fewest channels of a step of the sums, for which finding its place in a table pays.
_LEAST_STEP = 2


class AlikeGroups(Struct, frozen=True):
    """Groups that lie alike: how many channels, and outputs, of their first blocks belong to groups
    before them, and in how many blocks of the result a group has outputs.
    """

    groups: range
    channels_before: int
    outputs_before: int
    blocks: int


class SetsOfOutputs(Struct, frozen=True):
    """Sets of blocks of the result that are computed one after the other, in each of some groups:
    the blocks of a set, the first block, counted from the group's first, and sets.
    """

    alike: AlikeGroups
    blocks: int
    first: int
    sets: int


def alike_groups(g: Geometry, inner: int, lanes: int) -> Iterator[AlikeGroups]:
    """The groups, by how they lie in blocks of `inner` channels and `lanes` outputs."""
    period = lcm(inner // gcd(g.channels, inner), lanes // gcd(g.outputs, lanes))
    for first in range(min(period, g.groups)):
        before = first * g.outputs % lanes
        yield AlikeGroups(
            range(first, g.groups, period),
            first * g.channels % inner,
            before,
            -(-(before + g.outputs) // lanes),
        )


def sets_of_outputs(work: BlockedWork, most: int) -> list[SetsOfOutputs]:
    """All outputs, in sets of at most so many blocks."""
    return [
        SetsOfOutputs(alike, *run)
        for alike in alike_groups(work.geometry, work.inner, work.lanes)
        for run in runs_of_sets(alike.blocks, most)
    ]


def lie_in_blocks(g: Geometry, inner: int, lanes: int) -> bool:
    """Whether groups are computed well over blocks that they do not fill: steps have channels
    enough, and most lanes are stored.
    """
    if gcd(g.channels, inner) < min(_LEAST_STEP, g.channels):
        return False
    computed = sum(alike.blocks * len(alike.groups) for alike in alike_groups(g, inner, lanes))
    return 2 * g.groups * g.outputs >= computed * lanes


def slices_of(work: BlockedWork, blocks: int, most: int) -> int:
    """In how many slices of the channels a set of so many blocks is computed, so that the filters
    of one take at most `most` bytes, or as few as they can: a slice is some whole blocks of data.
    """
    if work.step != work.inner:
        return 1
    g, steps = work.geometry, work.group_steps
    whole = steps * work.step * g.rows.taps * g.columns.taps * blocks * work.lanes * work.size
    fitting = (n for n in range(1, steps) if steps % n == 0 and whole <= n * most)
    return next(fitting, steps)


def of_sets(work: BlockedWork, run: SetsOfOutputs, numbers: Array) -> Array:
    """What belongs to some sets of `numbers [groups, outputs, ..]`: `[group, outputs of all sets,
    ..]`; zeros where a block has outputs of other groups.
    """
    groups, outputs = numbers.shape[:2]
    alike = run.alike
    own = numbers[alike.groups.start : groups : alike.groups.step]
    if alike.blocks * work.lanes > outputs:
        after = alike.blocks * work.lanes - outputs - alike.outputs_before
        around = [(0, 0), (alike.outputs_before, after), *[(0, 0)] * (own.ndim - 2)]
        own = np.pad(own, around)
    first = run.first * work.lanes
    return own[:, first : first + run.blocks * work.lanes * run.sets]


def packed_sets(work: BlockedWork, run: SetsOfOutputs, slices: int, filters: Array) -> Array:
    """The filters of some sets, or their codes: `[group, slice of a set, rows, step, columns,
    channels of a step, outputs of the set]`.
    """
    channels, taps, wide = filters.shape[2], filters.shape[3:], run.blocks * work.lanes
    some = of_sets(work, run, filters)
    steps = channels // work.step // slices
    apart = some.reshape(len(some), run.sets, wide, slices, steps, work.step, *taps)
    sets = apart.transpose(0, 1, 3, 6, 4, 7, 5, 2)
    sets = sets.reshape(len(some), run.sets * slices, *sets.shape[3:])
    return in_pairs(sets) if work.half else arranged(sets, sets.dtype.type)


def in_pairs(filters: Array) -> Array:
    """Filters `[.., channels, outputs]` as codes of bf16 `[.., channels / 2, outputs, 2]`, where a
    cache line begins: two channels of an output are a pair.
    """
    *others, channels, outputs = filters.shape
    pairs = np.swapaxes(filters.reshape(*others, channels // 2, 2, outputs), -1, -2)
    codes = encode(np.ascontiguousarray(pairs, np.float32), ElementType.bf16)
    return arranged(codes.reshape(filters.shape), np.uint16)
