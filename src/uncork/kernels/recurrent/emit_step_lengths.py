"""The emitter of the kernel that tells how far the rows of a sequence must run for the steps that
are asked for.
"""

from __future__ import annotations

from uncork.kernels.codegen.emit import I64, INDEX_TYPES, Kernel, emitter
from uncork.kernels.recurrent.spec import Lengths


@emitter
def emit_lengths(k: Kernel, spec: Lengths) -> None:
    """The LLVM text of `StepLengths`; the row, counted from 1, when its index or its length is
    refused.
    """
    indices, stride, lengths, output, batch, steps = k.arguments
    index, type_ = INDEX_TYPES[spec.index], INDEX_TYPES[spec.lengths]
    with k.loop(0, batch) as b:
        place = k.load(indices + b * stride, index).to(I64)
        if spec.wraps:
            place = k.select(place < 0, place + steps, place)
        length = k.load(lengths + b * type_.bytes, type_).to(I64)
        k.stop_unless(length.below(steps + 1), b + 1)
        inside = place.below(steps)
        if not spec.zeros:
            k.stop_unless(inside, b + 1)
        k.store(k.select(inside & (place < length), place + 1, k.integer(0)), output + b * 8)
