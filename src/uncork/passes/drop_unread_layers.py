"""Layers that neither a Result nor an Assign needs do not run.

A file is read without them; models that were built, or made of ONNX files, still have them. That is
a matter of meaning: such a layer might refuse the values or the sizes of a call, and then the same
model would be called as a file and refused as it was built. Bodies are looked into.
"""

from __future__ import annotations

from uncork.ir.model import Model
from uncork.passes.rewrite import pruned, rewritten, with_bodies


def drop_unread_layers(model: Model) -> Model:
    """The model, and its bodies, without such layers."""
    return rewritten(pruned(model), lambda node: with_bodies(node, drop_unread_layers))
