"""The precision that the caller chose becomes a hint of the layers that multiply."""

from __future__ import annotations

from msgspec.structs import replace

from uncork.ir.model import Model
from uncork.ops._common.recurrent import RecurrentSequence
from uncork.ops.convolution import Convolution1, GroupConvolution1
from uncork.ops.matmul import MatMul

_TYPES = (Convolution1, GroupConvolution1, MatMul, RecurrentSequence)


def set_precision(model: Model, precision: str) -> Model:
    """The model with `precision` as hint of every layer of these types."""
    nodes = []
    for node in model.nodes:
        if isinstance(node.operation, _TYPES):
            node = replace(node, hints=replace(node.hints, precision=precision))
        nodes.append(node)
    return replace(model, nodes=tuple(nodes))
