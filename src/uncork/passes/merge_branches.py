"""A sum of convolutions of one tensor as one convolution.

    Add(Add(Convolution(x, a), c), Add(Convolution(x, b), d))
                                                      is Add(Convolution(x, a + b), c + d)
    Add(Convolution(x, a), BatchNormInference(x, ..)) is Add(Convolution(x, a'), c')

Networks that are trained with branches (RepVGG, MobileOne, and others behind them) are often
exported with all of them. A smaller window lies within a larger one where both begin at their pads;
a scale of channels, and a convolution of more groups, are filters with zeros elsewhere.

Recognised: convolutions and normalisations with constants, of f32, which nothing but the sum reads.
One is taken into another where that multiplies no more than before. Filters are summed in f64.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Union

import numpy as np
from msgspec import Struct

from uncork.ir.model import Model, Node, Source
from uncork.ops.arithmetic import Add
from uncork.ops.convolution import Convolution1, GroupConvolution1
from uncork.passes.known_values import known_value
from uncork.passes.rewrite import NewLayers, only_reader, readers, replaced
from uncork.types import Array, ElementType, TensorSpec

_Sizes = tuple[int, ...]


class _Branch(Struct):
    """A term of a sum that is a convolution of `source` plus a number for each channel."""

    term: Source
    source: Source
    #: [groups, outputs, channels, window..], f64.
    filters: Array
    strides: _Sizes
    dilations: _Sizes
    pads_begin: _Sizes
    pads_end: _Sizes
    shift: Union[Array, None] = None
    #: It is a convolution already.
    convolves: bool = True

    @property
    def window(self) -> _Sizes:
        return self.filters.shape[3:]

    def offsets(self, other: _Branch) -> _Sizes | None:
        """Where another window begins in this one, by its cells; None where it is not a part."""
        found = []
        for axis, (size, small) in enumerate(zip(self.window, other.window, strict=True)):
            step = self.dilations[axis]
            first, rest = divmod(self.pads_begin[axis] - other.pads_begin[axis], step)
            behind = self.pads_end[axis] - other.pads_end[axis]
            fits = (
                rest == 0
                and 0 <= first <= size - small
                and (small == 1 or other.dilations[axis] == step)
                and behind == (size - small - first) * step
                and self.strides[axis] == other.strides[axis]
            )
            if not fits:
                return None
            found.append(first)
        return tuple(found)

    def takes(self, other: _Branch) -> bool:
        """Add another branch to this one, if it can be a part of it."""
        groups, finer = len(self.filters), len(other.filters)
        outputs, channels = other.filters.shape[1:3]
        fits = finer % groups == 0 and finer * outputs == groups * self.filters.shape[1]
        offsets = self.offsets(other) if fits and self.source == other.source else None
        if offsets is None:
            return False
        cells = tuple(slice(a, a + n) for a, n in zip(offsets, other.window, strict=True))
        for group in range(finer):
            into, part = divmod(group, finer // groups)
            rows = slice(part * outputs, (part + 1) * outputs)
            columns = slice(part * channels, (part + 1) * channels)
            place: Any = (into, rows, columns, *cells)
            self.filters[place] += other.filters[group]
        if other.shift is not None:
            self.shift = other.shift if self.shift is None else self.shift + other.shift
        return True


def merge_branches(model: Model) -> Model:
    """The model with one convolution in place of each such sum."""
    read_by = readers(model)
    new: dict[int, Sequence[Node]] = {}
    layers = NewLayers(model)
    inside: set[int] = set()
    for node in reversed(model.nodes):
        if not isinstance(node.operation, Add) or node.id in inside:
            continue
        terms = _collected(model, read_by, node, inside)
        if _merged(layers, read_by, node, terms):
            new[node.id] = layers.taken()
    return replaced(model, new)


def _collected(
    model: Model, read_by: Mapping[Source, list[Node]], root: Node, inside: set[int]
) -> list[Source]:
    """The terms of a sum and of the sums that only it reads, which are `inside`."""
    terms: list[Source] = []
    waiting = [*root.inputs]
    while waiting:
        source = waiting.pop()
        before = model.by_id[source.node]
        if isinstance(before.operation, Add) and only_reader(read_by, before) is not None:
            inside.add(before.id)
            waiting += before.inputs
        else:
            terms.append(source)
    return terms[::-1]


def _merged(
    layers: NewLayers, read_by: Mapping[Source, list[Node]], root: Node, terms: Sequence[Source]
) -> bool:
    """Put layers in the place of a sum; whether a branch of it is a part of another."""
    model, result = layers.old, root.outputs[0].spec
    rank = result.rank
    if rank is None or rank < 3 or result.element_type is not ElementType.f32:
        return False
    read = [model.by_id[term.node].inputs[:1] for term in terms if _branches(model, term)]
    if len({*read}) == len(read):
        return False  # nobody need make numbers of filters that are stored
    branches: list[_Branch] = []
    shifts: list[Array] = []
    others: list[Source] = []
    for term in terms:
        shift = _shift(model.spec(term), rank)
        branch = None if shift is not None else _branch(model, read_by, term)
        if shift is not None:
            shifts.append(shift)
        elif branch is not None:
            branches.append(branch)
        else:
            others.append(term)
    branches.sort(key=lambda branch: -branch.filters.size)
    kept: list[_Branch] = []
    changed: set[Source] = set()
    for branch in branches:
        taker = next((other for other in kept if other.convolves and other.takes(branch)), None)
        if taker is None:
            kept.append(branch)
        else:
            changed.add(taker.term)
    if not changed:
        return False
    summed: list[Source] = []
    for branch in kept:
        if branch.term not in changed:
            summed.append(branch.term)
            continue
        summed.append(_convolution(layers, branch, root.name))
        shifts += [] if branch.shift is None else [branch.shift]
    if shifts:
        channels = max(shift.size for shift in shifts)
        value = np.zeros((1, channels, *(1,) * (rank - 2)))
        for shift in shifts:
            value += shift.reshape(1, -1, *(1,) * (rank - 2))
        summed.append(layers.constant(value, ElementType.f32, root.name))
    total, *more = [*summed, *others]
    for term in more:
        total = layers.add(f"{root.name}/sum", Add(), [total, term])
    layers.finish(root)
    return True


def _branches(model: Model, term: Source) -> bool:
    """Whether a term may be a branch, by its type."""
    node = model.by_id[term.node]
    return node.type_name == "BatchNormInference" or isinstance(node.operation, Convolution1)


def _shift(spec: TensorSpec, rank: int) -> Array | None:
    """The numbers of a constant that adds one to each channel, or one to all; None of others."""
    value = spec.value
    if value is None or value.ndim > rank:
        return None
    shape = (1,) * (rank - value.ndim) + value.shape
    return value.reshape(-1).astype(np.float64) if value.size == shape[1] else None


def _branch(model: Model, read_by: Mapping[Source, list[Node]], term: Source) -> _Branch | None:
    """A term as a branch; None where it is none, or where others read it, too."""
    node = model.by_id[term.node]
    if len(read_by[term]) > 1 or model.spec(term).element_type is not ElementType.f32:
        return None
    if node.type_name == "BatchNormInference":
        return _normalisation(model, node, term)
    operation = node.operation
    if not isinstance(operation, Convolution1):
        return None
    held = model.by_id[node.inputs[1].node]
    # Numbers that a quantized layer reads as small ones are no plain constant.
    plain = held.type_name in ("Const", "StoredConstant")
    filters = known_value(model, node.inputs[1]) if plain else None
    if filters is None or operation.auto_pad not in ("explicit", "valid"):
        return None
    grouped = filters if operation.lead == 3 else filters[np.newaxis]
    axes = range(operation.axes)
    padded = operation.auto_pad == "explicit"
    begin, end = (
        tuple(pads if padded and pads else (0 for _ in axes))
        for pads in (operation.pads_begin, operation.pads_end)
    )
    return _Branch(
        term,
        node.inputs[0],
        grouped.astype(np.float64),
        tuple(operation.strides),
        tuple(map(operation.dilation, axes)),
        begin,
        end,
    )


def _normalisation(model: Model, node: Node, term: Source) -> _Branch | None:
    """x * scale + shift as a convolution of as many groups as x has channels."""
    operation = node.checked_operation
    rank = model.spec(term).rank
    given = {port.name: source for port, source in zip(operation.inputs, node.inputs, strict=True)}
    data = given.pop("data")
    values = {name: model.spec(source).value for name, source in given.items()}
    if rank is None or any(value is None for value in values.values()):
        return None
    gamma, beta, mean, variance = (
        np.asarray(values[name], np.float64) for name in ("gamma", "beta", "mean", "variance")
    )
    scale = gamma / np.sqrt(variance + operation.epsilon)  # type: ignore[attr-defined]
    axes = rank - 2
    once, none = (1,) * axes, (0,) * axes
    filters = scale.reshape(-1, 1, 1, *once)
    return _Branch(term, data, filters, once, once, none, none, beta - mean * scale, False)


def _convolution(layers: NewLayers, branch: _Branch, name: str) -> Source:
    """The convolution of a branch that others were added to."""
    grouped = len(branch.filters) > 1
    held = branch.filters if grouped else branch.filters[0]
    filters = layers.constant(held, ElementType.f32, f"{name}/filters")
    operation = (GroupConvolution1 if grouped else Convolution1)(
        strides=branch.strides,
        dilations=branch.dilations,
        pads_begin=branch.pads_begin,
        pads_end=branch.pads_end,
    )
    inputs = (branch.source, filters)
    return layers.add(f"{name}/merged", operation, inputs, layers.spec(branch.term))
