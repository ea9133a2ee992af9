"""uncork opens OpenVINO IR models: it checks them, runs them exactly, and says what is wrong where
something is.

import uncork
compiled = uncork.load("model.xml")
result = compiled(ids, lengths)      # or compiled({"ids": ids, "lengths": lengths})
result[0], result["scores"]
"""

import importlib
import sys
from typing import TYPE_CHECKING, Any

from uncork._version import __version__ as __version__
from uncork.collector import collector_paused

with collector_paused():  # what is imported stays
    from uncork.compiler.arguments import Results
    from uncork.compiler.load import load
    from uncork.errors import (
        CompileError,
        InputError,
        Problem,
        ReadError,
        UncorkError,
        UncorkWarning,
        UnsupportedError,
        ValidationError,
    )
    from uncork.ir.model import Model
    from uncork.ir.ports import ModelPort
    from uncork.types import Dimension, ElementType, PartialShape

if TYPE_CHECKING:
    from uncork import functional, surgery
    from uncork.compiler.compile import compile_model, read_model
    from uncork.compiler.compiled_model import CompiledModel
    from uncork.compiler.image.compile import compile_to
    from uncork.compiler.live import Live
    from uncork.compiler.requests import AsyncInferQueue, InferRequest
    from uncork.compiler.sessions import Sessions
    from uncork.compiler.variables import VariableState
    from uncork.export.onnx import to_onnx
    from uncork.export.onnx.files import write_onnx
    from uncork.export.torch import to_torch
    from uncork.export.torch.folder import write_torch
    from uncork.ir.build import Builder
    from uncork.ir.write import write_model
    from uncork.onnx.from_torch import from_torch
    from uncork.score import score
    from uncork.surgery.constants import with_constants

__all__ = [
    "AsyncInferQueue",
    "Builder",
    "CompileError",
    "CompiledModel",
    "Dimension",
    "ElementType",
    "InferRequest",
    "InputError",
    "Live",
    "Model",
    "ModelPort",
    "PartialShape",
    "Problem",
    "ReadError",
    "Results",
    "Sessions",
    "UncorkError",
    "UncorkWarning",
    "UnsupportedError",
    "ValidationError",
    "VariableState",
    "compile_model",
    "compile_to",
    "from_torch",
    "functional",
    "load",
    "read_model",
    "score",
    "surgery",
    "to_onnx",
    "to_torch",
    "with_constants",
    "write_model",
    "write_onnx",
    "write_torch",
]


#: What is imported when it is first used: whoever runs a model does not pay for it. Names of a
#: module, or modules themselves ("").
_LATER = {
    "AsyncInferQueue": "uncork.compiler.requests",
    "Builder": "uncork.ir.build",
    "InferRequest": "uncork.compiler.requests",
    "Live": "uncork.compiler.live",
    "Sessions": "uncork.compiler.sessions",
    "VariableState": "uncork.compiler.variables",
    "CompiledModel": "uncork.compiler.compiled_model",
    "compile_model": "uncork.compiler.compile",
    "compile_to": "uncork.compiler.image.compile",
    "from_torch": "uncork.onnx.from_torch",
    "functional": "",
    "read_model": "uncork.compiler.compile",
    "score": "",
    "surgery": "",
    "to_onnx": "uncork.export.onnx",
    "to_torch": "uncork.export.torch",
    "with_constants": "uncork.surgery.constants",
    "write_model": "uncork.ir.write",
    "write_onnx": "uncork.export.onnx.files",
    "write_torch": "uncork.export.torch.folder",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        from uncork._names import no_such_name

        # The object is given, or Python would add a suggestion of its own, which is of any name
        # that is not far.
        raise AttributeError(no_such_name(name, __all__), name=name, obj=None)
    result = (
        getattr(importlib.import_module(_LATER[name]), name)
        if _LATER[name]
        else importlib.import_module(f"uncork.{name}")
    )
    globals()[name] = result
    return result


def __dir__() -> list[str]:
    """The public names, and nothing else."""
    return __all__


class _Elsewhere:
    """The last finder of modules: `import uncork.opset13` says where that is."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        """Find nothing. Raises ModuleNotFoundError for what lies elsewhere."""
        package, _, own = name.rpartition(".")
        if package == __name__:
            from uncork._names import elsewhere

            if way := elsewhere(own):
                # Without its name: Python would tell less of `from uncork import opset13`.
                raise ModuleNotFoundError(f"uncork has no '{own}': {way}")


if not any(getattr(finder, "__name__", "") == "_Elsewhere" for finder in sys.meta_path):
    sys.meta_path.append(_Elsewhere)
