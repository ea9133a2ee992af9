"""The constants of a model, those of its sub-graphs included."""

from __future__ import annotations

from collections.abc import Iterator

from uncork.files import MappedFile, mapped_file
from uncork.internal_ops.packed_const import PackedConst
from uncork.internal_ops.stored_filters import StoredConstant
from uncork.ir.model import Model
from uncork.ops.parameter import Const
from uncork.types import Array, ElementType


def stored_arrays(model: Model) -> Iterator[Array]:
    """The array in which each constant keeps its values; for a packed one that of its codes, which
    nobody unpacks for this.
    """
    return (array for _, array in typed_arrays(model))


def typed_arrays(model: Model) -> Iterator[tuple[ElementType, Array]]:
    """These arrays, and of which element type they are the carriers: u8 for packed ones."""
    models = [model]
    while models:
        for node in models.pop().nodes:
            if isinstance(node.operation, PackedConst):
                yield ElementType.u8, node.operation.packed
            elif isinstance(node.operation, StoredConstant):
                matrix = node.operation.filters.matrix
                yield matrix.element_type, matrix.codes
            elif isinstance(node.operation, Const) and node.operation.value is not None:
                yield node.operation.element_type, node.operation.value
            models += [body for _, body in node.bodies]


def mapped_files(model: Model) -> tuple[MappedFile, ...]:
    """The files that constants are mapped from, once each."""
    found = {
        id(file): file for array in stored_arrays(model) if (file := mapped_file(array)) is not None
    }
    return tuple(found.values())
