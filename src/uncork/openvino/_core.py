"""`Core` and the functions beside it: models read, converted, compiled and written."""

from __future__ import annotations

import importlib
import importlib.util
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from uncork._version import __version__
from uncork.compiled_head import is_compiled_file
from uncork.compiler import compile as core
from uncork.compiler.image.load import load_compiled
from uncork.ir.graph import Node as CoreNode
from uncork.ir.graph import Port, Source, node_of
from uncork.ir.model import Model as CoreModel
from uncork.ir.write import write_files, write_model
from uncork.openvino import _config
from uncork.openvino._attribute import attribute
from uncork.openvino._compiled import CompiledModel
from uncork.openvino._errors import as_runtime_errors, not_offered, unsupported
from uncork.openvino._model import Model
from uncork.openvino._tensor import Tensor
from uncork.ops import parameter as ends
from uncork.ops.convert import Convert1
from uncork.types import Array, ElementType, TensorSpec


class Version(Struct, frozen=True):
    """The version of a device's part of the package."""

    build_number: str
    description: str
    major: int
    minor: int
    patch: int

    def __repr__(self) -> str:
        return f"<Version: {self.build_number} {self.description}>"


def get_version() -> str:
    """The version of uncork."""
    return f"{__version__}-uncork"


class Core:
    """Where programs for OpenVINO begin: models are read and compiled by it."""

    def __init__(self, xml_config_file: str = "") -> None:
        if xml_config_file:
            raise unsupported("there are no plugins, and so no file that lists them")
        self._config: dict[str, Any] = {}

    def read_model(
        self, model: Any, weights: Any = None, config: Mapping[str, Any] | None = None
    ) -> Model:
        """The model of a file: its path, or the contents of the .xml (text, bytes, an open file),
        with those of the .bin as `weights` (a path, bytes, a Tensor, an array, an open file).
        """
        options = {**self._config, **_config.normal(config)}
        if isinstance(model, Model):
            return model
        with as_runtime_errors():
            if isinstance(model, str) and model.lstrip("\ufeff \t\r\n").startswith("<"):
                model = model.encode()
            mapped = bool(options.get("ENABLE_MMAP", True))
            return Model.of_core(core.read_model(model, _bytes(weights), mmap=mapped))

    def compile_model(
        self,
        model: Any,
        device_name: Any = None,
        config: Mapping[str, Any] | None = None,
        *,
        weights: Any = None,
    ) -> CompiledModel:
        """A model, or that of a file, ready to be called, on the "CPU" (or "AUTO")."""
        if isinstance(device_name, Mapping):
            device_name, config = None, device_name
        _config.check_device("AUTO" if device_name is None else device_name)
        options = {**self._config, **_config.normal(config)}
        if isinstance(model, (str, os.PathLike)) and is_compiled_file(model):
            return self.import_model(model, config=config)
        if not isinstance(model, Model):
            model = self.read_model(model, weights)
        with as_runtime_errors():
            own = model.clone()
            compiled = core.compile_model(own.checked, **_config.options_of(options))
        return CompiledModel(own, compiled, options)

    def get_available_devices(self) -> list[str]:
        """The CPU."""
        return ["CPU"]

    available_devices = attribute(get_available_devices)

    def get_property(self, *args: Any) -> Any:
        """The value of a property: `(name)` or `(device, name)`."""
        *device, name = args
        if device:
            _config.check_device(device[0])
        if str(name).upper() == "AVAILABLE_DEVICES":
            return ["CPU"] if not device else [""]
        return _config.asked(str(name), self._config)

    def set_property(self, *args: Any) -> None:
        """Have properties for models compiled from now on: `(properties)` or `(device,
        properties)`.
        """
        *device, properties = args
        if device and isinstance(device[0], str):
            _config.check_device(device[0])
        if isinstance(properties, tuple) and len(properties) == 2:
            properties = [properties]
        self._config.update(_config.normal(properties))

    def get_versions(self, device_name: str) -> dict[str, Version]:
        """The version of a device's part."""
        _config.check_device(device_name)
        numbers = [int(part) for part in (__version__.split(".") + ["0"] * 3)[:3] if part.isdigit()]
        numbers += [0] * (3 - len(numbers))
        return {"CPU": Version(get_version(), "uncork", *numbers)}

    def query_model(self, model: Model, device_name: str, properties: Any = None) -> dict[str, str]:
        """The layers that a device runs, by their names: all of them."""
        _config.check_device(device_name)
        return {node.get_friendly_name(): "CPU" for node in model.get_ordered_ops()}

    def import_model(
        self,
        model_stream: Any,
        device_name: str = "CPU",
        config: Mapping[str, Any] | None = None,
    ) -> CompiledModel:
        """A model from what `CompiledModel.export_model` gave, or a file that `uncork compile`
        wrote: its path, its bytes, a Tensor or an open file. What it holds is code.
        """
        _config.check_device(device_name)
        options = {**self._config, **_config.normal(config)}
        with as_runtime_errors():
            if isinstance(model_stream, (str, os.PathLike)):
                compiled = load_compiled(model_stream)
            else:
                contents = _bytes(model_stream)
                contents = contents.read() if hasattr(contents, "read") else contents
                if not isinstance(contents, (bytes, bytearray, memoryview)):
                    raise TypeError(
                        "import_model: expected a path, bytes, a Tensor or a file that is open "
                        f"for reading bytes, got {type(model_stream).__name__}"
                    )
                with tempfile.TemporaryDirectory() as folder:  # mapped, it outlives its name
                    path = Path(folder) / "imported.uncork"
                    path.write_bytes(contents)
                    compiled = load_compiled(path)
            return CompiledModel(Model.of_core(compiled.model), compiled, options)

    add_extension = not_offered(
        "there are no extensions: a model of operations that uncork does not know is refused "
        "when it is read, and the message names them"
    )
    register_plugin = register_plugins = unload_plugin = not_offered(
        "there are no plugins: uncork runs models on the CPU"
    )
    create_context = get_default_context = not_offered(
        "there are no remote contexts: uncork runs models on the CPU"
    )


