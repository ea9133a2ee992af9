"""Running sums along time."""

from __future__ import annotations

from collections.abc import Sequence

from uncork.ir.model import Node
from uncork.surgery.streams.flow import Flow, Refusal
from uncork.surgery.streams.rules import streams
from uncork.surgery.streams.walk import Walk


@streams("CumSum", how="keeps the sum so far; not in reverse")
def _cumsum(walk: Walk, node: Node, given: Sequence[Flow]) -> list[Flow]:
    """The last sum is one more frame before the others: the order of additions stays."""
    flow = given[0]
    axes = walk.numbers(node, 1) if len(node.inputs) > 1 else [0]
    if flow.kind != "time" or axes is None:
        raise Refusal("sums along an axis that is not known")
    axis = axes[0] % walk.writer.rank(flow.source)
    if axis != flow.axis:
        return walk.at_once(node, given)
    operation = node.operation
    assert operation is not None
    if operation.reverse:  # type: ignore[attr-defined]
        raise Refusal("sums from the end of the sequence", "a stream does not know its end")
    flow = walk.cleaned(walk.separate(flow), 0)
    writer, rest = walk.writer, [f.source for f in given[1:]]
    plain = operation.replace(exclusive=False)
    exclusive = operation.exclusive  # type: ignore[attr-defined]
    past = None
    initial = writer.filled(flow.source, axis, 1)
    if flow.history is not None:
        past = walk.copy(node, [flow.history, *rest])[0]
        sums = walk.copy(node, [flow.history, *rest], plain)[0]
        initial = writer.cut(sums, axis, -1)
    name, old = writer.variable(initial)
    both = writer.join(axis, old, flow.source)
    sums = walk.copy(node, [both, *rest], plain)[0]
    writer.assign(name, writer.cut(sums, axis, -1))
    source = writer.cut(sums, axis, 0, -1) if exclusive else writer.cut(sums, axis, 1)
    return [flow.moved(source, past, flow.shift)]
