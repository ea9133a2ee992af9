"""Selection of kernels at places that indices name: ScatterUpdate, ScatterElementsUpdate,
ScatterNDUpdate, GatherND.

The scattering operations copy their data first. A reduction of f16 or bf16 is held in f32 meanwhile
and rounded once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from uncork.kernels.extents import certainly, extents, nanoseconds, product, same_extents
from uncork.kernels.kernel_plan import (
    In,
    KernelCall,
    KernelPlan,
    Operand,
    Out,
    Selection,
    Stages,
    shares,
)
from uncork.kernels.movement.nd_copy import Loop, merged, strides
from uncork.kernels.movement.spec_nd_copy import CopyBytes
from uncork.kernels.runtime.target import Target
from uncork.kernels.scatter.reduction import bytes_of, reduction_of
from uncork.kernels.scatter.spec import OPEN, Action, Elements, Tuples
from uncork.kernels.select import selects
from uncork.ops import Operation
from uncork.ops._common.indices import normalised_axis
from uncork.ops.gather_nd import GatherND8
from uncork.ops.scatter_elements_update import ScatterElementsUpdate3, ScatterElementsUpdate12
from uncork.ops.scatter_nd_update import ScatterNDUpdate4, ScatterNDUpdate15
from uncork.symbolic import SizeLike
from uncork.types import ElementType, TensorSpec

Specs = Sequence[TensorSpec]
#: Runs of up to so many bytes are copied by straight code, of a kernel of their own.
_SHORT = 64
#: Loops around single elements, and indices of a tuple, at most.
_MOST = 6
_NO_STRINGS = "no kernel for strings"


# ---- tuples of indices, and slices along an axis


@dataclass(frozen=True, slots=True)
class _Walk:
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

    def call(
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
            self.run * row_item,
            repeats,
            repeat_place * item,
            repeat_row * row_item,
        ]
        operands.append(self.run if action.element else self.run * item)
        operands += [op for size, step in self.axes for op in (size, step * item)]
        return spec, operands


def _put(walk: _Walk, data: TensorSpec) -> KernelPlan:
    """The data with runs put in."""
    item = data.element_type.dtype.itemsize
    action = _move("put", walk.run * item)
    whole = product(extents(data)) * item
    put = walk.call(action, item, Out(0), In(1), In(2), item, 1, walk.count)
    moved = walk.batches[0] * walk.count * walk.repeats[0] * walk.run
    return KernelPlan(
        put[0].name,
        [(CopyBytes(), [In(0), Out(0), whole]), put],
        cost=nanoseconds(whole + moved * (8 + item), 1 / 8),
    )


def _move(op: str, run: SizeLike) -> Action:
    return Action(op, run if isinstance(run, int) and run <= _SHORT else OPEN)


@selects("ScatterUpdate")
def select_slices(
    operation: Operation, inputs: Sequence[TensorSpec | None], outputs: Specs, target: Target
) -> Selection:
    data, indices, _, axis = inputs
    assert data is not None and indices is not None and axis is not None
    if data.element_type is ElementType.string:
        return _NO_STRINGS
    if axis.value is None:
        return "the axis is known at the call only"
    shape = extents(data)
    along = normalised_axis(operation, int(axis.value.reshape(-1)[0]), len(shape))
    count, outer, inner = (
        product(extents(indices)),
        product(shape[:along]),
        product(shape[along + 1 :]),
    )
    repeats = (outer, shape[along] * inner, count * inner)
    return _put(_Walk(indices, [(shape[along], inner)], count, inner, False, repeats=repeats), data)


@selects(ScatterNDUpdate4, ScatterNDUpdate15)
def select_tuples(
    operation: Operation, inputs: Sequence[TensorSpec | None], outputs: Specs, target: Target
) -> Selection:
    data, indices, _ = inputs
    assert (
        data is not None
        and indices is not None
        and isinstance(operation, ScatterNDUpdate4 | ScatterNDUpdate15)
    )
    if data.element_type is ElementType.string:
        return _NO_STRINGS
    shape, places = extents(data), extents(indices)
    numbers = places[-1]
    if not isinstance(numbers, int) or numbers > _MOST:
        return "no kernel for tuples of that many indices"
    steps = strides(shape, 1)
    run = product(shape[numbers:])
    walk = _Walk(
        indices,
        list(zip(shape[:numbers], steps)),
        product(places[:-1]),
        run,
        operation.counts_from_end,
    )
    op = getattr(operation, "reduction", "none")
    if op == "none":
        return _put(walk, data)
    reduction = reduction_of(op, True, data, target)
    if isinstance(reduction, str):
        return reduction
    calls = reduction.before()
    stored = data.element_type.dtype.itemsize
    for action, where in reduction.actions():
        lanes = 1 if isinstance(run, int) and run < reduction.lanes else reduction.lanes
        calls.append(
            walk.call(action, reduction.held_bytes, where, In(1), In(2), stored, lanes, walk.count)
        )
    name = calls[-1][0].name
    cost = nanoseconds(reduction.elements + walk.count * (run + 2), 1.0)
    return KernelPlan(name, [*calls, *reduction.after()], scratch=reduction.scratch, cost=cost)


@selects("GatherND")
def select_gather_nd(
    operation: Operation, inputs: Sequence[TensorSpec | None], outputs: Specs, target: Target
) -> Selection:
    data, indices = inputs
    assert data is not None and indices is not None and isinstance(operation, GatherND8)
    if data.element_type is ElementType.string:
        return _NO_STRINGS
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
    if not one_of_data and not one_of_indices and not same_extents(lead, own_batches):
        return "no kernel for batches that stretch"
    own, steps = shape[batch : batch + numbers], strides(shape, 1)[batch:]
    count, run = product(places[batch:-1]), product(shape[batch + numbers :])
    item, width = data.element_type.dtype.itemsize, indices.element_type.dtype.itemsize
    whole = product(lead if one_of_indices else own_batches)
    batches = (
        whole,
        0 if one_of_data else product(shape[batch:]),
        0 if one_of_indices else count * numbers,
        count * run,
    )
    walk = _Walk(indices, list(zip(own, steps)), count, run, True, batches)
    action = _move("gather", run * item)

    def part(first: SizeLike, some: SizeLike) -> KernelCall:
        there, row = In(1, first * (numbers * width)), Out(0, first * (run * item))
        return walk.call(action, item, In(0), there, row, item, 1, some)

    def split(threads: int) -> Stages:
        return Stages([[part(*share) for share in shares(count, threads)]], 0)

    call = part(0, count)
    cost = nanoseconds(whole * count, max(2.0, run * item / 16) if isinstance(run, int) else 16.0)
    return KernelPlan(call[0].name, [call], cost=cost, split=split if certainly(whole, 1) else None)


# ---- single elements


@selects(ScatterElementsUpdate3, ScatterElementsUpdate12)
def select_elements(
    operation: Operation, inputs: Sequence[TensorSpec | None], outputs: Specs, target: Target
) -> Selection:
    data, indices, _, axis = inputs
    assert data is not None and indices is not None and axis is not None
    assert isinstance(operation, ScatterElementsUpdate3 | ScatterElementsUpdate12)
    if data.element_type is ElementType.string:
        return _NO_STRINGS
    if axis.value is None:
        return "the axis is known at the call only"
    shape = extents(data)
    along = normalised_axis(operation, int(axis.value.reshape(-1)[0]), len(shape))
    loops = _loops(shape, extents(indices), along)
    if len(loops[0]) + len(loops[1]) > _MOST:
        return "no kernel for so many axes"
    steps = strides(shape, 1)
    axes = [*loops[0], (extents(indices)[along], steps[along]), *loops[1]]

    def call(action: Action, item: int, where: Operand) -> KernelCall:
        spec = Elements(
            action,
            indices.element_type.name,
            operation.counts_from_end,
            len(loops[0]),
            len(loops[1]),
        )
        operands: list[Operand] = [where, In(1), In(2), shape[along]]
        return spec, [*operands, *(op for count, step in axes for op in (count, step * item))]

    total, item = product(extents(indices)), data.element_type.dtype.itemsize
    op = getattr(operation, "reduction", "none")
    if op == "none":
        whole = product(shape) * item
        put = call(Action("put", item), item, Out(0))
        return KernelPlan(
            put[0].name,
            [(CopyBytes(), [In(0), Out(0), whole]), put],
            cost=nanoseconds(whole + total * 16, 1 / 16),
        )
    reduction = reduction_of(op, getattr(operation, "use_init_val", True), data, target)
    if isinstance(reduction, str):
        return reduction
    calls = [call(action, bytes_of(action.element), where) for action, where in reduction.actions()]
    cost = nanoseconds(reduction.elements + total * (2 * len(calls)), 1.0)
    name = f"elements_{op}_{reduction.held}_{data.element_type.name}"
    return KernelPlan(
        name,
        [*reduction.before(), *calls, *reduction.after()],
        scratch=reduction.scratch,
        cost=cost,
    )


def _loops(
    shape: Sequence[SizeLike], sides: Sequence[SizeLike], along: int
) -> list[list[tuple[SizeLike, SizeLike]]]:
    """The loops before and after an axis, as few as can be: how many indices, and elements from one
    place to the next.
    """
    places, rows = strides(shape, 1), strides(sides, 1)
    result = []
    for axes in (range(along), range(along + 1, len(shape))):
        loops, _ = merged([Loop(sides[axis], rows[axis], places[axis]) for axis in axes], -1)
        result.append([(loop.count, loop.target) for loop in loops])
    return result
