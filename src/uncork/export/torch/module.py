"""`to_torch`: executes the source that would be written to a folder."""

from __future__ import annotations

import itertools
import linecache
from types import ModuleType
from typing import Any

import numpy as np

from uncork.errors import UncorkError
from uncork.export.torch import types
from uncork.export.torch.model import TorchSource
from uncork.files import let_go
from uncork.ops.parameter import Const
from uncork.types import ElementType

_numbers = itertools.count(1)
#: Elements that are copied at a time.
_BLOCK = 1 << 22


def import_torch() -> Any:
    """The package torch, which is an extra."""
    try:
        import torch
    except ImportError:
        raise UncorkError(
            "export to torch needs the package torch: pip install 'uncork[torch]'"
        ) from None
    return torch


def module_of(source: TorchSource) -> Any:
    """An instance of the module, with its constants copied in."""
    torch = import_torch()
    number = next(_numbers)
    name = f"uncork_torch_model_{number}"
    place = f"<{name}>"
    # Tracebacks, and torch's own tools, show lines of the source.
    linecache.cache[place] = (len(source.text), None, source.text.splitlines(True), place)
    namespace = ModuleType(name)
    exec(compile(source.text, place, "exec"), vars(namespace))
    with torch.device("meta"):
        module = getattr(namespace, source.main)()
    state = {key: tensor_of(torch, constant) for key, constant in source.constants.items()}
    module.load_state_dict(state, assign=True)
    module.source = source.text
    module.layers = dict(source.layers)
    return module


def tensor_of(torch: Any, constant: Const) -> Any:
    """A constant's values as a tensor of its own.

    Of a mapped file no more is in memory than a block.
    """
    given = constant.value.reshape(-1)
    array = np.empty(given.size, types.stored(constant.element_type, given[:0]).dtype)
    for start in range(0, given.size, _BLOCK):
        part = given[start : start + _BLOCK]
        array[start : start + _BLOCK] = types.stored(constant.element_type, part)
        let_go(part)
    copied = torch.from_numpy(array)
    if constant.element_type is ElementType.bf16:
        copied = copied.view(torch.bfloat16)
    return copied.reshape(constant.shape.static)
