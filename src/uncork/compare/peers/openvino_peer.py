"""OpenVINO as a peer: the same file on its CPU, with layers made outputs. In f32, with rows for
stored weights as they are: its default rounds these to 8 bits, and to bf16 on some processors.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from uncork.compare.peers.base import GivenInput, in_order, of_bf16
from uncork.compare.tensors import PeerModel, PeerTensor
from uncork.types import Array

_EXACTLY = {"INFERENCE_PRECISION_HINT": "f32", "DYNAMIC_QUANTIZATION_GROUP_SIZE": "0"}
#: Types that OpenVINO's files and its own objects call differently.
_TYPE_NAMES = {"Relu": "ReLU", "Constant": "Const"}


class OpenVINOPeer:
    """OpenVINO as a peer; see the module."""

    def __init__(self, path: str, inputs: Sequence[GivenInput], weights: str | None = None) -> None:
        self._ov = importlib.import_module("openvino")
        self._core = self._ov.Core()
        self._model = (
            self._core.read_model(path, weights) if weights else self._core.read_model(path)
        )
        wanted = [
            (p.get_friendly_name(), *p.output(0).get_names()) for p in self._model.get_parameters()
        ]
        self._inputs = [self._tensor(given) for given in in_order(inputs, wanted)]
        self.model = self._described()

    def _tensor(self, given: GivenInput) -> Any:
        if given.element_type == "bf16":
            return self._ov.Tensor(given.array, given.array.shape, self._ov.Type.bf16)
        return given.array.astype(str) if given.element_type == "string" else given.array

    def _described(self) -> PeerModel:
        tensors = []
        for op in self._model.get_ordered_ops():
            type_name = op.get_type_name()
            if type_name == "Result":
                continue
            name = op.get_friendly_name()
            read = tuple(
                f"{v.get_node().get_friendly_name()}|{v.get_index()}" for v in op.input_values()
            )
            for i, port in enumerate(op.outputs()):
                names = tuple(sorted(port.get_names()))
                tensors.append(
                    PeerTensor(
                        f"{name}|{i}", name, _TYPE_NAMES.get(type_name, type_name), i, names, read
                    )
                )
        parameters = tuple(f"{p.get_friendly_name()}|0" for p in self._model.get_parameters())
        return PeerModel(tuple(tensors), parameters)

    def outputs(self) -> list[Array]:
        """The results of the model as it is."""
        return self._run(self._model, range(len(self._model.outputs)))

    def values(self, keys: Sequence[str]) -> list[Array]:
        """The values of outputs of layers."""
        model = self._model.clone()
        by_name = {op.get_friendly_name(): op for op in model.get_ordered_ops()}
        for key in keys:
            name, _, output = key.rpartition("|")
            model.add_outputs(by_name[name].output(int(output)))  # nothing, where it is one
        sources = [result.input_value(0) for result in model.get_results()]
        positions = {
            f"{v.get_node().get_friendly_name()}|{v.get_index()}": i for i, v in enumerate(sources)
        }
        return self._run(model, [positions[key] for key in keys])

    def _run(self, model: Any, positions: Sequence[int]) -> list[Array]:
        compiled = self._core.compile_model(model, "CPU", _EXACTLY)
        results = compiled(self._inputs)
        return [
            _carried(compiled.outputs[i].element_type.get_type_name(), results[i])
            for i in positions
        ]


def _carried(type_name: str, array: Any) -> Array:
    if type_name == "bf16":  # handed over as float16 that holds the bits
        return of_bf16(array)
    return np.array(array)
