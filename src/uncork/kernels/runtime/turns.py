"""The turns of a loop in one native call: segments that take in each turn what they gave in the one
before.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from uncork.kernels.runtime import layout
from uncork.kernels.runtime.addresses import address_of_words, native_function, recording
from uncork.kernels.runtime.context import Context
from uncork.kernels.runtime.cpython_entry import functions
from uncork.kernels.runtime.kernel_cache import STORE
from uncork.kernels.runtime.loop_layout import ROOM
from uncork.kernels.runtime.native_block import free_rooms
from uncork.kernels.runtime.segment import Segment
from uncork.kernels.runtime.segment_plan import (
    ArrayGuard,
    Bind,
    MadeResult,
    SegmentPlan,
    SizeOperand,
)
from uncork.kernels.runtime.target import Target
from uncork.kernels.runtime.turns_layout import MISFITS, TURNS_HEAD


class TurnPlan(Struct, frozen=True):
    """The connections between the turns of a loop. Parameters and results of the body are given by
    number.

    `edges` are pairs (result, parameter of the next turn); `counter` is the parameter that is the
    number of the turn, `decides` the result that says whether there is another one. What turns give
    of the `stacked` results lies one behind the other; of others there is the last one. There are
    so many `rooms` for parts of which nobody knows how many there will be.

    `makes` has the results that each segment of the body makes; a later one may have sizes that an
    earlier one finds.
    """

    parameters: tuple[ArrayGuard, ...]
    results: tuple[MadeResult, ...]
    edges: tuple[tuple[int, int], ...] = ()
    counter: int | None = None
    decides: int | None = None
    sliced: tuple[int, ...] = ()
    stacked: frozenset[int] = frozenset()
    rooms: int = 0
    makes: tuple[tuple[int, ...], ...] = ()


class _Ref(int):
    """The address of the word of this number, when the words are in place."""


class TurnTable:
    """What native code reads of a loop, with memory of its own: one loop at a time.

    Addresses are the caller's to set: what lies there must live until `run` has returned.
    """

    def __init__(
        self,
        body: Sequence[SegmentPlan],
        turns: TurnPlan,
        context: Context,
        keep: object = None,
        room_bytes: int = 0,
    ) -> None:
        """`body` is the segments of a turn. Each room takes at most so many bytes."""
        self.context = context
        self._target = body[0].target
        self._segments: list[Segment] = []
        for plan in body:
            before = self._segments[-1] if self._segments else None
            self._segments.append(Segment(plan, context, before=before, keep=keep))
        self._part_of = {n: part for part, made in enumerate(turns.makes) for n in made}
        self._inputs, self._sliced = len(turns.parameters), turns.sliced
        words: list[int] = [0] * len(TURNS_HEAD)

        def place(values: Sequence[int]) -> int:
            words.extend(values)
            return len(words) - len(values)

        def number(size: SizeOperand) -> int:
            return _Ref(place([size])) if isinstance(size, int) else context.slot(size.index)

        ranks = (
            [len(array_guard.shape) for array_guard in turns.parameters],
            [len(result.sizes) for result in turns.results],
        )
        self._pointers = place([0] * (self._inputs + len(turns.results)))
        self._number = place([0])
        self._sizes = [place([0] * rank) for rank in ranks[0]]
        self._kept = [place([0] * rank) for rank in ranks[1]]
        self._others = place([0] * len(turns.results))
        self._buffers = place([0] * len(turns.results))
        self._rooms = range(place([0, 0, room_bytes] * turns.rooms), len(words), len(ROOM))
        tables = {
            "part": self._part_rows(turns),
            "bind": [self._bind_row(bind) for plan in body for bind in plan.binds],
            "fixed": [
                [_Ref(self._sizes[n] + axis), size]
                for n, array_guard in enumerate(turns.parameters)
                for axis, size in enumerate(array_guard.shape)
                if size is not None
            ],
            "buffer": [
                [
                    _Ref(self._pointers + self._inputs + n),
                    0 if n in turns.stacked else _Ref(self._others + n),
                    _Ref(self._buffers + n),
                    result.dtype.itemsize,
                    len(result.sizes),
                    _Ref(place([number(size) for size in result.sizes])),
                    _Ref(self._kept[n]),
                ]
                for n, result in ((n, turns.results[n]) for made in turns.makes for n in made)
            ],
            "edge": [
                [
                    _Ref(self._pointers + self._inputs + result),
                    _Ref(self._pointers + parameter),
                    ranks[0][parameter],
                    _Ref(self._kept[result]),
                    _Ref(self._sizes[parameter]),
                ]
                for result, parameter in turns.edges
            ],
            "slice": [[_Ref(self._pointers + parameter), 0] for parameter in turns.sliced],
        }
        firsts = {name: place([w for row in rows for w in row]) for name, rows in tables.items()}
        self._slices = firsts["slice"]
        head: dict[str, int] = {
            "block": self._segments[0].address,
            "pointers": _Ref(self._pointers),
            **{f"{name}_rows": len(rows) for name, rows in tables.items()},
            **{f"{name}_table": _Ref(first) for name, first in firsts.items()},
        }
        if turns.counter is not None:
            width = turns.parameters[turns.counter].dtype.itemsize
            head |= {"counter": _Ref(self._number), "counter_width": width}
        if turns.decides is not None:
            head["decides"] = _Ref(self._pointers + self._inputs + turns.decides)
        for name, word in head.items():
            words[TURNS_HEAD.index(name)] = word
        self._block = np.zeros(len(words), np.int64)
        base = self._address = address_of_words(self._block, "turns", self._rooms)
        self._block[:] = [base + 8 * word if isinstance(word, _Ref) else word for word in words]
        if self._rooms and recording() is None:
            weakref.finalize(self, free_rooms, self._block, self._rooms).atexit = False
        names = functions()
        call = (STORE.address_of(TURNS, self._target), base, names["save"], names["restore"])
        self._released_words = np.array(call, np.int64)
        self._released = address_of_words(self._released_words, "table")
        #: The same words, which Python reads and writes faster.
        self._words = memoryview(self._block)  # type: ignore[arg-type]
        if turns.counter is not None:
            ones = (1,) * ranks[0][turns.counter]
            self.set_parameter(turns.counter, base + 8 * self._number, ones)

    def _part_rows(self, turns: TurnPlan) -> list[list[int]]:
        ends = itertools.accumulate((len(made) for made in turns.makes), initial=0)
        return [
            [segment.address, first, end]
            for segment, (first, end) in zip(self._segments, itertools.pairwise(ends), strict=True)
        ]

    def _bind_row(self, bind: Bind) -> list[int]:
        slot = self.context.slot(bind.slot.index)
        if not bind.element:
            return [layout.BIND_SHAPE, _Ref(self._sizes[bind.argument] + bind.axis), 0, slot]
        kind = {"i64": layout.BIND_I64, "i32": layout.BIND_I32}[bind.element]
        return [kind, _Ref(self._pointers + bind.argument), bind.offset, slot]

    def set_parameter(self, number: int, address: int, shape: Sequence[int]) -> None:
        """Set the address and the sizes of what a Parameter takes in the next turn."""
        self._words[self._pointers + number] = address
        self._write(self._sizes[number], shape)

    @property
    def address(self) -> int:
        """The address of the tables, for native code."""
        return self._address

    def word_address(self, kind: str, index: int, axis: int) -> int:
        """The address of a word that native code sets, where a step runs the body: see
        `set_parameter` ("parameter", "size"), `set_steps` ("step") and `set_buffer` ("result",
        "other", "buffer", "kept"). A "room" is that of parts.
        """
        firsts = {
            "parameter": self._pointers + index,
            "size": self._sizes[index] + axis if kind == "size" else 0,
            "result": self._pointers + self._inputs + index,
            "other": self._others + index,
            "buffer": self._buffers + index,
            "step": self._slices + 2 * self._sliced.index(index) + 1 if kind == "step" else 0,
            "kept": self._kept[index] + axis if kind == "kept" else 0,
            "room": self._rooms[index] if kind == "room" else 0,
        }
        return self._address + 8 * firsts[kind]

    def lacking(self) -> int:
        """The bytes of working memory that the last turn has asked for in vain, bodies in the body
        too.
        """
        needed = self.context.get("needed")
        lacks = needed > self.context.get("capacity")
        return max(1, needed) if self.bodies_lack_memory() or lacks else 0

    def bodies_lack_memory(self) -> bool:
        """Whether a body that a step of the body runs has asked for memory in vain; another table
        will have it.
        """
        lacking = [segment.lacks_memory() for segment in self._segments]  # each notes how much
        return any(lacking)

    def misfits(self) -> bool:
        """Whether the last step that ran the body was not for this plan: its sizes break a guard,
        or are others than it was told.
        """
        status = self._words[TURNS_HEAD.index("status")]
        return status in MISFITS or self.bodies_misfit()

    def bodies_misfit(self) -> bool:
        """Whether the last call was not for the plan of a body that a step of the body runs."""
        unfit = [segment.misfits() for segment in self._segments]  # each tells its bodies
        return any(unfit)

    @property
    def working_bytes(self) -> int:
        """The working memory that is kept now."""
        rooms = sum(self._words[room + ROOM.index("bytes")] for room in self._rooms)
        bodies = sum(segment.working_bytes for segment in self._segments)
        return self.context.memory.nbytes + bodies + rooms

    def knows_sizes(self, number: int) -> bool:
        """Whether the sizes of a result are those that its segment has been bound to: a turn that
        ended before has not found them.
        """
        return self._segments[self._part_of[number]].is_bound

    def set_steps(self, steps: Mapping[int, int]) -> None:
        """Set by how many bytes each sliced Parameter goes on from turn to turn."""
        for row, parameter in enumerate(self._sliced):
            self._words[self._slices + 2 * row + 1] = steps[parameter]

    def set_buffer(
        self, number: int, size: int, address: int, other: int = 0, shape: Sequence[int] = ()
    ) -> None:
        """Set where a result of a turn goes, and how large it may be: `other` is where that of the
        turn after it goes; turns that lie one behind the other have this `shape` and no other.
        """
        self._write(self._kept[number], shape)
        self._words[self._pointers + self._inputs + number] = address
        self._words[self._others + number] = other
        self._words[self._buffers + number] = size

    def scratch(self, number: int) -> int:
        """The bytes that there are for a result of a turn."""
        return self._words[self._buffers + number]

    def next_address(self, number: int) -> int:
        """Where a result of the next turn goes."""
        return self._words[self._pointers + self._inputs + number]

    def shape(self, number: int) -> tuple[int, ...]:
        """The sizes of a result of the last turn that was made."""
        first = self._kept[number]
        following = self._kept[number + 1] if number + 1 < len(self._kept) else self._others
        return tuple(self._words[first:following])

    def _write(self, first: int, sizes: Sequence[int]) -> None:
        for index, size in enumerate(sizes, first):
            self._words[index] = size

    @property
    def turn(self) -> int:
        """The number of the next turn."""
        return self._words[0]

    def make_turns(self, turn: int, stop: int, release: bool) -> int:
        """Turns from `turn` to `stop`: why it ended (see `turns_layout`). With `release` other
        Python
        threads run meanwhile.
        """
        self._words[0], self._words[1] = turn, stop
        if release:
            return int(_callable(STORE.address_of(RELEASED, self._target))(self._released))
        return int(_callable(STORE.address_of(TURNS, self._target))(self._address))


@functools.lru_cache(maxsize=2)
def _callable(address: int) -> Any:
    """A native function of a word, called with the lock of the interpreter, so that what a handler
    of a signal raises meanwhile is raised.
    """
    return ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(address)


#: The function that makes a call without the lock of the interpreter.
RELEASED = native_function("released", "uncork.kernels.runtime.emit_turns:emit_released")


#: The function that makes turns.
TURNS = native_function("turns", "uncork.kernels.runtime.emit_turns:emit_turns")


def prepare_turns(target: Target) -> None:
    """Have the functions compiled by which a table makes its turns. Raises CannotCompile."""
    STORE.address_of(TURNS, target)
    STORE.address_of(RELEASED, target)
