"""The tables of a loop whose turns are native segments: names and orders of 64-bit words."""

from __future__ import annotations

from uncork.kernels.runtime.layout import GUARD_FAILED

#: Why turns end, beyond what a segment says (see `layout`; a step that declines is told by its
#: number): `REACHED` the turn at which to stop, `STOPPED` by the condition, `NO_BUFFER` for what a
#: turn gives, `OTHER_SIZES` than the body's Parameters take. A step that runs a body says besides
#: that the call is `UNFIT` for it, or that a signal has `INTERRUPTED` the loop.
REACHED, STOPPED, NO_BUFFER, OTHER_SIZES, UNFIT, INTERRUPTED = -1, -20, -21, -22, -23, -24
#: Statuses of a body whose plan is not for the sizes of a call.
MISFITS = (GUARD_FAILED, NO_BUFFER, OTHER_SIZES, UNFIT)
#: More turns than any loop makes.
NEVER = 1 << 62

#: The head: the next turn, the turn at which to stop, the block of the first segment; where the
#: number of the turn is written and in how many bytes; the word that holds the address of what
#: decides on another turn; 0 where there is none. Then the addresses of all arguments, and tables.
#: `status` is for steps that run the body: why the last run ended, `REACHED` where all went well.
TURNS_HEAD = (
    "turn", "stop", "block", "counter", "counter_width", "decides", "pointers",
    "part_rows", "part_table", "bind_rows", "bind_table", "fixed_rows", "fixed_table",
    "buffer_rows", "buffer_table", "edge_rows", "edge_table", "slice_rows", "slice_table", "status",
)  # fmt: skip
#: A segment of a turn: (its block, the first of the results that it makes in the table of results,
#: the one after the last). Segments follow each other: each binds sizes that those before it found.
TURN_PART = ("block", "first", "end")
#: Sizes of this turn: (kind as of a segment, the word of the size or of an address, offset, slot)
TURN_BIND = ("kind", "place", "offset", "slot")
#: A size of a Parameter that is a number: (its word, the number)
FIXED = ("place", "number")
#: A result: (the word of its address; that of the address which it has in the next turn, 0 where
#: turns lie one behind the other; that of the bytes that there are; bytes of an element;
#: dimensions; a table of where its sizes are; where those of the last turn are kept)
TURN_BUFFER = ("pointer", "other", "buffer", "width", "rank", "sizes", "kept")
#: What is carried to the next turn: (the word of the result's address, that of the Parameter's,
#: dimensions, sizes kept by the result, those of the Parameter)
EDGE = ("result", "parameter", "rank", "kept", "sizes")
#: A Parameter that is sliced: (the word of its address, bytes from part to part)
SLICE = ("pointer", "step")
