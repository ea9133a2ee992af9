"""ONNX models made and run in a line, for the tests of the front end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import uncork
from uncork.onnx.tensors import ExternalFiles, value_of
from uncork.storage import decode
from uncork.types import Array, ElementType


def values_of(given: Any) -> tuple[Array, ElementType]:
    """The values of an array or a TensorProto of the test data, as a call takes and gives them."""
    tensor = given if isinstance(given, TensorProto) else numpy_helper.from_array(np.asarray(given))
    array, kind = value_of(tensor, ExternalFiles(None, False))
    return (decode(array, kind) if kind.is_float and not kind.is_native else array), kind


def model_of(
    nodes: Sequence[onnx.NodeProto],
    inputs: dict[str, Sequence[int | str | None]],
    outputs: Sequence[str],
    constants: dict[str, Array] | None = None,
    opset: int = 17,
    types: dict[str, int] | None = None,
    **more: Any,
) -> onnx.ModelProto:
    """A model of nodes; inputs are of f32 unless `types` says otherwise."""
    types = types or {}
    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info(n, types.get(n, 1), s) for n, s in inputs.items()],
        [helper.make_tensor_value_info(n, types.get(n, 1), None) for n in outputs],
        [numpy_helper.from_array(v, n) for n, v in (constants or {}).items()],
    )
    domains = {node.domain for node in nodes} - {""}
    imports = [
        helper.make_opsetid("", opset),
        *(helper.make_opsetid(d, 1) for d in sorted(domains)),
    ]
    return helper.make_model(graph, opset_imports=more.pop("opset_imports", imports), **more)


def run(model: onnx.ModelProto, *arrays: Array) -> list[Array]:
    """What the references give."""
    compiled = uncork.load(model.SerializeToString(), backend="reference")
    return list(compiled(*arrays))
