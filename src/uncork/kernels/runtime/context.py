"""Memory of one running call: sizes, the places of buffers, the working memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from uncork.kernels.runtime.addresses import address_of_words
from uncork.kernels.runtime.layout import ALIGNMENT, CONTEXT
from uncork.kernels.runtime.segment_plan import SizeOperand, Slot
from uncork.types import Array


class Context:
    """Memory of one running call: slots, the places of buffers, the working memory. Segments of the
    call share it.
    """

    def __init__(self, slots: Sequence[int], buffers: int, tensor_bytes: int = 0) -> None:
        """`slots`: their first values; constants keep theirs."""
        #: How many there are.
        self.buffers = buffers
        self._slots_at = len(CONTEXT)
        self._offsets_at = self._slots_at + len(slots)
        #: A word that is 0 and one that is 1.
        self._zero_at = self._offsets_at + buffers
        self._tensors_at = self._zero_at + 2
        self.words = np.zeros(self._tensors_at + -(-tensor_bytes // 8), np.int64)
        self.words[self._slots_at : self._offsets_at] = slots
        self.words[self._zero_at + 1] = 1
        self.words[CONTEXT.index("version")] = 1
        self._base = address_of_words(self.words, "context")
        self.memory = np.empty(0, np.uint8)

    def slot(self, number: int) -> int:
        """The address of a slot."""
        return self._base + 8 * (self._slots_at + number)

    def offset(self, buffer: int) -> int:
        """The address of the word that says where a buffer lies."""
        return self._base + 8 * (self._offsets_at + buffer)

    def tensor(self, first: int) -> int:
        """The address of a tensor of sizes."""
        return self._base + 8 * self._tensors_at + first

    def tensor_array(self, first: int, dtype: np.dtype[Any], sizes: Sequence[int]) -> Array:
        """A tensor of sizes as it is for this call."""
        count = math.prod(sizes)
        result: Array = (
            self.words[self._tensors_at :]
            .view(np.uint8)[first : first + count * dtype.itemsize]
            .view(dtype)
            .reshape(sizes)
        )
        return result

    def word(self, name: str) -> int:
        """The address of a word of the context."""
        return self._base + 8 * CONTEXT.index(name)

    @property
    def zero(self) -> int:
        """The address of a word that is 0."""
        return self._base + 8 * self._zero_at

    @property
    def one(self) -> int:
        """The address of a word that is 1."""
        return self.zero + 8

    @property
    def base(self) -> int:
        """The address of the context."""
        return self._base

    def get(self, name: str) -> int:
        """A word of the context."""
        return int(self.words[CONTEXT.index(name)])

    def value(self, number: SizeOperand) -> int:
        """The number that an operand is in this call."""
        return number if isinstance(number, int) else int(self.words[self._slots_at + number.index])

    def set_symbol(self, slot: Slot, value: int) -> None:
        """Bind a symbol from Python; segments notice when it has changed."""
        location = self._slots_at + slot.index
        if int(self.words[location]) != value:
            self.words[location] = value
            self.words[CONTEXT.index("version")] += 1

    def location(self, buffer: int) -> int:
        """Where a buffer begins in the working memory, for the sizes of this call."""
        return (
            int(self.words[self._offsets_at + buffer])
            + int(self.words[0])
            - int(self.memory.ctypes.data)
        )

    def grow(self, needed: int, limit: int) -> None:
        """Make the working memory so large, and if the limit allows it a little larger, so that it
        does not grow at every call.
        """
        self.memory = np.empty(0, np.uint8)  # the old one goes first
        self.memory = np.empty(min(needed + needed // 8, limit) + ALIGNMENT, np.uint8)
        base = -(-int(self.memory.ctypes.data) // ALIGNMENT) * ALIGNMENT
        self.words[0] = base
        self.words[1] = self.memory.nbytes - ALIGNMENT
        self.words[CONTEXT.index("version")] += 1

    def forget_capacity(self) -> None:
        """Have segments take the working memory for none at all."""
        self.words[CONTEXT.index("capacity")] = 0

    def release(self) -> None:
        """Give the working memory back; the next call takes some again."""
        self.memory = np.empty(0, np.uint8)
        self.words[:2] = 0
        self.words[CONTEXT.index("version")] += 1
