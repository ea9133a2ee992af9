"""Sizes that come as values: numbers of small integer inputs that shapes depend on.

A model whose inputs say how many rows its result has (`dense_shape` of a sparse matrix) is specialised for those numbers as it is
for the shapes of its inputs. Which numbers they are is found by leaving them out, one after the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from uncork.ir.model import Model, Port
from uncork.ir.validate import infer
from uncork.types import Array, ElementType, TensorSpec


@dataclass(frozen=True, slots=True)
class Number:
    """An element, in C order, of an input of the model, by number."""

    input: int
    element: int


def candidates(model: Model, most: int) -> list[Number]:
    """All numbers that could be sizes, of inputs of at most so many."""
    found: list[Number] = []
    for number, parameter in enumerate(model.parameters):
        spec = model.by_id[parameter].outputs[0].spec
        count = spec.shape.size.static_size
        if spec.element_type in (ElementType.i32, ElementType.i64) and count in range(1, most + 1):
            found += [Number(number, element) for element in range(count or 0)]
    return found


def inferred(model: Model, specs: Mapping[int, TensorSpec], inputs: Sequence[Array], known: Sequence[Number]) -> Model | None:
    """The model with its specs inferred from those of its parameters, some numbers of the inputs known; None when that finds errors."""
    given = dict(specs)
    for number in {n.input for n in known}:
        kept = {n.element for n in known if n.input == number}
        parameter = model.parameters[number]
        elements = tuple(int(v) if i in kept else None for i, v in enumerate(inputs[number].ravel()))
        given[parameter] = replace(given[parameter], elements=elements)
    result, problems = infer(model, given, trust_ports=True)
    return None if problems else _whole(result)


def needed(model: Model, specs: Mapping[int, TensorSpec], inputs: Sequence[Array], most: int) -> tuple[Number, ...]:
    """The numbers without which more layers have results of unknown shape."""
    kept = candidates(model, most)

    def unknown(known: Sequence[Number]) -> int | None:
        found = inferred(model, specs, inputs, known)
        return None if found is None else sum(not all(port.spec.shape.is_static for port in node.outputs) for node in found.nodes)

    without = unknown(())
    least = unknown(kept) if without else None
    if not without or least is None or least >= without:
        return ()
    together = [[n for n in kept if n.element == element] for element in range(most)]  # often all inputs are of one kind
    for some in (*filter(None, together), *([n] for n in kept)):
        fewer = [n for n in kept if n not in some]
        if len(fewer) < len(kept):
            count = unknown(fewer)
            if count is not None and count <= least:
                kept = fewer
    return tuple(kept)


def _whole(model: Model) -> Model:
    """What is known in all its parts is known."""
    nodes = []
    for node in model.nodes:
        if any(_is_whole(port.spec) for port in node.outputs):
            node = replace(node, outputs=tuple(_settled(port) for port in node.outputs))
        nodes.append(node)
    return replace(model, nodes=tuple(nodes))


def _is_whole(spec: TensorSpec) -> bool:
    return spec.elements is not None and all(isinstance(e, int) for e in spec.elements)


def _settled(port: Port) -> Port:
    if not _is_whole(port.spec):
        return port
    value = np.array(port.spec.elements, port.spec.element_type.dtype).reshape(port.spec.shape.static)
    return replace(port, spec=replace(port.spec, value=value, elements=None))
