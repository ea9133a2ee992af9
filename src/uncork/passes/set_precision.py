"""The precision that the caller chose becomes a hint of recurrent layers."""

from __future__ import annotations

from msgspec.structs import replace

from uncork.ir.model import Model
from uncork.ops._common.recurrent import RecurrentSequence


def set_precision(model: Model, precision: str) -> Model:
    """The model with `precision` as hint of every GRU, LSTM and RNN sequence."""
    nodes = []
    for node in model.nodes:
        if isinstance(node.operation, RecurrentSequence):
            node = replace(node, hints=replace(node.hints, precision=precision))
        nodes.append(node)
    return replace(model, nodes=tuple(nodes))
