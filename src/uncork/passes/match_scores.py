"""The matcher of what is done to the scores of an attention before masks: numbers that scale them,
factors that are the same for all keys, which may as well scale the queries, and a cap.

    MatMul(query, key) [* number ..] [* factor of each row ..] [Tanh [* number ..]]
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from msgspec import Struct

from uncork.ir.model import Model, Node, Source
from uncork.kernels.extents import certainly, same, same_extents
from uncork.ops.arithmetic import Multiply
from uncork.passes.match_moves import sizes_of
from uncork.passes.rewrite import NewLayers, only_before

#: What may make scores before masks are added.
SCORES = frozenset({"MatMul", "Multiply", "Divide", "Tanh"})


class Scores(Struct, frozen=True):
    """The product whose scores these are: its factor, the factors of rows, and what multiplies the
    tanh of all that, where there is a cap.
    """

    product: Node
    factor: float
    of_rows: tuple[Source, ...] = ()
    cap: float | None = None


def scores_before(
    model: Model, read_by: Mapping[Source, list[Node]], last: Node | None
) -> Scores | None:
    """What makes the scores that this layer ends; None where it is anything else."""
    factor, cap, of_rows = 1.0, None, list[Source]()
    while last is not None and last.type_name != "MatMul":
        if last.type_name == "Tanh":
            if cap is not None or of_rows:
                return None
            factor, cap, place = 1.0, factor, 0
        elif (found := _number(model, last)) is not None:
            place, number = found
            factor *= number
        elif (beside := _of_rows(model, last)) is not None:
            place = beside
            of_rows.append(last.inputs[1 - place])
        else:
            return None
        last = only_before(model, read_by, last, place)
    return None if last is None else Scores(last, factor, tuple(of_rows), cap)


def _number(model: Model, layer: Node) -> tuple[int, float] | None:
    """The input that a layer scales by a number, and that number."""
    if layer.type_name not in ("Multiply", "Divide"):
        return None
    for place in (0, 1):
        number = constant_scalar(model, layer, 1 - place)
        if number is None:
            continue
        if layer.type_name == "Multiply":
            return place, number
        return None if place else (place, 1 / number if number else math.inf)
    return None


def _of_rows(model: Model, layer: Node) -> int | None:
    """The input of a Multiply whose other one is the same for all numbers of a row, and stretches
    no result.
    """
    if not isinstance(layer.operation, Multiply) or layer.operation.auto_broadcast != "numpy":
        return None
    whole = sizes_of(model, Source(layer.id, 0))
    for place in (0, 1):
        own, other = (sizes_of(model, layer.inputs[n]) for n in (place, 1 - place))
        if (
            own is not None
            and other
            and whole is not None
            and same_extents(own, whole)
            and certainly(other[-1], 1)
        ):
            return place
    return None


def scaled_query(
    layers: NewLayers, like: Node, query: Source, factors: tuple[Source, ...]
) -> Source | None:
    """The query times the factors of rows, by layers that are called as another one; None where one
    would stretch it.
    """
    sizes = sizes_of(layers.old, query)
    for factor in factors:
        own = sizes_of(layers.old, factor)
        if sizes is None or own is None or len(own) > len(sizes):
            return None
        aligned = sizes[len(sizes) - len(own) :]
        if not all(certainly(a, 1) or same(a, b) for a, b in zip(own, aligned, strict=True)):
            return None
        query = layers.put(Multiply(auto_broadcast="numpy"), query, factor, name=like.name)
    return query


def constant_scalar(model: Model, layer: Node, position: int) -> float | None:
    """The value of an input that is a constant of one number, and stretches no result."""
    spec, rank = model.spec(layer.inputs[position]), layer.outputs[0].spec.rank
    value = spec.value
    if value is None or value.size != 1 or rank is None or not spec.element_type.is_float:
        return None
    others = (model.spec(source).rank for n, source in enumerate(layer.inputs) if n != position)
    return float(value.item()) if rank in others else None
