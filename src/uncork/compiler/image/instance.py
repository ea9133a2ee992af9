"""Instances of plan images: the words of one running call, put where they are."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from uncork.compiler.image import format
from uncork.concurrency import lazy, renews_locks
from uncork.kernels.runtime import thread_pool
from uncork.kernels.runtime.entry_method import MethodDefinition, bound_to, lays_out_as_expected
from uncork.kernels.runtime.exec_memory import mapped
from uncork.kernels.runtime.layout import ALIGNMENT, CONTEXT, HEAD
from uncork.kernels.runtime.loop_layout import ROOM
from uncork.kernels.runtime.native_block import NativeBlock, free_rooms
from uncork.kernels.runtime.symbols import symbol_address
from uncork.kernels.runtime.turns_layout import MISFITS, TURNS_HEAD
from uncork.memory import allowed, available, needs_most
from uncork.types import Array

_MEMORY, _CAPACITY, _NEEDED, _VERSION, _FAILED = range(len(CONTEXT))
_BUSY = HEAD.index("busy")
_STATUS = TURNS_HEAD.index("status")


class LoadedCode:
    """The code of an image in memory that may be executed, and its functions."""

    def __init__(self, code: bytes, functions: dict[str, int]) -> None:
        """Raises OSError where such memory is forbidden."""
        self.memory = mapped(code)
        self.address = int(self.memory.ctypes.data)
        self.functions = {name: self.address + offset for name, offset in functions.items()}
        thread_pool.pool(lambda: self.functions["serve"])

    @lazy
    def entry(self) -> MethodDefinition | None:
        """The method table of calls from Python; None where ctypes makes them."""
        if not lays_out_as_expected():
            return None
        return MethodDefinition.of(self.functions["segment_entry"])


class LoadedPlan:
    """A plan of a compiled file, mapped: what instances are made of."""

    def __init__(self, plan: format.Plan, data: Any, constants: Array, code: LoadedCode) -> None:
        self.plan, self.code = plan, code
        self._words = format.array(data, plan.words, np.int64)
        relocated = format.array(data, plan.relocated, np.uint32)
        bases = format.array(data, plan.bases, np.uint32)
        # One after the other: a symbol may load what another one stands for.
        known = [0, int(constants.ctypes.data), code.address, *map(symbol_address, plan.symbols)]
        self._constants = constants
        #: The words that are addresses, what is added to each, and which are in the words
        #: themselves.
        self._relocated, self._added = relocated, np.array(known, np.int64)[bases]
        self._inner = relocated[bases == 0]

    def words(self) -> Array:
        """The words of a new instance, at the beginning of a cache line."""
        memory = np.empty(self._words.nbytes + ALIGNMENT, np.uint8)
        first = -memory.ctypes.data % ALIGNMENT
        words: Array = memory[first : first + self._words.nbytes].view(np.int64)
        words[:] = self._words
        words[self._relocated] += self._added
        words[self._inner] += int(words.ctypes.data)
        return words


class Instance:
    """The memory of one call at a time.

    `run(*inputs, *nothing)` gives a list of new arrays, or a number: see `layout`.
    """

    def __init__(self, loaded: LoadedPlan, memory_limit: int | None = None) -> None:
        """It takes at most `memory_limit` bytes of working memory."""
        self._loaded, self._memory_limit = loaded, memory_limit
        self.words = loaded.words()
        self._memories: dict[int, Array] = {}
        rooms = loaded.plan.rooms
        for room in rooms:
            room_bytes = min(available()[0] // 2, memory_limit or 1 << 62) // len(rooms)
            self.words[room + ROOM.index("most")] = room_bytes
        self._block = block = self.words.view(NativeBlock)
        block.keep = (loaded, self._memories, _Rooms(self.words, loaded.plan.rooms))
        renews_locks(block)
        entry = loaded.code.entry
        self.run: Any = block.run_by_ctypes if entry is None else bound_to(entry, block)

    # ---- memory

    @property
    def working_bytes(self) -> int:
        """The working memory that is kept now."""
        rooms = sum(int(self.words[r + ROOM.index("bytes")]) for r in self._loaded.plan.rooms)
        return sum(memory.nbytes for memory in self._memories.values()) + rooms

    @property
    def lacks_memory(self) -> bool:
        """Whether the last sizes need more working memory than there is."""
        return bool(self._lacking())

    def bodies_lack_memory(self) -> bool:
        """Whether a body that a step runs has asked for memory in vain."""
        return self.lacks_memory

    def _lacking(self) -> list[int]:
        return [
            context
            for context in self._loaded.plan.contexts
            if self.words[context + _NEEDED] > self.words[context + _CAPACITY]
        ]

    def grow(self) -> None:
        """Take the working memory that the sizes need, of bodies too; nobody may be in a call.

        Raises MemoryError where there is not so much, or `memory_limit` forbids it.
        """
        needed = sum(int(self.words[c + _NEEDED]) for c in self._lacking())
        limit = allowed(needed, self._memory_limit, self._largest)
        for context in self._lacking():
            needed = int(self.words[context + _NEEDED])
            self.words[context + _CAPACITY] = 0
            self._memories.pop(context, None)  # the old one goes first
            memory = np.empty(min(needed + needed // 8, max(needed, limit)) + ALIGNMENT, np.uint8)
            self._memories[context] = memory
            self.words[context + _MEMORY] = memory.ctypes.data + -memory.ctypes.data % ALIGNMENT
            self.words[context + _CAPACITY] = memory.nbytes - ALIGNMENT
            self.words[context + _VERSION] += 1

    def _largest(self) -> str:
        return needs_most((layer, self.slot(slot)) for slot, layer in self._loaded.plan.buffers)

    def copy_needs(self, other: Instance) -> None:
        """Need as much memory as another instance does."""
        for context in self._loaded.plan.contexts:
            self.words[context + _NEEDED] = other.words[context + _NEEDED]

    def shut_out(self) -> bool:
        """Have calls to come ask for working memory. Whether no call is in the instance."""
        for context in self._lacking():
            self.words[context + _CAPACITY] = 0
        self._block.forget_sizes()
        return not self.words[_BUSY]

    def misfits(self) -> bool:
        """Whether the last call was not for the plan of a body that a step runs."""
        return any(self.words[turns + _STATUS] in MISFITS for turns in self._loaded.plan.turns)

    # ---- sizes

    def slot(self, number: int) -> int:
        """The number in a slot of the plan's context."""
        return int(self.words[self._loaded.plan.contexts[0] + len(CONTEXT) + number])

    @property
    def failed(self) -> int:
        """The number of the condition that did not hold."""
        return int(self.words[self._loaded.plan.contexts[0] + _FAILED])

    def bind(self, arguments: Sequence[Any]) -> int:
        """Bind the sizes of a call, which is not made: OK or why not."""
        return self._block.bind(arguments)


class _Rooms:
    """The memory that native code took for what grows as it runs; given back when this goes."""

    def __init__(self, words: Array, rooms: Sequence[int]) -> None:
        if rooms:
            weakref.finalize(self, free_rooms, words, rooms).atexit = False
