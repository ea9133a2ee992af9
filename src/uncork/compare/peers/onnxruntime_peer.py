"""ONNX Runtime as a peer: the ONNX file that the model was made from, its values made outputs,
without its optimisations.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from uncork.compare.peers.base import GivenInput, in_order
from uncork.compare.tensors import PeerModel, PeerTensor
from uncork.types import Array


class OnnxRuntimePeer:
    """ONNX Runtime as a peer; see the module."""

    def __init__(self, path: str, inputs: Sequence[GivenInput], weights: str | None = None) -> None:
        self._onnx = importlib.import_module("onnx")
        self._ort = importlib.import_module("onnxruntime")
        self._proto = self._onnx.load(path)
        graph = self._proto.graph
        constants = {tensor.name for tensor in graph.initializer}
        names = [value.name for value in graph.input if value.name not in constants]
        self._inputs = dict(
            zip(
                names,
                (self._array(given) for given in in_order(inputs, [(name,) for name in names])),
                strict=True,
            )
        )
        self._results = [value.name for value in graph.output]
        tensors = [PeerTensor(name, name, "Parameter", 0, (name,)) for name in names]
        for node in graph.node:
            read = tuple(name for name in node.input if name)
            tensors += [
                PeerTensor(name, name, node.op_type, i, (name,), read)
                for i, name in enumerate(node.output)
                if name
            ]
        self.model = PeerModel(tuple(tensors), tuple(names))

    def _array(self, given: GivenInput) -> Any:
        if given.element_type == "bf16":
            raise ValueError("ONNX Runtime takes no arrays of bf16")
        return given.array

    def outputs(self) -> list[Array]:
        """The results of the model as it is."""
        return self._run(self._proto, self._results)

    def values(self, keys: Sequence[str]) -> list[Array]:
        """The values of tensors by their names."""
        proto = self._onnx.ModelProto()
        proto.CopyFrom(self._proto)
        del proto.graph.output[:]
        proto.graph.output.extend(
            self._onnx.helper.make_empty_tensor_value_info(key) for key in keys
        )
        return self._run(proto, list(keys))

    def _run(self, proto: Any, names: list[str]) -> list[Array]:
        options = self._ort.SessionOptions()
        options.graph_optimization_level = self._ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 3
        session = self._ort.InferenceSession(
            proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        return [np.asarray(value) for value in session.run(names, self._inputs)]
