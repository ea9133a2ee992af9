"""Layers whose data tell the size of the result become two: one counts, one writes.

Between the two the size is a number like those that shapes read; see `internal_ops/found_sizes.py`.
Layers of types that the kernels do not serve stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Union

from msgspec import Struct
from msgspec.structs import replace

from uncork.internal_ops.found_rows import (
    FirstRows,
    TakenBoxes,
    TakenOfClasses,
    TakenRegions,
    TakenRows,
)
from uncork.internal_ops.found_sizes import (
    FilledCount,
    FilledRows,
    NonZeroCount,
    NonZeroPlaces,
    SegmentCount,
    SortedPlaces,
    UniqueElements,
)
from uncork.ir.model import Model, Node, Source
from uncork.ops import Operation
from uncork.ops._common.class_selection import ClassSelection
from uncork.ops._common.suppression import Suppression
from uncork.ops.generate_proposals import GenerateProposals9
from uncork.ops.non_zero import NonZero3
from uncork.ops.segment_max import SegmentMax16
from uncork.ops.sparse_fill_empty_rows import SparseFillEmptyRows16
from uncork.ops.unique import Unique10
from uncork.passes.rewrite import NewLayers, all_readers, readers
from uncork.types import ElementType, TensorSpec

#: An input of the second layer: one of the layer's own, by number, or an output of the first, by
#: number.
_InputRef = tuple[str, int]


class _Two(Struct, frozen=True):
    """The two layers in place of one: the first takes inputs of that layer, and the second is given
    such inputs or outputs of the first.
    """

    first: Operation
    takes: tuple[int, ...]
    second: Operation
    given: tuple[_InputRef, ...]


_Rule = Callable[[Model, Node], Union[_Two, None]]


def count_first(model: Model) -> Model:
    """The model with two layers in place of every such layer."""
    read_by = readers(model)
    layers = NewLayers(model)

    def divide(node: Node) -> None:
        rule = _RULES.get(node.type_name)
        two = rule(model, node) if rule is not None and all_readers(read_by, node) else None
        if two is None:
            return
        taken = [node.inputs[position] for position in two.takes]
        first = layers.add(f"{node.name}/count", two.first, taken)
        given = tuple(
            node.inputs[n] if kind == "own" else Source(first.node, n) for kind, n in two.given
        )
        layers.nodes.append(replace(node, operation=two.second, inputs=given))

    return layers.rewritten(divide)


def _is_counted(spec: TensorSpec) -> bool:
    """Whether kernels count values of this type."""
    return spec.element_type.is_integer or spec.element_type.name in (
        "f16",
        "bf16",
        "f32",
        "f64",
        "boolean",
    )


def _non_zero(model: Model, node: Node) -> _Two | None:
    if not _is_counted(model.spec(node.inputs[0])):
        return None
    return _Two(NonZeroCount(), (0,), NonZeroPlaces(node.of(NonZero3)), (("own", 0), ("first", 0)))


def _unique(model: Model, node: Node) -> _Two | None:
    """The two layers of a Unique of all elements; of one along an axis only where the slices are
    elements.
    """
    data = model.spec(node.inputs[0])
    if not _is_counted(data) or (
        len(node.inputs) > 1 and (data.rank != 1 or model.spec(node.inputs[1]).value is None)
    ):
        return None
    return _Two(
        SortedPlaces(),
        (0,),
        UniqueElements(node.of(Unique10)),
        (("own", 0), ("first", 0), ("first", 1)),
    )


def _fill_rows(model: Model, node: Node) -> _Two | None:
    if model.spec(node.inputs[0]).element_type is ElementType.string:
        return None
    given: tuple[_InputRef, ...] = (*(("own", i) for i in range(4)), ("first", 0))
    return _Two(FilledCount(), (1, 2), FilledRows(node.of(SparseFillEmptyRows16)), given)


def _segments(model: Model, node: Node) -> _Two | None:
    """The two layers of a SegmentMax that is not told how many segments there are."""
    if len(node.inputs) > 2:
        return None
    given: tuple[_InputRef, ...] = (("own", 0), ("own", 1), ("first", 0))
    return _Two(SegmentCount(), (1,), node.of(SegmentMax16), given)


def _suppression(model: Model, node: Node) -> _Two | None:
    """The two layers of a NonMaxSuppression of boxes in f32."""
    specs = [model.spec(source) for source in node.inputs]
    if any(spec.element_type is not ElementType.f32 for i, spec in enumerate(specs) if i != 2):
        return None
    numbers = [0] if len(specs) < 3 else specs[2].integers()
    limit = None if numbers is None else numbers[0]
    return _two_of_rows(TakenBoxes(node.of(Suppression), limit), len(specs))


def _of_classes(model: Model, node: Node) -> _Two | None:
    """The two layers of a MulticlassNms by one threshold, or of a MatrixNms, of boxes in f32 that
    classes share.
    """
    layer = node.of(ClassSelection)
    if len(node.inputs) > 2 or model.spec(node.inputs[0]).element_type is not ElementType.f32:
        return None
    if not layer.normalized or getattr(layer, "nms_eta", 1) < 1:
        return None
    return _two_of_rows(TakenOfClasses(layer), 2)


def _regions(model: Model, node: Node) -> _Two | None:
    """The two layers of a GenerateProposals by one threshold, of boxes in f32."""
    layer = node.of(GenerateProposals9)
    if model.spec(node.inputs[3]).element_type is not ElementType.f32:
        return None
    if layer.nms_eta < 1 and layer.nms_threshold > 0.5:
        return None
    return _two_of_rows(TakenRegions(layer), 4)


def _two_of_rows(first: TakenRows, inputs: int) -> _Two:
    """The two layers of one that chooses rows: all that there can be, then the first of them."""
    given = tuple(("first", position) for position in range(4))
    return _Two(first, tuple(range(inputs)), FirstRows(), given)


_RULES: Mapping[str, _Rule] = {
    "GenerateProposals": _regions,
    "MatrixNms": _of_classes,
    "MulticlassNms": _of_classes,
    "NonMaxSuppression": _suppression,
    "NonZero": _non_zero,
    "SegmentMax": _segments,
    "SparseFillEmptyRows": _fill_rows,
    "Unique": _unique,
}
#: The types of layers that become two.
TYPES = frozenset(_RULES)
