"""The tables of a loop whose turns are one native segment: names and orders of the words that Python writes and native code reads."""

from __future__ import annotations

#: Why turns end, beyond what a segment says (see `layout`; a step that declines is told by its number): `REACHED` the turn at which
#: to stop, `STOPPED` by the condition, no `ROOM` for what a turn gives, `OTHER_SIZES` than the body's Parameters take.
REACHED, STOPPED, ROOM, OTHER_SIZES = -1, -20, -21, -22

#: The head: the next turn, the turn at which to stop, the segment's block; where the number of the turn is written and in how many
#: bytes; the word that holds the address of what decides on another turn. 0 where there is none.
TURNS_HEAD = (
    "turn", "stop", "block", "counter", "counter_width", "decides",
    "pointers", "binds", "bind_table", "fixed", "fixed_table", "rooms", "room_table", "edges", "edge_table", "slices", "slice_table",
)  # fmt: skip
#: Sizes of this turn: (kind as of a segment, the word of the size or of an address, offset, slot)
TURN_BIND = ("kind", "place", "offset", "slot")
#: A size of a Parameter that is a number: (its word, the number)
FIXED = ("place", "number")
#: A result: (the word of its address; the word of the address that it has in the next turn, or 0 where the turns lie behind each
#: other; the word of the bytes that there are; bytes of an element; dimensions; a table of where its sizes are; where they are kept)
TURN_ROOM = ("pointer", "other", "room", "width", "rank", "sizes", "kept")
#: What is carried to the next turn: (the word of the result's address, that of the Parameter's, dimensions, sizes kept by the
#: result, those of the Parameter)
EDGE = ("result", "parameter", "rank", "kept", "sizes")
#: A Parameter that is sliced: (the word of its address, bytes from part to part)
SLICE = ("pointer", "step")
