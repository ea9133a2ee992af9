"""The arguments of the step that runs one of two bodies: names and order of 64-bit words."""

from __future__ import annotations

#: The function that makes turns, of which each body makes one; the address of the condition; the
#: table of each body and the number of its pairs. Behind them are those of the first body, then
#: those of the second: the address of a word of the table, and what is written there before the
#: body runs.
BRANCH = ("turns", "condition", "then", "then_count", "other", "other_count")
