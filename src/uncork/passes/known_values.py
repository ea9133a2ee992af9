"""Values of tensors that passes know: constants, however they are held, and what layers compute of
constants alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from uncork.internal_ops.packed_const import PackedConst
from uncork.internal_ops.stored_filters import StoredConstant
from uncork.ir.model import Model, Source
from uncork.types import Array, TensorSpec

#: Layers of constants behind each other, which converters write two or three of.
_DEEP = 16
#: Elements that are computed together.
_PART = 1 << 18


def is_known(model: Model, source: Source) -> bool:
    """Whether the value of a tensor is known at load: whether `known_value` gives it."""
    operation = model.by_id[source.node].operation
    held = isinstance(operation, (PackedConst, StoredConstant))
    return model.spec(source).value is not None or held


def known_value(model: Model, source: Source) -> Array | None:
    """The value of a tensor that is known at load, of any size; None where there is none.

    That of a packed constant, or of stored filters, whose spec has none, is made for the caller
    alone.
    """
    operation = model.by_id[source.node].operation
    if isinstance(operation, PackedConst):
        return operation.unpacked()
    if isinstance(operation, StoredConstant):
        return operation.value
    return model.spec(source).value


def computed_value(model: Model, source: Source, depth: int = _DEEP) -> Array | None:
    """The value of a tensor that layers compute of constants alone, at most so many behind each
    other; None where it is none. Nobody keeps it.
    """
    if is_known(model, source):
        return known_value(model, source)
    node = model.by_id[source.node]
    operation = node.operation
    if operation is None or not node.inputs or not operation.deterministic or not depth:
        return None
    if (found := _computed_by_rows(model, source)) is not None:
        return found
    given: list[TensorSpec | None] = []
    for before in node.inputs:
        value = computed_value(model, before, depth - 1)
        if value is None:
            return None
        given.append(TensorSpec.of_array(model.spec(before).element_type, value))
    return operation.evaluate(given)[source.output].value


def _computed_by_rows(model: Model, source: Source) -> Array | None:
    """The value of a large tensor that layers compute element by element, some rows at a time: what
    is between them is never whole. None of any other tensor.
    """
    spec, leaves = model.spec(source), dict[Source, Array]()
    if not spec.shape.is_static or not spec.shape.rank:
        return None
    rows, *others = spec.shape.static
    if rows * math.prod(others) <= _PART or not _find_leaves(model, source, leaves, _DEEP):
        return None
    result = np.empty(spec.shape.static, spec.element_type.dtype)
    step = max(1, _PART // math.prod(others))
    for start in range(0, rows, step):
        part = slice(start, start + step)
        result[part] = _part_of(model, source, leaves, len(others) + 1, rows, part)
    return result


def _find_leaves(model: Model, source: Source, leaves: dict[Source, Array], depth: int) -> bool:
    """Find the constants that a tensor is computed of element by element; False where it is not."""
    if is_known(model, source):
        value = known_value(model, source)
        if value is not None:
            leaves[source] = value
        return value is not None
    node = model.by_id[source.node]
    operation = node.operation
    if operation is None or not operation.elementwise or not node.inputs or not depth:
        return False
    return all(_find_leaves(model, before, leaves, depth - 1) for before in node.inputs)


def _part_of(
    model: Model, source: Source, leaves: Mapping[Source, Array], rank: int, rows: int, part: slice
) -> Array:
    """Some rows of a tensor of such rank, or what stretches along them."""
    if source in leaves:
        value = leaves[source]
        return value[part] if value.ndim == rank and len(value) == rows else value
    node = model.by_id[source.node]
    given: list[TensorSpec | None] = []
    for before in node.inputs:
        value = _part_of(model, before, leaves, rank, rows, part)
        given.append(TensorSpec.of_array(model.spec(before).element_type, value))
    made = node.checked_operation.evaluate(given)[source.output].value
    assert made is not None
    return made
