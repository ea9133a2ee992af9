"""Values rounded to the levels of a quantization."""

from __future__ import annotations

from uncork.decompositions.language import Layers
from uncork.decompositions.registry import composite
from uncork.ir.model import Source
from uncork.ops.fake_quantize import FakeQuantize


@composite("FakeQuantize")
def fake_quantize(g: Layers, op: FakeQuantize, x: Source, *limits: Source) -> Source:
    """Values rounded to one of `levels` steps, halves to even."""
    in_low, in_high, out_low, out_high = (g.placed(op, x, limit) for limit in limits)
    steps = op.levels - 1
    inside = g.over(g.minus(x, in_low), g.minus(in_high, in_low))
    step = g.make("Round", g.times(inside, steps), mode="half_to_even")
    between = g.plus(g.times(g.over(step, steps), g.minus(out_high, out_low)), out_low)
    above = g.make("Greater", x, g.largest(in_low, in_high))
    below = g.make("LessEqual", x, g.least(in_low, in_high))
    return g.select(below, out_low, g.select(above, out_high, between))
