"""The precision that the caller chose becomes a hint of the layers that multiply."""

from __future__ import annotations

from msgspec.structs import replace

from uncork.ir.model import Model
from uncork.ops._common.recurrent import RecurrentSequence
from uncork.ops.matmul import MatMul


def set_precision(model: Model, precision: str) -> Model:
    """The model with `precision` as hint of every GRU, LSTM and RNN sequence and every MatMul."""
    nodes = []
    for node in model.nodes:
        if isinstance(node.operation, (MatMul, RecurrentSequence)):
            node = replace(node, hints=replace(node.hints, precision=precision))
        nodes.append(node)
    return replace(model, nodes=tuple(nodes))
