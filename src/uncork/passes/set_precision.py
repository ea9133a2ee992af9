"""The precision that the caller chose becomes a hint of the layers that multiply."""

from __future__ import annotations

from functools import partial

from msgspec.structs import replace

from uncork.ir.model import Model, Node
from uncork.ops._common.recurrent import RecurrentSequence
from uncork.ops.convolution import Convolution1
from uncork.ops.convolution_backprop import ConvolutionBackpropData1
from uncork.ops.matmul import MatMul
from uncork.passes.rewrite import rewritten, with_bodies

#: What multiplies factors that may be rounded.
ROUNDED = (Convolution1, ConvolutionBackpropData1, MatMul, RecurrentSequence)


def set_precision(model: Model, precision: str) -> Model:
    """The model with `precision` as hint of every layer of these types, in bodies too."""

    def hinted(node: Node) -> Node:
        if isinstance(node.operation, ROUNDED):
            return replace(node, hints=replace(node.hints, precision=precision))
        return with_bodies(node, partial(set_precision, precision=precision))

    return rewritten(model, hinted)
