"""OpenVINO's Python API over uncork: `import uncork.openvino as ov` in place of
`import openvino as ov`.

What is the same, what is ignored and what is refused: docs/change_one_line.md. The real openvino is
not needed.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from uncork.collector import collector_paused
from uncork.errors import did_you_mean

with collector_paused():  # what is imported stays
    from uncork.openvino._any import OVAny, RTMap
    from uncork.openvino._calls import OVDict
    from uncork.openvino._compiled import CompiledModel
    from uncork.openvino._core import (
        Core,
        Version,
        compile_model,
        convert_model,
        get_version,
        save_model,
        serialize,
        tensor_from_file,
    )
    from uncork.openvino._layout import Layout
    from uncork.openvino._model import Model
    from uncork.openvino._node import DiscreteTypeInfo, Node
    from uncork.openvino._ports import ConstOutput, Input, Output
    from uncork.openvino._shapes import (
        AxisSet,
        AxisVector,
        Coordinate,
        CoordinateDiff,
        Dimension,
        PartialShape,
        Shape,
        Strides,
    )
    from uncork.openvino._tensor import Tensor
    from uncork.openvino._types import Type

if TYPE_CHECKING:
    import uncork.openvino.preprocess as preprocess
    import uncork.openvino.properties as properties
    from uncork.openvino._requests import AsyncInferQueue, InferRequest, ProfilingInfo
    from uncork.openvino.helpers import get_batch, set_batch

__version__ = get_version()

__all__ = [
    "AsyncInferQueue",
    "AxisSet",
    "AxisVector",
    "CompiledModel",
    "ConstOutput",
    "Coordinate",
    "CoordinateDiff",
    "Core",
    "Dimension",
    "DiscreteTypeInfo",
    "InferRequest",
    "Input",
    "Layout",
    "Model",
    "Node",
    "OVAny",
    "OVDict",
    "Output",
    "PartialShape",
    "ProfilingInfo",
    "RTMap",
    "Shape",
    "Strides",
    "Tensor",
    "Type",
    "Version",
    "compile_model",
    "convert_model",
    "get_batch",
    "get_version",
    "preprocess",
    "properties",
    "save_model",
    "serialize",
    "set_batch",
    "shutdown",
    "tensor_from_file",
]
#: What is imported when it is first used: names of a module, or modules themselves ("").
_LATER = {
    "AsyncInferQueue": "_requests",
    "InferRequest": "_requests",
    "ProfilingInfo": "_requests",
    "get_batch": "helpers",
    "set_batch": "helpers",
    **dict.fromkeys(("helpers", "layout_helpers", "op", "preprocess", "properties", "utils"), ""),
    **{f"opset{number}": "" for number in range(1, 17)},
}
#: What OpenVINO has and uncork does not.
_REFUSED = {
    "Extension": "there are no extensions: operations that uncork does not know are refused",
    "OpExtension": "there are no extensions: operations that uncork does not know are refused",
    "Op": "there are no custom operations",
    "RemoteContext": "uncork runs models on the CPU: there is no remote memory",
    "RemoteTensor": "uncork runs models on the CPU: there is no remote memory",
    "Symbol": "sizes have no symbols in this API",
    "VAContext": "uncork runs models on the CPU: there is no remote memory",
    "VASurfaceTensor": "uncork runs models on the CPU: there is no remote memory",
    "frontend": "files of other formats are converted by OpenVINO's own package (convert_model)",
    "runtime": "OpenVINO has moved what was there to the package itself: ov.Core",
    "_offline_transformations": "models are rewritten when they are compiled",
    "experimental": "nothing of it is here",
    "passes": "models are rewritten when they are compiled: replace_source_output and the setters "
    "of nodes change a model by hand",
    "tools": "ov.convert_model reads ONNX files and modules of torch",
}


def shutdown() -> None:
    """Nothing has to be shut down."""


def _elsewhere(name: str) -> str:
    """What there is in place of a name that is not there; "" where nothing is known of it."""
    if name.startswith("opset") and name[5:].isdigit():
        return "opsets go from opset1 to opset16"
    return _REFUSED.get(name, "")


def __getattr__(name: str) -> Any:
    if name in _LATER:
        module = importlib.import_module(f"{__name__}.{_LATER[name] or name}")
        result = getattr(module, name) if _LATER[name] else module
        globals()[name] = result
        return result
    if way := _elsewhere(name):
        raise AttributeError(
            f"module 'uncork.openvino' has no '{name}': {way}", name=name, obj=None
        )
    near = "" if name.startswith("_") else did_you_mean(name, __dir__())
    raise AttributeError(
        f"module 'uncork.openvino' has no attribute '{name}'{near}", name=name, obj=None
    )


def __dir__() -> list[str]:
    return sorted({*__all__, *_LATER})
