"""The emitter that counts segments of ids in ascending order; `scatter/emit_segments.py` looks at
the order.
"""

from __future__ import annotations

from uncork.kernels.codegen.emit import I64, INDEX_TYPES, Kernel, emitter
from uncork.kernels.finding.spec import CountSegments


@emitter
def emit_count(k: Kernel, spec: CountSegments) -> None:
    """The LLVM text of the kernel."""
    ids, output, count = k.arguments
    index, segments = INDEX_TYPES[spec.index], k.variable(k.integer(0))
    with k.if_(count > 0):
        last = k.load(ids + (count - 1) * index.bytes, index).to(I64)
        k.stop_unless(last >= 0, k.integer(1))
        segments.set(last + 1)
    k.store(segments.get(), output)
