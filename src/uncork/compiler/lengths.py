"""Inputs whose length may be left open: how many ids all bags have together differs in every call, and only kernels look at it."""

from __future__ import annotations

from uncork.ir.model import Model, Source
from uncork.kernels import select as choose

#: The numbers of inputs that must have one length, and the length that a constant beside them prescribes.
Equal = tuple[tuple[int, ...], int | None]


def open_lengths(model: Model) -> tuple[frozenset[int], list[Equal]]:
    """The inputs, by number, whose first dimension may be left open; and of each layer that reads such: those of one length."""
    numbers = {Source(parameter, 0): number for number, parameter in enumerate(model.parameters)}
    closed: set[Source] = set()
    groups: list[list[Source]] = []
    for node in model.nodes:
        free = [node.operation is not None and choose.free_lengths(node.operation, i) for i in range(len(node.inputs))]
        group = [source for source, is_free in zip(node.inputs, free) if is_free]
        # A length that a layer computes is not known to agree: a kernel must not read as far as another input reaches.
        known = all(source in numbers or model.spec(source).value is not None for source in group)
        closed.update(source for source, is_free in zip(node.inputs, free) if not is_free or not known)
        if group and known:
            groups.append(group)
    open_ = {number for source, number in numbers.items() if source not in closed and _is_open(model, source)}
    open_ &= {numbers[source] for group in groups for source in group if source in numbers}
    equal: list[Equal] = []
    for group in groups:
        members = tuple(numbers[source] for source in group if source in numbers)
        sizes = {model.spec(source).shape[0].size for source in group if source not in numbers}
        if len(members) + len(sizes) > 1 and open_.intersection(members):
            equal.append((members, sizes.pop() if sizes else None))
    return frozenset(open_), equal


def _is_open(model: Model, parameter: Source) -> bool:
    """How long it is differs from call to call, and nothing else about its shape."""
    shape = model.spec(parameter).shape
    return bool(shape.rank) and not shape[0].is_static and all(dim.is_static for dim in shape[1:])
