"""The arguments of the step that makes the turns of a loop: names and order of 64-bit words."""

from __future__ import annotations

#: The function that makes turns, and the table of the body. How many turns: a number or, where
#: `count_width` is not 0, the address of one of so many bytes; below 0 it is without a limit. The
#: address of the condition, or 0. The turn before which somebody has to look whether the loop may
#: go on. 1 where all outputs that are put together need every turn. Numbers of rows, each of the
#: tables below, which follow the head in this order. Then functions of Python (`LOOP_FUNCTIONS`).
LOOP = (
    "turns", "control", "count_at", "count_width", "count", "condition", "limit", "whole",
    "pairs", "parts", "inward", "outward", "ends", "kept", "grown",
    "held", "save", "restore", "enter", "leave", "signals", "realloc", "free",
)  # fmt: skip
#: What a step calls of Python, when the loop is a long one: whether this thread holds the lock of
#: the interpreter, its release and its return, a visit from a thread that may not hold it, and its
#: end; a look at signals, whose handlers may raise; memory that grows, and is given back.
LOOP_FUNCTIONS = (
    "held", "save", "restore", "enter", "leave", "signals", "realloc", "free"
)  # fmt: skip
#: A word of the table of the body, and what is written there before the first turn.
PAIR = ("address", "value")
#: How many turns an input has parts for.
PARTS = ("count",)
#: A copy of each turn, in runs of neighbouring bytes, between a part where the body takes or gives
#: it and its place in the whole tensor. `part` is an address (inward) or that of the word which
#: holds it (outward); `whole` is where the part of the first turn begins, and `step` the bytes to
#: the next one.
COPY = ("part", "whole", "step", "runs", "bytes", "stride")
#: An output that is what the last turn gave: (the word of the result's address, that of the address
#: which it has in the turn after, or 0; what to add to find what was written last; the output and
#: its bytes; what it is when there was no turn, or 0; 1 where the result goes to the output at once
#: if the number of turns is odd)
END = ("pointer", "other", "delta", "output", "bytes", "initial", "direct")
#: A size of a result after the last turn: (its word, what the plan knows)
KEPT = ("address", "size")
#: An output that has as many parts as there are turns: (the word that holds the address of the part
#: of the last turn; its bytes; the room that takes the parts; how many elements of the axis a part
#: has; the slot of the output's size, the address of the version of sizes, and where the address of
#: the room goes, for the step that joins the parts)
GROWN = ("part", "bytes", "room", "elements", "slot", "version", "found")
#: Memory that parts lie in, one behind the other: its address, its bytes, the most that it may have.
ROOM = ("address", "bytes", "most")
#: The arguments of the step that makes an output of the parts in a room: where the address of the
#: room is; the size of the output, and how many elements of it a part has; where the first part
#: goes, and the bytes to the next one; the runs of neighbouring bytes that a part consists of, the
#: bytes of each, and those from one to the next in the output. What gives memory back.
JOIN = ("found", "size", "elements", "first", "step", "runs", "bytes", "stride", "free")
#: Bytes of a room at first, and the most that are kept after a call.
FIRST_ROOM, KEPT_ROOM = 4096, 1 << 22

#: Nanoseconds of turns between two looks at signals, about, and so many from which on other Python
#: threads run meanwhile.
LOOK, RELEASE = 20_000_000, 50_000
