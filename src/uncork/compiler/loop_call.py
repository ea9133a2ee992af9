"""Native calls of a loop: iterations ("turns") by one plan of its body, the placement of results,
and how long a call goes on.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping

import numpy as np
from msgspec import Struct

from uncork.compiler.call_plan import CallPlan
from uncork.compiler.policy import RELEASE_COST
from uncork.compiler.working_memory import grow
from uncork.kernels.runtime.context import Context
from uncork.kernels.runtime.layout import NO_MEMORY
from uncork.kernels.runtime.segment_plan import MadeResult
from uncork.kernels.runtime.turns import TurnPlan, TurnTable
from uncork.kernels.runtime.turns_layout import NEVER, NO_BUFFER, REACHED, STOPPED
from uncork.memory import allowed
from uncork.ops._body import BodyMap, Slicing
from uncork.ops._turns import Turns
from uncork.types import Array

#: Nanoseconds until a native call returns, so that Python sees signals. Turns of the first one at
#: most, for nobody has measured them, and by how many times the next may have more.
_PAUSE, _FIRST, _LONGER = 10e6, 256.0, 8.0
#: Turns whose parts lie behind each other, where nobody knows how many there will be, and bytes
#: that they take at most.
_FIRST_PARTS, _MOST_BYTES = 64, 1 << 28


class InputParts(Struct, frozen=True):
    """The parts of a sliced input, one after the other: the address of the first, the bytes from
    one to the next, and their count.
    """

    address: int
    step: int
    count: int
    shape: tuple[int, ...]
    array: Array


def sliced_inputs(turns: Turns) -> dict[int, InputParts]:
    """The sliced inputs of a loop, by the number of the Parameter that takes their parts."""
    result: dict[int, InputParts] = {}
    for entry in turns.map.sliced:
        data = np.ascontiguousarray(turns.inputs[entry.port])
        axis = turns.operation.axis(entry.slicing, data.ndim)
        starts = turns.operation.parts(entry.slicing, data.shape[axis])
        result[entry.parameter] = _sliced(data, axis, starts, entry.slicing.part_size)
    return result


def _sliced(data: Array, axis: int, starts: range, size: int) -> InputParts:
    shape = (*data.shape[:axis], size, *data.shape[axis + 1 :])
    row = data.strides[axis]
    first, step = (starts.start if starts else 0) * row, starts.step * row
    if math.prod(shape[:axis]) != 1 and starts:
        begin = data.reshape(-1)[first // data.itemsize :]
        parts = np.lib.stride_tricks.as_strided(begin, (len(starts), *shape), (step, *data.strides))
        data = np.ascontiguousarray(parts)
        first, step = 0, data.strides[0]
    return InputParts(_address(data) + first, step, len(starts), shape, data)


def turn_plan(body: BodyMap, plan: CallPlan) -> TurnPlan | None:
    """The connections between the turns of a loop; None where native code cannot make them."""
    array_guards = plan.array_guards
    results = tuple(MadeResult(result.dtype, result.sizes or ()) for result in plan.results)
    counter, decides = body.counter, body.condition
    edges = tuple((r, p) for r, p in body.back_edges if p != counter)
    makes = makes_of(plan)
    known = (
        makes is not None
        and len(body.inputs) == len(array_guards)
        and all(
            r.sizes is not None and r.argument == len(array_guards) + n
            for n, r in enumerate(plan.results)
        )
        and (counter is None or array_guards[counter].dtype.str[1:] in ("i4", "i8"))
        and (decides is None or results[decides].dtype == bool)
        and all(results[r].dtype == array_guards[p].dtype for r, p in edges)
        and all(len(results[r].sizes) == len(array_guards[p].shape) for r, p in edges)
    )
    return (
        TurnPlan(
            array_guards,
            results,
            edges,
            counter,
            decides,
            tuple(i.parameter for i in body.sliced),
            frozenset(o.result for o in body.joined),
            makes=makes or (),
        )
        if known
        else None
    )


def makes_of(plan: CallPlan) -> tuple[tuple[int, ...], ...] | None:
    """The results that each segment of a plan makes, by number; None where segments are not all
    that makes them.
    """
    if plan.is_native:
        return (tuple(range(len(plan.results))),)
    makes = tuple(tuple(number for number, _ in part.makes) for part in plan.segments)
    every = sorted(number for numbers in makes for number in numbers)
    return makes if every == list(range(len(plan.results))) else None


class LoopCall:
    """The turns of a loop by one plan of the body, in memory of their own: one loop at a time."""

    def __init__(self, plan: CallPlan, turns: TurnPlan) -> None:
        self.plan, self.how = plan, turns
        #: A step of the last turn has declined.
        self.declined = False
        self._costs = [part.segment.cost for part in plan.segments if part.segment.cost]
        context = Context(plan.slots, plan.buffers, plan.tensor_bytes)
        segments = [part.segment for part in plan.segments]
        self.table = TurnTable(segments, turns, context, keep=plan)

    def advance(self, turns: Turns, slices: Mapping[int, InputParts]) -> None:
        """Make as many turns as this plan can, and leave in `turns` what they gave."""
        self.declined = False
        if self._takes(turns, slices):
            run = _Run(self, turns, min([_limit(turns), *(s.count for s in slices.values())]))
            self.declined = run.go() >= 0
            run.leave()

    def _takes(self, turns: Turns, slices: Mapping[int, InputParts]) -> bool:
        """Set the Parameters of the next turn. False where types or ranks are not the plan's."""
        array_guards, table = self.plan.array_guards, self.table
        for parameter, array in turns.carried.items():
            array_guard = array_guards[parameter]
            if array.dtype != array_guard.dtype or array.ndim != len(array_guard.shape):
                return False
            if not array.flags.c_contiguous:
                turns.carried[parameter] = array = np.ascontiguousarray(array)
            table.set_parameter(parameter, _address(array), array.shape)
        for parameter, part in slices.items():
            array_guard = array_guards[parameter]
            if part.array.dtype != array_guard.dtype or len(part.shape) != len(array_guard.shape):
                return False
            table.set_parameter(parameter, part.address + turns.turn * part.step, part.shape)
        table.set_steps({parameter: part.step for parameter, part in slices.items()})
        return True

    def cost(self) -> float:
        """The cost of a turn, in nanoseconds, about."""
        return 100.0 + sum(map(self.table.context.value, self._costs))


