"""Composites in torch."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from uncork.export.composed import composer
from uncork.export.torch.model import KNOWN, known, written
from uncork.export.torch.writer import SMALL, Value, Writer
from uncork.ir.model import Node
from uncork.ops.parameter import Const
from uncork.types import TensorSpec


def _written(w: Writer, node: Node, inputs: Sequence[Value]) -> list[Value]:
    return written(w, replace(node, name=w.layer), inputs)


def _constant(w: Writer, constant: Const) -> Value:
    """Small ones are written out, others are buffers."""
    kind, shape = constant.element_type, constant.shape
    told = known(TensorSpec(kind, shape, constant.value))
    if told is not None or constant.count <= SMALL:
        return told or Value("", kind, shape, constant.value)
    value = constant.value if constant.count <= KNOWN else None
    return Value(w.weight(constant.value, kind, "numbers"), kind, shape, value)


def _spec(value: Value) -> TensorSpec:
    return TensorSpec(value.type, value.shape, value.value)


composed = composer(_written, _constant, _spec)
