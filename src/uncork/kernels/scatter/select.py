"""Selection of kernels at places that indices name: ScatterUpdate, ScatterElementsUpdate,
ScatterNDUpdate, GatherElements, GatherND.

The scattering operations copy their data first. A reduction of f16 or bf16 is held in f32 meanwhile
and rounded once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Union

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from uncork.internal_ops.scattered_rows import ScatteredRows
from uncork.kernels.extents import (
    certainly,
    decline_if,
    extents,
    nanoseconds,
    product,
    same_extents,
)
from uncork.kernels.kernel_plan import (
    In,
    KernelCall,
    KernelPlan,
    Operand,
    Out,
    Scratch,
    Selection,
    Stages,
    grid,
)
from uncork.kernels.kernel_spec import OPEN
from uncork.kernels.layer import Layer, shared_call, staged
from uncork.kernels.movement.nd_copy import Loop, merged, strides
from uncork.kernels.runtime.addresses import address_of
from uncork.kernels.scatter.reduction import Joining, copied, reduction_of
from uncork.kernels.scatter.spec import Action, Elements, Tuples
from uncork.kernels.stored_types import element_bytes
from uncork.ops._common.indices import normalised_axis
from uncork.ops.gather_elements import GatherElements6
from uncork.ops.gather_nd import GatherND8
from uncork.ops.scatter_elements_update import ScatterElementsUpdate3, ScatterElementsUpdate12
from uncork.ops.scatter_nd_update import ScatterNDUpdate4, ScatterNDUpdate15
from uncork.symbolic import Size, SizeLike
from uncork.types import Array, ElementType, TensorSpec

Specs = Sequence[TensorSpec]
_Updates = Union[ScatterNDUpdate4, ScatterNDUpdate15, ScatterElementsUpdate12]
#: Runs of up to so many bytes are copied by straight code, of a kernel of their own.
_SHORT = 64
#: Threads share runs by so many elements, a cache line of f32.
_LINE = 16
#: Loops around single elements, and indices of a tuple, at most.
_MOST = 6


# ---- tuples of indices, and slices along an axis


class _Walk(Struct, frozen=True):
    """How a kernel of tuples goes through its rows. Steps count elements; see `Tuples`."""

    index: TensorSpec
    #: Size of the axis and elements from one place to the next, for each index of a tuple.
    axes: Sequence[tuple[SizeLike, SizeLike]]
    count: SizeLike
    run: SizeLike
    wraps: bool
    #: How many, and from one to the next in the places, in the indices (in indices) and in the
    #: rows.
    batches: tuple[SizeLike, SizeLike, SizeLike, SizeLike] = (1, 0, 0, 0)
    #: How many, and from one to the next in the places and in the rows.
    repeats: tuple[SizeLike, SizeLike, SizeLike] = (1, 0, 0)
    #: From a row to the next, where that is more than a run.
    row: SizeLike | None = None
    #: The indices where they are not those of the call: see `_by_runs`.
    starts: Array | None = None

    @property
    def keep(self) -> Sequence[object]:
        """What must live as long as calls of this walk."""
        return () if self.starts is None else (self.starts,)

    def indices(self, first: SizeLike = 0) -> Operand:
        """Where the indices of a tuple begin, and those of the tuples behind it."""
        offset = first * (self.index.element_type.dtype.itemsize * len(self.axes))
        if self.starts is None:
            return In(1, offset)
        assert isinstance(offset, int)
        return address_of(self.starts) + offset

    def kernel_call(
        self,
        action: Action,
        item: int,
        places: Operand,
        indices: Operand,
        rows: Operand,
        row_item: int,
        lanes: int,
        count: SizeLike,
    ) -> KernelCall:
        """The call for so many tuples, with elements of so many bytes at the places and in the
        rows.
        """
        spec = Tuples(action, self.index.element_type.name, len(self.axes), self.wraps, lanes)
        width = self.index.element_type.dtype.itemsize
        batches, batch_place, batch_index, batch_row = self.batches
        repeats, repeat_place, repeat_row = self.repeats

        operands: list[Operand] = [
            places,
            indices,
            rows,
            batches,
            batch_place * item,
            batch_index * width,
            batch_row * row_item,
        ]
        operands += [
            count,
            (self.run if self.row is None else self.row) * row_item,
            repeats,
            repeat_place * item,
            repeat_row * row_item,
        ]
        operands.append(self.run if action.element else self.run * item)
        operands += [op for size, step in self.axes for op in (size, step * item)]
        return spec, operands

    def shared(
        self,
        action: Action,
        item: int,
        places: In | Out | Scratch,
        row_item: int,
        lanes: int,
        threads: int,
    ) -> list[KernelCall]:
        """The calls of so many threads for all tuples, in their order: each thread writes to some
        of the repeats, or to a part of long runs.
        """
        repeats, to, step = self.repeats
        long = isinstance(self.run, int) and self.run * item > _SHORT
        axes = [(repeats, 1), (self.run if long else 1, _LINE)]
        calls = []
        for (first, number), (begin, some) in grid(axes, threads):
            walk = replace(
                self, repeats=(number, to, step), run=some if long else self.run, row=self.run
            )
            target = replace(places, offset=places.offset + (first * to + begin) * item)
            rows = In(2, (first * step + begin) * row_item)
            calls.append(
                walk.kernel_call(
                    action, item, target, self.indices(), rows, row_item, lanes, self.count
                )
            )
        return calls


def _put(walk: _Walk, data: TensorSpec) -> KernelPlan:
    """The plan that copies the data and puts runs into them."""
    item = data.element_type.dtype.itemsize
    walk = _by_runs(walk)
    action = _move("put", walk.run * item)
    whole = product(extents(data)) * item

    moved = walk.batches[0] * walk.count * walk.repeats[0] * walk.run
    return _onto_copy(
        whole,
        lambda threads: walk.shared(action, item, Out(0), item, 1, threads),
        nanoseconds(whole + moved * (8 + item), 1 / 8),
        walk.keep,
    )


def _onto_copy(
    whole: SizeLike,
    puts: Callable[[int], list[KernelCall]],
    cost: float | Size,
    keep: Sequence[object] = (),
) -> KernelPlan:
    """The plan that copies the data, so many bytes, and then puts elements into the copy."""

    def stages(threads: int) -> Stages:
        return Stages([copied(whole, threads, Out(0)), puts(threads)], 0)

    return staged(stages, cost, keep)


def _joined(
    reduction: Joining,
    joins: Callable[[Action, Out | Scratch, int], list[KernelCall]],
    work: SizeLike,
    name: str = "",
) -> KernelPlan:
    """The plan of a reduction, whose elements are joined by `joins(action, where, threads)`."""

    def stages(threads: int) -> Stages:
        made = [joins(action, where, threads) for action, where in reduction.actions()]
        before, after = reduction.before(threads), reduction.after(threads)
        return Stages([*before, *made, *after], reduction.scratch)

    return staged(stages, nanoseconds(reduction.elements + work, 1.0), name=name)


def select_store(layer: Layer) -> Selection:
    """The rows of a table of states, written where they are."""
    table, rows = layer.input(0), layer.input(1)
    shape, count = extents(table), product(extents(rows))
    run, item = product(shape[1:]), table.element_type.dtype.itemsize
    walk = _Walk(rows, [(shape[0], run)], count, run, False)
    action = _move("put", run * item)

    def part(first: SizeLike, some: SizeLike) -> KernelCall:
        new = In(2, first * (run * item))
        return walk.kernel_call(action, item, In(0), walk.indices(first), new, item, 1, some)

    return shared_call(part, count, nanoseconds(count * run * item, 1 / 8))


def _by_runs(walk: _Walk) -> _Walk:
    """The same walk by indices of longer runs, where indices are constants: tuples whose places
    follow each other are one, and several indices of a tuple become one.
    """
    sizes = [size for size, _ in walk.axes]
    known = walk.index.value
    if known is None or not certainly(walk.batches[0], 1) or not sizes:
        return walk
    if not all(isinstance(size, int) for size in sizes):
        return walk
    bounds = np.array(sizes, np.int64)
    tuples = known.reshape(-1, len(sizes)).astype(np.int64)
    if walk.wraps:
        tuples = np.where(tuples < 0, tuples + bounds, tuples)
    if not len(tuples) or (tuples < 0).any() or (tuples >= bounds).any():
        return walk  # every call is refused, in the reference's words
    places = tuples @ np.array(strides(sizes, 1), np.int64)
    breaks = np.flatnonzero(np.diff(places) != 1) + 1
    length = int(np.gcd.reduce(np.diff([0, *breaks, len(places)])))
    if length == 1 and len(sizes) == 1:
        return walk
    starts = np.ascontiguousarray(places[::length])
    return replace(
        walk,
        index=TensorSpec.of_array(ElementType.i64, starts),
        axes=[(int(bounds.prod()), walk.axes[-1][1])],
        count=len(starts),
        run=walk.run * length,
        wraps=False,
        starts=starts,
    )


def _move(op: str, run: SizeLike) -> Action:
    return Action(op, run if isinstance(run, int) and run <= _SHORT else OPEN)


def select_slices(layer: Layer) -> Selection:
    data, indices = layer.input(0), layer.input(1)
    layer.require_numbers(0)
    shape = extents(data)
    along = layer.axis(3, len(shape))
    count, outer, inner = (
        product(extents(indices)),
        product(shape[:along]),
        product(shape[along + 1 :]),
    )
    repeats = (outer, shape[along] * inner, count * inner)
    return _put(_Walk(indices, [(shape[along], inner)], count, inner, False, repeats=repeats), data)


def select_tuples(layer: Layer) -> Selection:
    operation, indices = layer.operation, layer.input(1)
    assert isinstance(operation, ScatterNDUpdate4 | ScatterNDUpdate15)
    places = extents(indices)
    numbers = places[-1]
    if not isinstance(numbers, int) or numbers > _MOST:
        return "no kernel for tuples of that many indices"
    return _runs(layer, operation, numbers, product(places[:-1]))


def select_rows(layer: Layer) -> Selection:
    return _runs(layer, layer.of(ScatteredRows).elements, 1, product(layer.shape(1)))


def _runs(layer: Layer, operation: _Updates, numbers: int, count: SizeLike) -> Selection:
    """The plan for so many runs, each at the place that a tuple of so many indices names."""
    data, shape = layer.input(0), layer.shape(0)
    layer.require_numbers(0)
    run = product(shape[numbers:])

    def walk(run: SizeLike) -> _Walk:
        axes = [(size, step * run) for size, step in zip(shape, steps, strict=False)]
        return _Walk(layer.input(1), axes, count, run, operation.counts_from_end)

    steps = strides(shape[:numbers], 1)
    op = getattr(operation, "reduction", "none")
    if op == "none":
        return _put(walk(run), data)
    uses_data = getattr(operation, "use_init_val", True)
    reduction = reduction_of(op, uses_data, data, layer.target, numbers)
    stored = data.element_type.dtype.itemsize
    lanes = 1 if isinstance(run, int) and run < reduction.lanes else reduction.lanes

    def joins(action: Action, where: Out | Scratch, threads: int) -> list[KernelCall]:
        item, counts = element_bytes(action.element), action.op == "count"
        own, wide = (walk(1), 1) if counts else (walk(run), lanes)
        return own.shared(action, item, where, stored, wide, threads)

    plan = _joined(reduction, joins, count * (run + 2))
    name = next(spec.name for spec, _ in reversed(plan.calls) if isinstance(spec, Tuples))
    return replace(plan, kernel=name)


def select_gather_nd(layer: Layer) -> Selection:
    operation = layer.of(GatherND8)
    data, indices = layer.input(0), layer.input(1)
    layer.require_numbers(0)
    shape, places = extents(data), extents(indices)
    batch, numbers = operation.batch_dims, places[-1]
    if not isinstance(numbers, int) or numbers > _MOST:
        return "no kernel for tuples of that many indices"
    lead, own_batches = shape[:batch], places[:batch]
    one_of_data, one_of_indices = (
        all(certainly(size, 1) for size in sizes) for sizes in (lead, own_batches)
    )
    # Of no batches at all the indices would not be looked at.
    one_of_indices = one_of_indices and all(isinstance(size, int) and size > 0 for size in lead)
    decline_if(
        not one_of_data and not one_of_indices and not same_extents(lead, own_batches),
        "no kernel for batches that stretch",
    )
    own, steps = shape[batch : batch + numbers], strides(shape, 1)[batch:]
    count, run = product(places[batch:-1]), product(shape[batch + numbers :])
    item = data.element_type.dtype.itemsize
    whole = product(lead if one_of_indices else own_batches)
    batches = (
        whole,
        0 if one_of_data else product(shape[batch:]),
        0 if one_of_indices else count * numbers,
        count * run,
    )
    walk = _by_runs(_Walk(indices, list(zip(own, steps, strict=False)), count, run, True, batches))
    action = _move("gather", walk.run * item)

    def part(first: SizeLike, some: SizeLike) -> KernelCall:
        row = Out(0, first * (walk.run * item))
        return walk.kernel_call(action, item, In(0), walk.indices(first), row, item, 1, some)

    cost = nanoseconds(whole * count, max(2.0, run * item / 16) if isinstance(run, int) else 16.0)
    plan = shared_call(part, walk.count, cost, keep=walk.keep)
    return plan if certainly(whole, 1) else replace(plan, split=None)


# ---- single elements


class _ElementWalk(Struct, frozen=True):
    """How a kernel of elements goes through indices along one axis; see `Elements`."""

    indices: TensorSpec
    #: How many indices there are along each loop, elements from one place to the next, and indices
    #: from one to the next.
    axes: Sequence[tuple[SizeLike, SizeLike, SizeLike]]
    #: How many loops there are before the one along the axis, and the size of the axis.
    before: int
    size: SizeLike
    wraps: bool

    def shared(
        self,
        action: Action,
        item: int,
        places: In | Out | Scratch,
        rows: In | Out,
        row_item: int,
        threads: int,
    ) -> list[KernelCall]:
        """The calls of so many threads, with elements of so many bytes at the places and in the
        rows. They share the loops around the axis: no two go to one place.
        """
        kind, after = self.indices.element_type, len(self.axes) - self.before - 1
        spec = Elements(action, kind.name, self.wraps, self.before, after)
        counts = [(axis[0], 1) for axis in self.axes]
        counts[self.before] = (1, 1)  # of the axis itself all, in their order
        if after:
            counts[-1] = (self.axes[-1][0], _LINE)
        calls: list[KernelCall] = []
        for part in grid(counts, threads):
            operands: list[Operand] = []
            place: SizeLike = 0
            index: SizeLike = 0
            for depth, ((count, step, to), (first, some)) in enumerate(
                zip(self.axes, part, strict=True)
            ):
                place, index = place + first * (step * item), index + first * to
                operands += [count if depth == self.before else some, step * item, to]
            there = [
                replace(places, offset=places.offset + place),
                In(1, index * kind.dtype.itemsize),
                replace(rows, offset=rows.offset + index * row_item),
            ]
            calls.append((spec, [*there, self.size, *operands]))
        return calls


def _element_walk(layer: Layer, along: int, wraps: bool) -> _ElementWalk:
    """The walk through the indices of a layer, along an axis of its data."""
    layer.require_numbers(0)
    shape, sides = layer.shape(0), layer.shape(1)
    before, after = _loops(shape, sides, along)
    decline_if(len(before) + len(after) > _MOST, "no kernel for so many axes")
    own = (sides[along], strides(shape, 1)[along], strides(sides, 1)[along])
    return _ElementWalk(layer.input(1), [*before, own, *after], len(before), shape[along], wraps)


def select_gather_elements(layer: Layer) -> Selection:
    operation = layer.of(GatherElements6)
    along = normalised_axis(operation, operation.axis, len(layer.shape(0)))
    walk = _element_walk(layer, along, True)
    item = layer.input(0).element_type.dtype.itemsize

    def stages(threads: int) -> Stages:
        action = Action("gather", item)
        return Stages([walk.shared(action, item, In(0), Out(0), item, threads)], 0)

    return staged(stages, nanoseconds(product(layer.shape(1)), 1.0))


def select_elements(layer: Layer) -> Selection:
    operation, data = layer.operation, layer.input(0)
    assert isinstance(operation, ScatterElementsUpdate3 | ScatterElementsUpdate12)
    shape = layer.shape(0)
    along = layer.axis(3, len(shape))
    walk = _element_walk(layer, along, operation.counts_from_end)
    stored = data.element_type.dtype.itemsize

    def shared(action: Action, where: Out | Scratch, threads: int) -> list[KernelCall]:
        item = action.run if action.op == "put" else element_bytes(action.element)
        return walk.shared(action, item, where, In(2), stored, threads)

    total = product(layer.shape(1))
    op = getattr(operation, "reduction", "none")
    if op == "none":
        whole, put = product(shape) * stored, Action("put", stored)
        cost = nanoseconds(whole + total * 16, 1 / 16)
        return _onto_copy(whole, lambda threads: shared(put, Out(0), threads), cost)
    uses_data = getattr(operation, "use_init_val", True)
    reduction = reduction_of(op, uses_data, data, layer.target, len(shape))
    name = f"elements_{op}_{reduction.held}_{data.element_type.name}"
    return _joined(reduction, shared, total * (2 * len(reduction.actions())), name)


def _loops(
    shape: Sequence[SizeLike], sides: Sequence[SizeLike], along: int
) -> list[list[tuple[SizeLike, SizeLike, SizeLike]]]:
    """The loops before and after an axis, as few as can be, each as the number of indices, the
    elements from one place to the next, and those from one index to the next.
    """
    places, rows = strides(shape, 1), strides(sides, 1)
    result = []
    for axes in (range(along), range(along + 1, len(shape))):
        loops, _ = merged([Loop(sides[axis], rows[axis], places[axis]) for axis in axes], -1)
        result.append([(loop.count, loop.target, loop.source) for loop in loops])
    return result
