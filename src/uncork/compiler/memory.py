"""Where intermediate results lie: one block of memory for a whole call, used again as soon as a
result is no longer needed.
"""

from __future__ import annotations

import heapq
from bisect import insort
from collections.abc import Sequence

from msgspec import Struct

#: Buffers begin at multiples of this many bytes: a cache line, and a full vector.
ALIGNMENT = 64


class Buffer(Struct, frozen=True):
    """Room for `size` bytes, needed from step `first` to step `last`, both included."""

    size: int
    first: int
    last: int


def plan_buffers(buffers: Sequence[Buffer]) -> tuple[list[int], int]:
    """The offset of each buffer, and the bytes of all. Buffers that are needed at the same time do
    not overlap.

    First fit in the order of their beginnings: linear in the number of buffers where few are needed
    at a time.
    """
    offsets = [0] * len(buffers)
    ending: list[tuple[int, int]] = []  # (last step, number) of the buffers in use
    used: list[tuple[int, int, int]] = []  # (offset, end, number), in order
    total = 0
    for number in sorted(range(len(buffers)), key=lambda n: buffers[n].first):
        buffer = buffers[number]
        while ending and ending[0][0] < buffer.first:
            _, gone = heapq.heappop(ending)
            used = [entry for entry in used if entry[2] != gone]
        size = -(-max(1, buffer.size) // ALIGNMENT) * ALIGNMENT
        offset = 0
        for begin, end, _ in used:
            if begin - offset >= size:
                break
            offset = end
        offsets[number] = offset
        insort(used, (offset, offset + size, number))
        heapq.heappush(ending, (buffer.last, number))
        total = max(total, offset + size)
    return offsets, total
