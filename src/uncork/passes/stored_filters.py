"""Convolutions remember how the numbers of their filters are stored: nobody makes f32 of them
before it is known which kernel reads them.

What is recognised says `stored_values`; zero points and scales are one for all outputs, or one for
each. Kernels over blocks of channels read such filters as they are (`block_channels`). For all
other layers they become numbers (`made_filters`).
"""

from __future__ import annotations

import numpy as np

from uncork.internal_ops.compressed_linear import CompressedMatrix
from uncork.internal_ops.decompression import numbers_of
from uncork.internal_ops.made_constant import Remade
from uncork.internal_ops.stored_filters import StoredConstant, StoredFilters
from uncork.ir.model import Model, Node, Source
from uncork.ops.convolution import Convolution1
from uncork.passes.rewrite import as_constant, made_constants, readers, replaced
from uncork.passes.stored_values import stored_values
from uncork.types import ElementType, PartialShape

#: Numbers that are looked at together.
_PART = 1 << 18
#: The largest numbers of f16 and of f32; the bits that all are set of what is no number in f16.
_MOST_IN_F16, _MOST = 65504.0, 3.4e38
_NO_NUMBER = np.uint16(0x7C00)


def stored_filters(model: Model) -> Model:
    """The model with such constants in place of the layers that make filters of f32."""
    read_by = readers(model)
    new: dict[int, Node] = {}
    for node in model.nodes:
        source = node.inputs[1] if _reads_filters(node) else None
        if source is None or source.node in new:
            continue
        if not all(_reads_filters(reader) == [source] for reader in read_by[source]):
            continue  # somebody needs the numbers
        found = _filters(model, node, source)
        if found is not None:
            new[source.node] = _constant(model, source, found)
    return replaced(model, new)


def made_filters(model: Model) -> Model:
    """The model with such constants as numbers where layers still read them."""
    return made_constants(model, StoredConstant)


def _reads_filters(node: Node) -> list[Source]:
    """The filters that a convolution reads; nothing of other layers, and of those that read them
    as data, too.
    """
    if not isinstance(node.operation, Convolution1) or len(node.inputs) < 2:
        return []
    return [*node.inputs[1:]] if node.inputs[0] != node.inputs[1] else []


def _filters(model: Model, node: Node, source: Source) -> StoredFilters | None:
    """The filters of a convolution of f32 as they are stored; None where they are not, or are
    known numbers, as small ones are.
    """
    operation, spec = node.operation, model.spec(source)
    assert isinstance(operation, Convolution1)
    if spec.value is not None or not spec.shape.is_static or 0 in spec.shape.static:
        return None
    if model.spec(node.inputs[0]).element_type is not ElementType.f32:
        return None
    stored = stored_values(model, source, rounds=node.hints.decompression == "as-written")
    matrix = None if stored is None else stored.columns(operation.lead - 1)
    if matrix is None or any(array.shape[1] > 1 for array in matrix.operands):
        return None
    return StoredFilters(matrix, spec.shape.static) if _all_finite(matrix) else None


def _all_finite(matrix: CompressedMatrix) -> bool:
    """Whether no filter is an infinity or NaN: by the largest that may come of the codes or, where
    that is too large, number by number.
    """
    steps = [matrix.zero_points, matrix.scales]
    given = [(array, n == 0) for n, array in enumerate(steps) if array is not None]
    given += [(step.operand, step.subtracts) for step in matrix.later]
    most = _largest(matrix)
    for operand, subtracts in given:
        size = float(np.abs(numbers_of(operand)).max())  # which keeps a NaN
        most = most + size if subtracts else most * size
    rounds = matrix.half or any(step.rounds for step in matrix.later)
    if most <= (_MOST_IN_F16 if rounds else _MOST):
        return True
    step = max(1, _PART // max(1, matrix.inner))
    return all(
        bool(np.isfinite(matrix.some(first, first + step)).all())
        for first in range(0, matrix.shape[0], step)
    )


def _largest(matrix: CompressedMatrix) -> float:
    """A number that no code stands for a larger one than; an infinity where one may be that."""
    kind = matrix.element_type
    if matrix.numbers is not None:
        return float(np.abs(matrix.numbers).max())
    if kind.is_integer:
        return float(1 << kind.bits)
    if kind is not ElementType.f16:
        return np.inf
    flat = matrix.codes.reshape(-1)
    parts = (flat[first : first + _PART] for first in range(0, len(flat), _PART))
    finite = all(not (~part.view(np.uint16) & _NO_NUMBER == 0).any() for part in parts)
    return _MOST_IN_F16 if finite else np.inf


def _constant(model: Model, source: Source, filters: StoredFilters) -> Node:
    node = model.by_id[source.node]
    operation = StoredConstant(
        element_type=ElementType.f32,
        shape=PartialShape(filters.shape),
        filters=filters,
        make=Remade(filters.values),
    )
    return as_constant(node, operation)
