"""`CompiledModel`: a model that is ready to be called."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from uncork.compiler.compile import CompiledModel as CoreCompiled
from uncork.openvino import _config
from uncork.openvino._calls import OVDict, given_inputs, shown
from uncork.openvino._errors import as_runtime_errors, not_offered
from uncork.openvino._model import Model
from uncork.openvino._ports import ConstOutput
from uncork.openvino._positions import ports_text, position_of
from uncork.openvino._tensor import Tensor, input_tensor
from uncork.types import Array

if TYPE_CHECKING:
    from uncork.openvino._requests import InferRequest, VariableState


class CompiledModel:
    """A model that is ready to be called."""

    def __init__(self, model: Model, core: CoreCompiled, config: Mapping[str, Any]) -> None:
        self._model = model
        self._compiled = core
        self._config = dict(config)
        self._inputs = [ConstOutput(p, 0) for p in model.get_parameters()]
        self._outputs = [ConstOutput(r, 0) for r in model.get_results()]

    @property
    def inputs(self) -> list[ConstOutput]:
        """The tensors that a call takes."""
        return list(self._inputs)

    @property
    def outputs(self) -> list[ConstOutput]:
        """The tensors that a call gives."""
        return list(self._outputs)

    def input(self, key: Any = None) -> ConstOutput:
        """An input by its position or a name; the only one without a key."""
        return self._inputs[position_of(self._inputs, key, "input")]

    def output(self, key: Any = None) -> ConstOutput:
        """An output by its position or a name; the only one without a key."""
        return self._outputs[position_of(self._outputs, key, "output")]

    def __call__(
        self,
        inputs: Any = None,
        share_inputs: bool = True,
        share_outputs: bool = False,
        *,
        decode_strings: bool = True,
    ) -> OVDict:
        """Run the model, with the variables that calls before have left.

        It may be called from several threads at once. Results are the caller's own, and inputs are
        only read: what is shared makes no difference.
        """
        with as_runtime_errors():
            given = given_inputs(self._inputs, inputs)
            arrays = {
                position: input_tensor(value, self._inputs[position].spec.element_type, True)
                for position, value in given.items()
            }
            results = self._compiled({at: tensor.values() for at, tensor in arrays.items()})
        made: dict[ConstOutput, Array] = {}
        for port, array in zip(self._outputs, results, strict=True):
            element = port.spec.element_type
            if element.is_native:
                made[port] = array
            else:
                tensor = Tensor.of_carrier(element, np.asarray(array))
                made[port] = shown(element, tensor._array, decode_strings)
        return OVDict(made)

    def infer_new_request(self, inputs: Any = None) -> OVDict:
        """A call with variables in their initial state."""
        return self.create_infer_request().infer(inputs)

    def create_infer_request(self) -> InferRequest:
        """A request for calls, with variables of its own."""
        from uncork.openvino._requests import InferRequest

        return InferRequest(self)

    def query_state(self) -> list[VariableState]:
        """The variables of the calls of this object."""
        from uncork.openvino._requests import states_of

        return states_of(self, self._compiled.query_state())

    def reset_state(self) -> None:
        """Put the variables of the calls of this object back."""
        self._compiled.reset_state()

    def release_memory(self) -> None:
        """Give back the working memory that is kept between calls."""
        self._compiled.release_memory()

    def get_property(self, name: str) -> Any:
        """The value of a property."""
        return _config.asked(str(name), self._config, self._model.get_friendly_name())

    set_property = not_offered(
        "the properties of a compiled model do not change: give them to compile_model"
    )

    def get_runtime_model(self) -> Model:
        """The model as it was compiled; which kernels run is told by `uncork`'s plans."""
        return self._model.clone()

    def export_model(self, model_stream: Any = None) -> Any:
        """The compiled model as bytes, for `Core.import_model` on a machine of this level, or
        written to an open file: what `uncork compile` writes.
        """
        from uncork.compiler.image.compile import compile_to  # for whoever exports

        with as_runtime_errors(), tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "exported.uncork"
            compile_to(self._model.clone().checked, path, **_config.options_of(self._config))
            data = path.read_bytes()
        if model_stream is None:
            return data
        model_stream.write(data)
        return None

    def __repr__(self) -> str:
        return f"<CompiledModel:\n{ports_text(self._inputs, self._outputs)}>"
