"""The emitter of SegmentMax: rows of a segment follow each other, so that each row is either the
first of its segment or is joined with the last row that was written.
"""

from __future__ import annotations

from collections.abc import Callable

from uncork.kernels.codegen.emit import I64, INDEX_TYPES, Kernel, Value, emitter
from uncork.kernels.codegen.functions import larger
from uncork.kernels.elementwise.emit import STORED, narrowed, widened
from uncork.kernels.scatter.spec_segments import MaxOfSegments


@emitter
def emit_max_of_segments(k: Kernel, spec: MaxOfSegments) -> None:
    """The LLVM text of the kernel."""
    data, ids, output, rows, segments, row, width = k.arguments
    index, stored = INDEX_TYPES[spec.index], STORED[spec.element]
    bits = INDEX_TYPES[f"i{stored.bits}"]
    #: How many segments are written, and the id before.
    begun, before = k.variable(k.integer(0)), k.variable(k.integer(0))

    def read(address: Value, mask: Value) -> Value:
        return k.load(address, stored, mask.lanes, mask)

    def write(target: Value, value: Callable[[Value, Value], Value]) -> None:
        """Write a row: `value(offset, mask)` are some of its elements."""
        with k.loop(0, width, spec.lanes) as first:
            mask, offset = k.lanes_below(width - first, spec.lanes), first * stored.bytes
            k.store(value(offset, mask), target + offset, mask)

    def leave_empty(end: Value) -> None:
        """Write the segments without rows before this one."""
        empty = k.splat(k.constant(spec.empty, bits), spec.lanes)
        with k.while_(lambda: begun.get() < end):
            write(output + begun.get() * row, lambda _offset, _mask: empty)
            begun.set(begun.get() + 1)

    with k.loop(0, rows) as i:
        segment = k.load(ids + i * index.bytes, index).to(I64)
        k.stop_unless(segment >= before.get(), k.integer(1))
        before.set(segment)
        source, target = data + i * row, output + segment * row

        def joined(
            offset: Value, mask: Value, source: Value = source, target: Value = target
        ) -> Value:
            new, best = (
                widened(k, spec.element, read(at + offset, mask)) for at in (source, target)
            )
            return narrowed(k, larger(k, new, best), spec.element)

        def copied(offset: Value, mask: Value, source: Value = source) -> Value:
            return read(source + offset, mask)

        with k.if_(segment < segments), k.if_else(segment >= begun.get()) as (first, later):
            with first:
                leave_empty(segment)
                write(target, copied)
                begun.set(segment + 1)
            with later:
                write(target, joined)
    leave_empty(segments)