def _limit(turns: Turns) -> int:
    """The turn before which the loop ends for certain, or has to be looked at."""
    limits = turns.iterations, turns.operation.loop_limit
    return min(NEVER if limit is None else limit for limit in limits)


class _Run:
    """A sequence of turns under way, and the arrays that take their results."""

    def __init__(self, call: LoopCall, turns: Turns, end: int) -> None:
        self.call, self.table, self.turns, self.end = call, call.table, turns, end
        self.turn = turns.turn
        self.stopped = False
        how = call.how
        self._singles = [n for n in range(len(how.results)) if n not in how.stacked]
        #: By result: two arrays that turns write in turn, since which turn, and what was last
        #: before.
        self._pairs: dict[int, tuple[Array, Array]] = {}
        self._made: dict[int, int] = {}
        self._before: dict[int, Array] = {}
        #: By result: the array that turns write behind each other, and the shape of a part.
        self._stacks: dict[int, Array] = {}
        self._shapes: dict[int, tuple[int, ...]] = {}
        #: The turns that these arrays are of: from the first to where they are full.
        self._since, self._full = self.turn, self.turn
        self._parts = _FIRST_PARTS
        for index in range(len(how.results)):
            self.table.set_buffer(index, -1, 0)

    def go(self) -> int:
        """Make turns until this plan cannot, or there are no more: why it ended, see
        `turns_layout`.
        """
        most, cost, status = 1.0, 0.0, REACHED
        while self.turn < self.end:
            before, started = self.turn, time.perf_counter_ns()
            full = self._full if self._stacks else self.end
            stop = min(self.end, before + max(1, int(most)), full)
            status = self.table.make_turns(before, stop, (stop - before) * cost > RELEASE_COST)
            self.turn = self.table.turn
            if status == REACHED:
                took = max(1, time.perf_counter_ns() - started)
                most = min(_LONGER, _PAUSE / took) * (self.turn - before)
                cost = took / (self.turn - before)
                if self.turn == full < self.end:
                    self._collect()
                    self._open()
            elif status == NO_BUFFER:
                if not self._allocate_results():
                    break
                cost = self.call.cost()
                most = min(_FIRST, _PAUSE / cost)
            elif status == NO_MEMORY:
                grow(self.call.plan, self.table.context)
            else:
                self.stopped = status == STOPPED
                break
        return status

    def leave(self) -> None:
        """Write the results and the state of these turns back to the loop."""
        turns, how = self.turns, self.call.how
        if self.turn == turns.turn:
            return
        self._collect()
        turns.results = [self._last(index) for index in range(len(how.results))]
        turns.carried.update({p: turns.results[r] for r, p in how.edges})
        turns.turn, turns.condition = self.turn, not self.stopped

    # ---- room

    def _allocate_results(self) -> bool:
        """Allocate arrays for the results of a turn of which the sizes are found. False where
        native code cannot read the condition.
        """
        how, value = self.call.how, self.table.context.value
        shapes = {
            number: tuple(map(value, result.sizes))
            for number, result in enumerate(how.results)
            if self.table.knows_sizes(number)
        }
        if how.decides in shapes and not math.prod(shapes[how.decides]):
            return False
        stacked = {
            n: shapes.get(n) or self._shapes.get(n) or (0,) * len(how.results[n].sizes)
            for n in how.stacked
        }
        if stacked != self._shapes:
            self._collect()
            self._shapes = stacked
            self._open()
        for number in (n for n in self._singles if n in shapes):
            size = math.prod(shapes[number]) * how.results[number].dtype.itemsize
            if size > self.table.scratch(number):
                self._grow(number, shapes[number], size)
        return True

    def _grow(self, number: int, shape: tuple[int, ...], size: int) -> None:
        """Allocate larger arrays, with room to grow, for a result that each turn replaces."""
        dtype = self.call.how.results[number].dtype
        others = sum(2 * pair[0].nbytes for n, pair in self._pairs.items() if n != number)
        needed = others + 2 * size
        self.turns.look_at_memory(needed)
        limit = allowed(
            needed,
            self.call.plan.memory_limit,
            lambda: "turns of a loop give most of it to the next",
        )
        if number in self._pairs:
            self._before[number] = self._last(number)
            if others + 4 * size <= limit:
                size *= 2
            pair = np.empty(size, np.uint8), np.empty(size, np.uint8)
        else:
            pair = np.empty(shape, dtype), np.empty(shape, dtype)
        self._pairs[number] = pair
        self._made[number] = self.turn
        self.table.set_buffer(number, size, _address(pair[0]), _address(pair[1]))

    def _last(self, number: int) -> Array:
        """The result of this number as the last turn gave it."""
        pair = self._pairs.get(number)
        if pair is None or self._made[number] == self.turn:
            return self._before[number]
        array = pair[_address(pair[0]) == self.table.next_address(number)]
        shape = self.table.shape(number)
        dtype = self.call.how.results[number].dtype
        if array.dtype == dtype and array.shape == shape:
            return array
        size = math.prod(shape) * dtype.itemsize
        result: Array = array.reshape(-1).view(np.uint8)[:size].view(dtype).reshape(shape)
        return result

    def _open(self) -> None:
        """Arrays in which turns lie behind each other, for as many turns as there may be."""
        if not self._shapes:
            return
        dtypes = {number: self.call.how.results[number].dtype for number in self._shapes}
        sizes = {n: math.prod(shape) * dtypes[n].itemsize for n, shape in self._shapes.items()}
        count = min(self.end - self.turn, max(1, _MOST_BYTES // max(1, *sizes.values())))
        if self.call.how.decides is not None:
            count = min(count, self._parts)
            self._parts *= 2
        self.turns.look_at_memory(count * sum(sizes.values()))
        self._since, self._full = self.turn, self.turn + count
        for number, shape in self._shapes.items():
            axis = next(
                self._axis(o.slicing, shape) for o in self.turns.joined if o.result == number
            )
            behind = math.prod(shape[:axis]) == 1  # parts along the axis are what the output is
            full = _joined(count, shape, axis) if behind else (count, *shape)
            stack = self._stacks[number] = np.empty(full, dtypes[number])
            self.table.set_buffer(number, sizes[number], _address(stack), shape=shape)

    def _collect(self) -> None:
        """Add the parts that lie behind each other to the pieces that make the outputs."""
        count = self.turn - self._since
        for output in self.turns.joined if count and self._stacks else ():
            result, port, slicing = output.result, output.port, output.slicing
            stack, shape = self._stacks[result], self._shapes[result]
            self.turns.require_part(port, slicing, shape, self._since)
            axis = self._axis(slicing, shape)
            parts = stack.reshape(self._full - self._since, *shape)[:count]
            self._before[result] = parts[-1]
            joined = _joined(count, shape, axis)
            if axis == 0 and slicing.stride > 0 and parts.size < stack.size:
                stack = parts.reshape(joined).copy()  # and not all the room that there was
            elif slicing.stride < 0 or stack.shape != joined:
                stack = np.empty(joined, stack.dtype)
                ordered = parts if slicing.stride > 0 else parts[::-1]
                stack.reshape(*shape[:axis], count, *shape[axis:])[...] = np.moveaxis(
                    ordered, 0, axis
                )
            self.turns.pieces[port].append(stack)
        self._since = self.turn
        self._stacks = {}

    def _axis(self, slicing: Slicing, shape: tuple[int, ...]) -> int:
        return self.turns.operation.axis(slicing, len(shape))


def _joined(count: int, shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    """The shape of so many parts put together along an axis."""
    return (*shape[:axis], count * shape[axis], *shape[axis + 1 :])


def _address(array: Array) -> int:
    address: int = array.__array_interface__["data"][0]
    return address