def _bytes(weights: Any) -> Any:
    """Weights as uncork's `read_model` takes them."""
    if isinstance(weights, str) and not weights:
        return None
    if isinstance(weights, Tensor):
        weights = weights._array
    return weights.tobytes() if isinstance(weights, np.ndarray) else weights


def compile_model(
    model: Any, device_name: Any = "AUTO", config: Mapping[str, Any] | None = None
) -> CompiledModel:
    """A model, or that of a file, ready to be called."""
    return Core().compile_model(model, device_name, config)


def convert_model(input_model: Any, **options: Any) -> Model:
    """The model of a `model.xml` or `model.onnx`, or of what OpenVINO's own package converts, where
    that is installed: PyTorch, TensorFlow.
    """
    if isinstance(input_model, Model):
        return input_model
    if isinstance(input_model, (str, os.PathLike)) and str(input_model).endswith((".xml", ".onnx")):
        return Core().read_model(input_model)
    if importlib.util.find_spec("openvino") is None:
        raise unsupported(
            f"converting {type(input_model).__name__} takes OpenVINO's own package: "
            "`pip install openvino`, and this function uses it. uncork itself opens ONNX files, "
            "and modules of torch by uncork.from_torch(module, example)"
        )
    theirs: Any = importlib.import_module("openvino")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.xml")
        theirs.save_model(theirs.convert_model(input_model, **options), path, False)
        with as_runtime_errors():
            return Model.of_core(core.read_model(path, mmap=False))


def save_model(model: Model, output_model: Any, compress_to_fp16: bool = True) -> None:
    """Write a model to .xml and .bin, with constants of f32 as f16 unless told otherwise."""
    path = Path(output_model)
    with as_runtime_errors():
        made = _of(model)._core()
        path.parent.mkdir(parents=True, exist_ok=True)
        write_model(_with_halves(made) if compress_to_fp16 else made, path)


def serialize(model: Model, xml_path: Any, bin_path: Any = "", version: Any = "") -> None:
    """Write a model to .xml and .bin, as it is."""
    if str(version).rpartition(".")[2] not in ("", "UNSPECIFIED", "IR_V11", "11"):
        raise unsupported(f"version {version}: uncork writes IR version 11")
    xml = Path(xml_path)
    with as_runtime_errors():
        made = _of(model)._core()
        write_files(made, xml, Path(bin_path) if bin_path else xml.with_suffix(".bin"))


def _of(model: Any) -> Model:
    if isinstance(model, Model):
        return model
    if isinstance(model, CompiledModel):
        return model._model
    raise TypeError(f"expected a Model, got {type(model).__name__}")


#: The largest number of f16.
_MOST = 65504.0


def _with_halves(model: CoreModel) -> CoreModel:
    """The model with its constants of f32 as f16, each behind a Convert back.

    A constant of which a number is too large for f16, or many are too small, stays.
    """
    number = max((n.id for n in model.nodes), default=0) + 1
    nodes: list[CoreNode] = []
    moved: dict[int, int] = {}
    for node in model.nodes:
        inputs = tuple(Source(moved.get(s.node, s.node), s.output) for s in node.inputs)
        node = replace(node, inputs=inputs) if inputs != node.inputs else node
        operation = node.operation
        if not isinstance(operation, ends.Const) or operation.element_type is not ElementType.f32:
            nodes.append(node)
            continue
        half = _halved(operation.value)
        if half is None:
            nodes.append(node)
            continue
        small = ends.Const.of_array(ElementType.f16, half)
        port = node.outputs[0]
        nodes.append(
            replace(
                node,
                name=f"{node.name}_compressed",
                operation=small,
                attributes={**node.attributes, **small.to_text()},
                outputs=(Port(TensorSpec(ElementType.f16, small.shape)),),
            )
        )
        back = Convert1(destination_type=ElementType.f32)
        nodes.append(
            node_of(
                number,
                node.name,
                back,
                [Source(node.id, 0)],
                [replace(port, spec=TensorSpec(ElementType.f32, small.shape))],
            )
        )
        moved[node.id] = number
        number += 1
    return replace(model, nodes=tuple(nodes))


def _halved(value: Array) -> Array | None:
    """The values as f16; None where too much would be lost."""
    if value.size == 0:
        return None
    with np.errstate(all="ignore"):
        half: Array = value.astype(np.float16)
        lost = (np.abs(value) > _MOST) | ((half == 0) & (value != 0))
    return None if np.count_nonzero(lost) > 0.75 * value.size or np.isinf(half).any() else half


def tensor_from_file(path: Any, element_type: Any = None, shape: Any = None) -> Tensor:
    """The bytes of a file as a tensor."""
    data = np.fromfile(path, np.uint8)
    if element_type is None:
        return Tensor(data)
    sizes = [data.size] if shape is None else shape
    return Tensor(data, sizes, element_type)
