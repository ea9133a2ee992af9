"""An internal operation: all layers of a compiled model, of which a file has the plan and nothing
else.
"""

from __future__ import annotations

from typing import NoReturn

from uncork.errors import UnsupportedError
from uncork.ops._operation import Operation
from uncork.ops._ports import ANY, Input, Output
from uncork.types import TensorSpec


class CompiledLayers(Operation):
    """All layers of a compiled model: they can be called, and nothing else."""

    tensors = Input(ANY, variadic=True)
    output = Output()

    def infer(self, *tensors: TensorSpec) -> NoReturn:
        raise UnsupportedError("are compiled, they are not in the file: take the .xml")
