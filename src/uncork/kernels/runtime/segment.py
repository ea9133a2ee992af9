"""A native segment: a run of kernel calls that one native call makes, for every size.

Arguments of kernels are 64-bit words. A word is a number, an address, or a size: what only the call
knows is patched in by native code, from the arrays that the call passes, from sizes and from the
places of buffers in the working memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from uncork.concurrency import renews_locks
from uncork.kernels.runtime import layout
from uncork.kernels.runtime.addresses import address_of_words, object_address, recording
from uncork.kernels.runtime.context import Context
from uncork.kernels.runtime.cpython_entry import IN_ORDER, WRITEABLE, functions
from uncork.kernels.runtime.entries import bound, native_entry, resize_function
from uncork.kernels.runtime.layout import ARRAY_GUARD, HEAD
from uncork.kernels.runtime.native_block import NativeBlock
from uncork.kernels.runtime.segment_plan import (
    ArgumentAddress,
    ArrayGuard,
    Bind,
    BodyAddress,
    BodyTable,
    BufferAddress,
    CallTable,
    IdentityGuard,
    KernelArgument,
    KnownAddress,
    MadeResult,
    SegmentPlan,
    SizeOperand,
    Slot,
    SlotAddress,
    Step,
    StepBody,
    TensorAddress,
    VersionAddress,
)


class Segment:
    """A segment that can run. `run(*arguments)` returns OK, a list of new results where it makes
    some, or why not: see `layout`.

    With `array_guards`, one for each argument, `run` looks at the arguments first: it is then safe
    to call with anything. Without, the caller knows them. One call at a time; another gets BUSY.
    `before` is the segment that runs before it in the same context, and lives as long.

    The same call goes on with other segments after `go_on_with`.
    """

    def __init__(
        self,
        plan: SegmentPlan,
        context: Context,
        *,
        array_guards: Sequence[ArrayGuard | IdentityGuard] = (),
        results: Sequence[MadeResult] = (),
        before: Segment | None = None,
        first_result: int = 0,
        release_cost: float = float(1 << 62),
        keep: object = None,
    ) -> None:
        """`first_result` is how many results segments make that run before it in the same call."""
        self.live = 0
        self._guarded, self._results = tuple(array_guards), tuple(results)
        self._context = context
        words: list[int] = []
        tables: dict[str, list[int]] = {}
        self._layout_array_guards(tables, words)
        result_rows = self._layout_results(tables, words)
        #: (word, other word of the block whose address it is)
        self._inner: list[tuple[int, int]] = []
        self._bodies: dict[StepBody, BodyTable] = {}
        targets, steps_words = self._lay_out(plan.steps, words)
        live_at = len(words)
        words += [0] * (1 + 3 * (context.buffers + 1))
        order = (
            "array_guard_table",
            "bind_table",
            "op_table",
            "check_table",
            "buffer_table",
            "patch_table",
            "address_table",
            "result_table",
        )
        patches, addresses = self._collect(plan, targets, words)
        sizes = {
            "array_guard_table": len(tables["array_guards"]), "bind_table": 4 * len(plan.binds),
            "op_table": 4 * len(plan.ops), "check_table": 4 * len(plan.checks),
            "buffer_table": 4 * len(plan.buffers), "patch_table": 6 * len(patches),
            "address_table": 4 * len(addresses), "result_table": 4 * len(results),
            "step_table": 3 * len(plan.steps),
        }  # fmt: skip
        at: dict[str, int] = {}
        place = len(HEAD)
        for name in (*order, "step_table"):
            at[name] = place
            place += sizes[name]
        words_at = place
        self._block = block = np.zeros(words_at + len(words), np.int64).view(NativeBlock)
        base = address_of_words(block, "segment")
        #: The list of live buffers, from which that of the segment after goes on.
        self.live = base + 8 * (words_at + live_at)
        block.keep = (
            keep,
            self._bodies,
            self._guarded,
            self._results,
            context,
            context.words,
            self._context,
        )

        def address(word: int) -> int:
            return base + 8 * (words_at + word)

        slot = context.slot
        rows: dict[str, list[int]] = {
            "array_guard_table": [
                address(v) if n % 4 == 3 else v for n, v in enumerate(tables["array_guards"])
            ],
            "bind_table": [w for b in plan.binds for w in self._bind_row(b)],
            "op_table": [
                w
                for o in plan.ops
                for w in (
                    layout.OPERATIONS.index(o.operation),
                    slot(o.a.index),
                    slot(o.b.index),
                    slot(o.result.index),
                )
            ],
            "check_table": [
                w for c in plan.checks for w in (c.code, slot(c.a.index), slot(c.b.index), c.index)
            ],
            "buffer_table": [
                w
                for b in plan.buffers
                for w in (slot(b.bytes.index), b.first, b.last, context.offset(b.buffer))
            ],
            "patch_table": [
                w
                for inside, target, *row in patches
                for w in (address(target) if inside else target, *row)
            ],
            "address_table": [w for *row, target in addresses for w in (*row, address(target))],
            "result_table": [
                w
                for index, (dtype, rank, first) in enumerate(result_rows, first_result)
                for w in (dtype, rank, address(first), index)
            ],
            "step_table": [
                w
                for step, first in zip(plan.steps, steps_words, strict=True)
                for w in (
                    step.function,
                    address(first),
                    context.one if step.condition is None else slot(step.condition.index),
                )
            ],
        }
        head: dict[str, int] = {
            **functions(), "busy": 0, "stamp": 0, "release": 0,
            "resize": resize_function(plan.target), "context": context.base,
            "cost": context.zero if plan.cost is None else slot(plan.cost.index),
            "release_cost": int(release_cost), "array_guards": len(array_guards),
            "binds": len(plan.binds), "ops": len(plan.ops), "checks": len(plan.checks),
            "buffers": len(plan.buffers), "live": self.live,
            "live_before": before.live if before else 0, "patches": len(patches),
            "addresses": len(addresses), "results": len(results), "steps": len(plan.steps),
            "array_type": object_address(np.ndarray), "next": 0, "made": len(results),
            "none": object_address(None),
            **{name: base + 8 * first for name, first in at.items()},
        }  # fmt: skip
        everything = [head[name] for name in HEAD]
        for name in (*order, "step_table"):
            everything += rows[name]
        for target, other in self._inner:
            words[target] = address(other)
        everything += words
        block[:] = everything
        self._base = base
        self.run: Callable[..., Any] = block.run_by_ctypes
        if recording() is None:
            renews_locks(block)
            if native_entry(plan.target):
                self.run = bound(block, plan.target)

    def refuse(self) -> None:
        """Have `run`, which has guards, take no arguments from now on: nothing is of the kind of
        the first guard.
        """
        first = int(self._block[HEAD.index("array_guard_table")]) - self._base
        self._block[first // 8 + ARRAY_GUARD.index("kind")] = 0

    def return_as(self, way: int) -> None:
        """Have `run` return otherwise than in a list: `ALONE`, `ANSWER`."""
        self._block[HEAD.index("made")] = way

    def go_on_with(self, following: Sequence[Segment]) -> None:
        """Have one call run these segments, too, one after the other: each reads sizes that those
        before it have found.
        """
        for segment, after in pairwise((self, *following)):
            segment._block[HEAD.index("next")] = after.address
            self._block[HEAD.index("made")] += len(after._results)
        self._block.keep = (self._block.keep, tuple(following))

    def _layout_array_guards(self, tables: dict[str, list[int]], words: list[int]) -> None:
        rows: list[int] = []
        for array_guard in self._guarded:
            if isinstance(array_guard, IdentityGuard):
                rows += [object_address(array_guard.what), -1, 0, 0]
            else:
                flags = IN_ORDER | (WRITEABLE if array_guard.written else 0)
                rows += [
                    object_address(array_guard.dtype),
                    len(array_guard.shape),
                    flags,
                    len(words),
                ]
                words += [-1 if size is None else size for size in array_guard.shape]
        tables["array_guards"] = rows

    def _layout_results(
        self, tables: dict[str, list[int]], words: list[int]
    ) -> list[tuple[int, int, int]]:
        rows: list[tuple[int, int, int]] = []
        self._result_words: list[tuple[int, SizeOperand]] = []
        for result in self._results:
            rows.append((object_address(result.dtype), len(result.sizes), len(words)))
            for size in result.sizes:
                self._result_words.append((len(words), size))
                words.append(size if isinstance(size, int) else 0)
        return rows

    def _lay_out(
        self, steps: Sequence[Step], words: list[int]
    ) -> tuple[list[tuple[int, KernelArgument]], list[int]]:
        """Lay out places for the arguments of steps behind `words`: the result is the arguments by
        their places, and where those of each step begin.
        """
        targets: list[tuple[int, KernelArgument]] = []
        starts: list[int] = []
        for step in steps:
            start = len(words)
            starts.append(start)
            words += [0] * len(step.arguments)
            for target, word in enumerate(step.arguments, start):
                if isinstance(word, CallTable):
                    table = len(words)
                    self._inner.append((target, table))
                    words += [part for call in word.calls for part in (call.function, 0)]
                    inner, firsts = self._lay_out(word.calls, words)
                    targets += inner
                    self._inner += [
                        (table + 2 * index + 1, first) for index, first in enumerate(firsts)
                    ]
                else:
                    targets.append((target, word))
        return targets, starts

    def _collect(
        self, plan: SegmentPlan, targets: Sequence[tuple[int, KernelArgument]], words: list[int]
    ) -> tuple[list[tuple[bool, int, int, int, int, int, int]], list[tuple[int, int, int, int]]]:
        """The patches that new sizes need, and the addresses that every call sets; known words are
        written at once.
        """
        context = self._context
        zero, memory = context.zero, context.word("memory")
        patches: list[tuple[bool, int, int, int, int, int, int]] = []
        addresses: list[tuple[int, int, int, int]] = []

        def number(value: SizeOperand) -> tuple[int, int]:
            return (value, zero) if isinstance(value, int) else (0, context.slot(value.index))

        for target, word in targets:
            if isinstance(word, int):
                words[target] = word
            elif isinstance(word, Slot):
                patches.append((True, target, 8, 0, context.slot(word.index), zero, zero))
            elif isinstance(word, TensorAddress):
                words[target] = context.tensor(word.first) + word.offset
            elif isinstance(word, SlotAddress):
                words[target] = context.slot(word.slot.index)
            elif isinstance(word, VersionAddress):
                words[target] = context.word("version")
            elif isinstance(word, BodyAddress):
                table = self._table(word.body)
                words[target] = (
                    table.word_address(word.kind, word.index, word.axis)
                    if word.kind
                    else table.address
                )
            elif isinstance(word, ArgumentAddress):
                addresses.append((word.argument, *number(word.offset), target))
            elif isinstance(word, KnownAddress):
                slot = context.slot(word.offset.index)
                patches.append((True, target, 8, word.address, slot, zero, zero))
            elif isinstance(word, BufferAddress):
                offset, more = number(word.offset)
                patches.append((True, target, 8, offset, memory, context.offset(word.buffer), more))
        for target, size in self._result_words:
            if isinstance(size, Slot):
                patches.append((True, target, 8, 0, context.slot(size.index), zero, zero))
        for tensor in plan.tensors:
            for position, element in enumerate(tensor.elements):
                place = context.tensor(tensor.first) + position * tensor.width
                patches.append((False, place, tensor.width, *number(element), zero, zero))
        return patches, addresses

    def _table(self, body: StepBody) -> BodyTable:
        if body not in self._bodies:
            self._bodies[body] = body.made(body.bytes)
        return self._bodies[body]

    def lacks_memory(self) -> bool:
        """Whether a body that a step runs has asked for more memory than it had; another segment
        will have it.
        """
        lacking = False
        for body, table in self._bodies.items():
            needed = table.lacking()
            lacking |= needed > 0
            body.bytes = max(body.bytes, needed)
        return lacking

    def shut_out(self) -> bool:
        """Have calls to come ask for working memory. Whether no call is in the segment, so that
        nobody uses the memory there is.
        """
        # In this order: a call that comes between binds no sizes anew, and is seen to be busy.
        self._context.forget_capacity()
        self._block[HEAD.index("stamp")] = 0
        return not self._block[HEAD.index("busy")]

    def misfits(self) -> bool:
        """Whether a body that a step runs does not take the sizes of the last call: no step runs it
        in plans to come.
        """
        unfit = [body for body, table in self._bodies.items() if table.misfits()]
        for body in unfit:
            body.give_up()
        return bool(unfit)

    @property
    def working_bytes(self) -> int:
        """The working memory of bodies that steps run."""
        return sum(table.working_bytes for table in self._bodies.values())

    def _bind_row(self, bind: Bind) -> tuple[int, int, int, int]:
        slot = self._context.slot(bind.slot.index)
        if bind.element:
            kind = {"i64": layout.BIND_I64, "i32": layout.BIND_I32}[bind.element]
            return kind, bind.argument, bind.offset, slot
        return layout.BIND_SHAPE, bind.argument, bind.axis, slot

    @property
    def address(self) -> int:
        """The address of its block, for native code."""
        return self._base

    @property
    def context(self) -> Context:
        """The context that it runs in."""
        return self._context

    @property
    def is_bound(self) -> bool:
        """Whether its words are those for the sizes that the context holds."""
        return self._context.get("version") == int(self._block[HEAD.index("stamp")])

    def resize(self) -> int:
        """Bind the sizes that the context holds, without a call: OK or why not."""
        return self._block.bind_held()

    def bind(self, arguments: Sequence[Any]) -> int:
        """Bind the sizes of a call, which is not made: OK or why not."""
        return self._block.bind(arguments)
