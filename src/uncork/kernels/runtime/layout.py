"""The tables of a native segment: names and orders of the 64-bit words that Python writes and
native code reads.

A segment is a run of kernel calls. Its block holds a head (`HEAD`) and tables, each given in the
head by number of entries and address. Words that depend on sizes are written again only when a size
has changed (`resize`).

A call may go on with the segment `next`, whose sizes the one before it has found: the native entry
runs one after the other. The first one has in `made` how many results they make together, which
come in a list, or another way to return (`ALONE`, `ANSWER`).
"""

from __future__ import annotations

#: What a segment returns. `OK`: all went well. `OTHER_ARGUMENTS`: the arguments are not what it was
#: made for. `BUSY`: another thread is in it. `CHECK_FAILED`: sizes contradict each other.
#: `GUARD_FAILED`: sizes need another plan. `NO_MEMORY`: the working memory is too small.
#: `OVERFLOW`: a size does not fit 64 bits. Nothing was run then. Numbers from 0 are those of the
#: steps that declined.
OK, OTHER_ARGUMENTS, BUSY, CHECK_FAILED, GUARD_FAILED, NO_MEMORY, OVERFLOW = (
    -1,
    -2,
    -3,
    -4,
    -5,
    -6,
    -7,
)

#: The one result comes without a list.
ALONE = -1
#: No result is made, and behind the arguments that guards look at there may be two more: what is
#: returned where all went well, and what is called where not, for what it returns. It gets what
#: comes behind, and refuses it.
ANSWER = -2

#: The head of a segment's block: first what every call reads, which is in as few cache lines as it
#: goes, then what only new sizes or new results ask for.
HEAD = (
    "busy", "stamp", "release", "context", "array_guards", "array_guard_table", "array_type",
    "binds", "bind_table", "made", "next", "results", "result_table", "addresses", "address_table",
    "steps", "step_table", "long", "none", "list", "take", "set_item", "empty", "save", "restore",
    "drop", "occurred", "resize", "cost", "release_cost", "ops", "op_table", "checks",
    "check_table", "buffers", "buffer_table", "live", "live_before", "patches", "patch_table",
    "call",
)  # fmt: skip

#: The context that all segments of one running call share: working memory, its bytes, the bytes
#: that the sizes need, a number that grows whenever a size changes, and the number of the check
#: that failed. Slots follow.
CONTEXT = ("memory", "capacity", "needed", "version", "failed")

#: (element type, rank or -1 for an object, flags, address of sizes)
ARRAY_GUARD = ("kind", "rank", "flags", "sizes")
#: (kind, argument, axis or offset, slot): sizes of this call.
BIND = ("kind", "argument", "detail", "slot")
BIND_SHAPE, BIND_I64, BIND_I32 = range(3)
#: (operation, address of a, address of b, address of the result)
OP = ("operation", "a", "b", "result")
OPERATIONS = ("mul", "add", "sub", "floordiv", "max", "min", "greater_equal", "equal", "and")
#: (kind, address of a, address of b, number)
CHECK = ("kind", "a", "b", "number")
CHECK_EQUAL, CHECK_AT_LEAST, GUARD_EQUAL, GUARD_AT_LEAST, GUARD_NOT_EQUAL = range(5)
#: (address of the bytes, first step, last step, address of the offset)
BUFFER = ("bytes", "first", "last", "offset")
#: (address of the word, its bytes, constant, addresses of three words that are added to it)
PATCH = ("target", "width", "constant", "a", "b", "c")
#: (argument, offset, address of a further offset, address of the word)
ADDRESS = ("argument", "offset", "more", "target")
#: (element type, rank, address of sizes, number among the results of the call)
RESULT = ("dtype", "rank", "sizes", "number")
#: (kernel, address of its arguments, address of the condition)
STEP = ("function", "arguments", "condition")

#: Buffers begin at multiples of this many bytes: a cache line, and a full vector.
ALIGNMENT = 64
