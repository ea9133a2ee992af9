"""The precision that the caller chose becomes a hint of every layer, for those that multiply."""

from __future__ import annotations

from functools import partial

from msgspec.structs import replace

from uncork.ir.model import Model, Node
from uncork.passes.rewrite import rewritten, with_bodies


def set_precision(model: Model, precision: str) -> Model:
    """The model with `precision` as hint of every layer, in bodies too. Products that passes make
    of other layers have it from them.
    """

    def hinted(node: Node) -> Node:
        node = with_bodies(node, partial(set_precision, precision=precision))
        return replace(node, hints=replace(node.hints, precision=precision))

    return rewritten(model, hinted)
