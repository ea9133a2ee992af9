"""How the score of a box falls by its overlaps with better ones, as MatrixNms has it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from uncork.kernels.codegen.activations import exp
from uncork.kernels.codegen.emit import F32, Kernel, Value
from uncork.kernels.codegen.functions import larger, smaller
from uncork.kernels.codegen.joining import joined
from uncork.kernels.detection.emit_boxes import Boxes, overlap_of
from uncork.kernels.detection.spec import Classify


def decayed(
    k: Kernel,
    spec: Classify,
    better: Boxes,
    largest: Value,
    count: Value,
    own: Sequence[Value],
    sigma: Value,
) -> tuple[Value, Value]:
    """The factor of the score of a box and its largest overlap with `count` better ones, of each of
    which `largest` has the same.
    """
    lanes = spec.lanes
    one, zero, infinite = (k.constant(number, F32, lanes) for number in (1.0, 0.0, math.inf))
    wide = [k.splat(number, lanes) for number in own]
    factors, overlaps = k.variable(infinite), k.variable(zero)
    with k.loop(0, count, lanes) as first:
        mask = k.lanes_below(count - first, lanes)
        other = better.at(first, lanes)
        share = k.select(mask, overlap_of(k, other, wide), zero)
        before = k.load(largest + first * F32.bytes, F32, lanes)
        if spec.decay == "gaussian":
            factor = exp(k, (before * before - share * share) * k.splat(sigma, lanes))
        else:
            repeated = before.equals(1.0)
            factor = k.select(repeated, infinite, (one - share) / (one - before))
        factors.set(k.select(mask, smaller(k, factors.get(), factor), factors.get()))
        overlaps.set(larger(k, overlaps.get(), share))
    factor, most = joined(k, factors.get(), smaller), joined(k, overlaps.get(), larger)
    return k.select(count > 0, factor, k.constant(1.0, F32)), most
