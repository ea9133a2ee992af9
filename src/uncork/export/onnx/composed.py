"""Composites in ONNX."""

from __future__ import annotations

from uncork.export.composed import composer
from uncork.export.onnx.graph import Graph, Tensor
from uncork.export.onnx.model import written
from uncork.ops.parameter import Const
from uncork.types import TensorSpec


def _constant(g: Graph, constant: Const) -> Tensor:
    return g.constant(constant.value, constant.element_type)


def _spec(tensor: Tensor) -> TensorSpec:
    return TensorSpec(tensor.type, tensor.shape, tensor.value, tensor.elements)


composed = composer(written, _constant, _spec)
