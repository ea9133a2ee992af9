"""uncork opens OpenVINO IR models: it checks them, runs them exactly, and says what is wrong where something is.

import uncork
compiled = uncork.load("model.xml")
result = compiled(ids, lengths)      # or compiled({"ids": ids, "lengths": lengths})
result[0], result["scores"]
"""

import importlib
from typing import TYPE_CHECKING, Any

from uncork.compiler.arguments import ModelPort, Results
from uncork.compiler.compile import CompiledModel, compile_model, load, read_model
from uncork.errors import CompileError, InputError, Problem, ReadError, UncorkError, UnsupportedError, ValidationError
from uncork.ir.build import Builder
from uncork.ir.model import Model
from uncork.ir.write import write_model
from uncork.types import Dimension, ElementType, PartialShape

if TYPE_CHECKING:
    from uncork import functional
    from uncork.score import score

__version__ = "0.1.0"

__all__ = [
    "Builder",
    "CompileError",
    "CompiledModel",
    "Dimension",
    "ElementType",
    "InputError",
    "Model",
    "ModelPort",
    "PartialShape",
    "Problem",
    "ReadError",
    "Results",
    "UncorkError",
    "UnsupportedError",
    "ValidationError",
    "compile_model",
    "functional",
    "load",
    "read_model",
    "score",
    "write_model",
]


def __getattr__(name: str) -> Any:
    """`functional` and `score` are imported when they are first used: whoever runs a model does not pay for them."""
    if name in ("functional", "score"):
        return importlib.import_module(f"uncork.{name}")
    raise AttributeError(f"module 'uncork' has no attribute '{name}'")
