"""The emitter of the kernel that gathers rows of a quantized table.

The kernel returns 0, or a positive number when some index must be refused; the reference then finds
and words the reason.
"""

from __future__ import annotations

from uncork.kernels.codegen.emit import INDEX_TYPES, Kernel, Value, emitter
from uncork.kernels.embedding.emit_rows import reader_of
from uncork.kernels.embedding.spec_bags import QuantizedGather

#: At most so many columns of a row to be copied: the machine's own prefetcher follows a long one.
_PREFETCHED = 1024


@emitter
def emit_gather(k: Kernel, spec: QuantizedGather) -> None:
    """The LLVM text of a gather kernel: an index outside the table gives zeros, or is refused by a
    strict kernel.
    """
    a = k.named
    type_ = INDEX_TYPES[spec.index]
    reader = reader_of(k, spec.rows, a)
    groups, count = spec.rows.groups, a["count"]

    def place(position: Value) -> Value:
        address = a["indices"] + position * type_.bytes
        return k.index_at(address, type_, a["rows"], spec.wraps)

    with k.loop(0, count) as position:
        ahead = place(k.minimum(position + reader.ahead, count - 1)) * groups
        for group in range(min(groups, max(1, _PREFETCHED // spec.rows.columns))):
            reader.prefetch(ahead + group, k.integer(0), min(spec.rows.columns, _PREFETCHED))
        index = place(position)
        target = a["output"] + position * (groups * reader.row_bytes)
        with k.if_else(index.below(a["rows"]), likely=True) as (inside, outside):
            with inside:
                reader.copy_row(index, target)
            with outside:
                if spec.strict:
                    k.stop_unless(index.below(a["rows"]), k.integer(1))
                reader.zeros(target)
