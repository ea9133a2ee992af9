"""The arguments of the step that runs one of two bodies: names and order of 64-bit words."""

from __future__ import annotations

#: The function that makes turns, of which each body makes one; the address of the condition; what
#: makes memory grow; the tables of both bodies; how many words those of the first body take below.
#: Behind them are those words, then the ones of the second body: numbers of rows (`COUNTS`), and
#: the rows.
BRANCH = ("turns", "condition", "realloc", "then", "other", "then_words")
COUNTS = ("pairs", "rooms", "sizes", "alike")
#: A word of the table of the body, and what is written there before it runs.
PAIR = ("address", "value")
#: A result of sizes that only the body tells: (its row in the table of results; the room that it
#: goes to, see `loop_layout`; where the address of the room goes, for the step that copies it)
ROOM_OF = ("row", "room", "found")
#: A size that only the body tells: (the word that holds it, its slot, the address of the version of
#: sizes)
SIZE = ("kept", "slot", "version")
#: A size of such a result that is known: (the word that holds it, the size)
ALIKE = ("kept", "size")
