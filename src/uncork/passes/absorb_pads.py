"""Pads that only windows read become pads of these windows.

    Convolution(Pad(x), filters)       becomes        Convolution(x, filters), with more pads

Networks from TensorFlow pad by themselves before windows with strides, at the end more than at the
beginning; models of sound pad at the beginning alone. A Pad is a step of its own, which copies its
data and keeps convolutions around it from passing blocks of channels on.

Recognised: a Pad of spatial axes by numbers that are known and not negative, of which all readers
can take it, also behind layers element by element that make 0 of 0, and behind transpositions:

- a convolution with known filters takes zeros, if its windows share cells: others are products of
  data as they lie. Infinite filters are left alone: they make NaN of a zero that a kernel need not
  look at;
- an AvgPool takes zeros, where it counts cells of pads or has none of its own;
- a MaxPool takes what is lower than all numbers, and zeros where nothing is below them and each
  window has a cell of the data.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from msgspec.structs import replace

from uncork.internal_ops.made_constant import MadeConstant
from uncork.internal_ops.pooled_values import PooledValues
from uncork.internal_ops.stored_filters import StoredConstant
from uncork.ir.model import Model, Node, Source
from uncork.kernels.convolution.geometry import all_finite
from uncork.kernels.convolution.select_pool import pooling_of
from uncork.kernels.extents import certainly, extents, has_extents, is_empty
from uncork.kernels.loops.windows import Window, windows_of
from uncork.ops import Operation
from uncork.ops._common.spatial import Sliding, extent
from uncork.ops.activation import Clamp, ReLU, Sigmoid
from uncork.ops.avg_pool import AvgPool1, Pooling
from uncork.ops.convolution import Convolution1
from uncork.ops.fake_quantize import FakeQuantize
from uncork.ops.max_pool import MaxPool1, MaxPool8
from uncork.ops.pad import Pad12
from uncork.passes.known_values import known_value
from uncork.passes.match_moves import transpose_order
from uncork.passes.match_parts import padding
from uncork.passes.rewrite import NewLayers, readers, replaced
from uncork.types import TensorSpec

#: The cells that a Pad adds at the beginning and at the end of each axis.
_Pads = Sequence[tuple[int, int]]


def absorb_pads(model: Model) -> Model:
    """The model, whose shapes are those of the call, without such layers."""
    while (after := _absorbed(model)) is not model:  # a Pad of what another Pad made
        model = after
    return model


def _absorbed(model: Model) -> Model:
    """The model without those that no other Pad reads."""
    read_by, layers = readers(model), NewLayers(model)
    new: dict[int, Sequence[Node]] = {}
    for node in model.nodes:
        pads = _pads(model, node)
        fill = None if pads is None else padding(model, node)
        if pads is None or fill not in (0.0, -math.inf):
            continue
        found = _Readers(model, read_by, node, fill)
        if not found.take(Source(node.id, 0), pads):
            continue
        moved = {Source(node.id, 0): node.inputs[0]}
        for reader, operation in found.windows.items():
            layer = model.by_id[reader].reading(moved)
            new[reader] = [replace(layer, operation=operation, attributes={})]
        for reader in found.between:  # each comes after those that it reads
            layer = model.by_id[reader]
            layers.again(layer, *layer.reading(moved).inputs)
            new[reader] = layers.taken()
    return replaced(model, new)


def _pads(model: Model, node: Node) -> _Pads | None:
    """The pads of a Pad of numbers; None where only the call knows them, or some are negative, and
    of any other layer.
    """
    if not isinstance(node.operation, Pad12):
        return None
    if not model.spec(node.inputs[0]).element_type.is_float:
        return None
    begin, end = (model.spec(source).value for source in node.inputs[1:3])
    if begin is None or end is None or (begin < 0).any() or (end < 0).any():
        return None
    data, padded = model.spec(node.inputs[0]), node.outputs[0].spec
    if not has_extents(data) or not has_extents(padded) or is_empty(extents(data)):
        return None
    return [*zip(map(int, begin), map(int, end), strict=True)]


class _Readers:
    """What becomes of the layers that read a Pad."""

    def __init__(
        self, model: Model, read_by: Mapping[Source, list[Node]], node: Node, fill: float
    ) -> None:
        self.model, self.read_by, self.fill = model, read_by, fill
        #: Whether no number that is padded is below 0.
        self.positive = _is_positive(model, node.inputs[0])
        #: By the numbers of layers, the windows that take the pads; and the layers before these.
        self.windows: dict[int, Operation] = {}
        self.between: list[int] = []

    def take(self, source: Source, pads: _Pads) -> bool:
        """Whether all that read a tensor can read it without its pads."""
        found = self.read_by.get(source, [])
        return bool(found) and all(self._takes(reader, source, pads) for reader in found)

    def _takes(self, node: Node, source: Source, pads: _Pads) -> bool:
        if node.inputs.count(source) > 1:
            return False
        operation = self._window(node, source, pads)
        if operation is not None:
            self.windows[node.id] = operation
            return True
        order = transpose_order(self.model, node)
        if order is not None and node.inputs[0] == source:
            pads = [pads[axis] for axis in order]
        elif self.fill != 0 or not _keeps_zeros(self.model, node, source, pads):
            return False
        self.positive = self.positive and order is not None
        self.between.append(node.id)
        return self.take(Source(node.id, 0), pads)

    def _window(self, node: Node, source: Source, pads: _Pads) -> Operation | None:
        """A convolution or pooling with more pads; None where it does not take them, and of any
        other layer.
        """
        if node.inputs[0] != source or any(begin or end for begin, end in pads[:2]):
            return None
        operation, kernel = _sliding(self.model, node)
        if operation is None or not kernel or not has_extents(node.outputs[0].spec):
            return None
        data, result = self.model.spec(source), node.outputs[0].spec
        windows = windows_of(operation, extents(data)[2:], extents(result)[2:], kernel)
        if not self._fits(operation, windows, pads[2:]):
            return None
        begin, end = [], []
        for window, (before, behind) in zip(windows, pads[2:], strict=True):
            if not isinstance(window.begin, int) or not isinstance(window.end, int):
                return None
            begin.append(window.begin + before)
            end.append(window.end + behind)
        changes: dict[str, Any] = {
            "pads_begin": tuple(begin),
            "pads_end": tuple(end),
            "auto_pad": "explicit",
        }
        if isinstance(operation, AvgPool1):
            changes["exclude_pad"] = False
        made = operation.replace(**changes)
        return PooledValues(made) if isinstance(node.operation, PooledValues) else made

    def _fits(self, operation: Sliding, windows: Sequence[Window], pads: _Pads) -> bool:
        """Whether windows mean the same with these pads of their own."""
        if isinstance(operation, Convolution1):
            # Windows that share no cells are read as they lie where nothing is outside.
            shares = any(w.stride < extent(w.kernel, w.dilation) for w in windows)
            return self.fill == 0 and shares
        if operation.rounding_type == "ceil_torch":
            return False  # the number of windows depends on which pads are whose
        own = operation.auto_pad.startswith("same") or any(
            not (certainly(w.begin, 0) and certainly(w.end, 0)) for w in windows
        )
        if isinstance(operation, AvgPool1):
            return self.fill == 0 and not (own and operation.exclude_pad)
        if self.fill != 0:
            return True
        # Where windows are longer than the pads that they begin and end in, each has a cell.
        return (
            self.positive
            and not own
            and operation.rounding_type == "floor"
            and all(
                w.dilation == 1
                and max(begin, end) < w.kernel
                and (begin + end < w.kernel or (isinstance(w.size, int) and w.size > begin + end))
                for w, (begin, end) in zip(windows, pads, strict=True)
            )
        )


def _sliding(model: Model, node: Node) -> tuple[Sliding | None, Sequence[int]]:
    """The convolution by known filters, or the pooling, that a layer is, and the size of its
    windows; None of any other layer.
    """
    operation = node.operation
    if isinstance(operation, Convolution1):
        shape = model.spec(node.inputs[1]).shape
        known = shape.is_static and _are_finite(model, node.inputs[1])
        return (operation, shape.static[operation.lead :]) if known else (None, ())
    pool = pooling_of(operation)
    places = isinstance(pool, MaxPool8) and not isinstance(operation, PooledValues)
    if places or not isinstance(pool, (AvgPool1, MaxPool1, MaxPool8)):
        return None, ()
    assert isinstance(pool, Pooling)
    return pool, pool.kernel


def _are_finite(model: Model, source: Source) -> bool:
    """Whether filters are known, and none is an infinity or NaN."""
    constant = model.by_id[source.node].operation
    if isinstance(constant, StoredConstant):
        return True  # which are that
    value = constant.value if isinstance(constant, MadeConstant) else known_value(model, source)
    return value is not None and all_finite(value)


def _keeps_zeros(model: Model, node: Node, source: Source, pads: _Pads) -> bool:
    """Whether a layer computes element by element, with numbers that are the same along the axes
    that are padded, and makes 0 of 0.
    """
    operation = node.operation
    if operation is None or not (operation.elementwise or isinstance(operation, FakeQuantize)):
        return False
    if not operation.deterministic or len(node.outputs) != 1:
        return False
    if not node.outputs[0].spec.element_type.is_float:
        return False
    rank = len(pads)
    padded = [axis - rank for axis, (begin, end) in enumerate(pads) if begin or end]
    if node.outputs[0].spec.shape != model.spec(source).shape:
        return False
    given: list[TensorSpec | None] = []
    for other in node.inputs:
        spec = model.spec(other)
        if other == source:
            kind = spec.element_type
            given.append(TensorSpec.of_array(kind, np.zeros((1,) * rank, kind.dtype)))
            continue
        if spec.value is None or not _stretches(spec.value.shape, rank, padded):
            return False
        given.append(spec)
    made = operation.evaluate(given)[0].value
    return made is not None and not made.any()


def _stretches(shape: Sequence[int], rank: int, axes: Sequence[int]) -> bool:
    """Whether a constant has one number along axes, counted from the last one, of a tensor."""
    return not shape or (len(shape) == rank and all(shape[axis] == 1 for axis in axes))


def _is_positive(model: Model, source: Source) -> bool:
    """Whether no number of a tensor is below 0."""
    node = model.by_id[source.node]
    operation = node.operation
    if isinstance(operation, FakeQuantize):
        low, high = (model.spec(limit).value for limit in node.inputs[3:5])
        return low is not None and high is not None and bool(low.min() >= 0 <= high.min())
    if isinstance(pooling_of(operation), (MaxPool1, MaxPool8)):
        return source.output == 0 and _is_positive(model, node.inputs[0])
    lowest = operation.min if isinstance(operation, Clamp) else -1
    return lowest >= 0 or isinstance(operation, (ReLU, Sigmoid))
