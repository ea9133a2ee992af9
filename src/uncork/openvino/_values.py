"""Values of programs as uncork has them, and back: constants and attributes."""

from __future__ import annotations

from typing import Any

import numpy as np

from uncork import storage
from uncork.openvino._shapes import PartialShape, Shape, core_shape
from uncork.openvino._tensor import Tensor
from uncork.openvino._types import Type, element_of
from uncork.ops import parameter as ends
from uncork.types import ElementType
from uncork.types import PartialShape as CoreShape


def constant_of(value: Any, element_type: Any, shared: bool) -> ends.Const:
    """The operation of a constant, of an array, a tensor, numbers or texts."""
    if isinstance(value, Tensor):
        element = value._element
        carried = storage.encode(value.values(), element) if not shared else value.values()
        return ends.Const.of_array(element, np.array(carried))
    array = np.asarray(value)
    # Python's numbers are of 64 bits there.
    element = element_of(array.dtype if element_type is None else element_type)
    if element is ElementType.string:
        carried = np.array([str(t) for t in array.reshape(-1)], object).reshape(array.shape)
    elif element.is_native:
        with np.errstate(all="ignore"):
            carried = array.astype(element.dtype)
        carried = array if shared and carried.dtype == array.dtype else np.array(carried)
    elif element is ElementType.bf16 and array.dtype == np.float16:
        carried = np.array(array).view(np.uint16)
    else:
        carried = storage.encode(array.astype(np.float32), element)
    return ends.Const.of_array(element, carried)


def attribute_value(value: Any) -> Any:
    """An attribute as uncork's operations take it."""
    if isinstance(value, Type):
        return element_of(value)
    if isinstance(value, PartialShape):
        return core_shape(value)
    if isinstance(value, np.ndarray):
        return tuple(value.tolist())
    if isinstance(value, (list, tuple, Shape, frozenset, set)):
        return tuple(value)
    return value.item() if isinstance(value, np.generic) else value


def shown_value(value: Any) -> Any:
    """An attribute as programs read it."""
    if isinstance(value, ElementType):
        return value.name
    if isinstance(value, CoreShape):
        if value.rank is None:
            return []
        return [-1 if d.static_size is None else d.static_size for d in value]
    if isinstance(value, tuple):
        return list(value)
    return "dynamic" if value is None else value
