"""Runs a whole model by the references: the oracle. Slow, clear, and what every faster path is held against."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from uncork.errors import UncorkError
from uncork.ir.model import Model, Source
from uncork.types import Array, PartialShape, TensorSpec


def interpret(model: Model, inputs: Sequence[Array]) -> list[Array]:
    """The results of a checked model, in order, from one carrier array per parameter, in order.

    Raises InputError, with the layer, when shapes or values of this call do not fit.
    """
    given = dict(zip(model.parameters, inputs))
    uses = Counter(source for node in model.nodes for source in node.inputs)
    values: dict[Source, TensorSpec] = {}
    results: dict[int, Array] = {}
    for node in model.nodes:
        if node.id in given:
            element_type = node.outputs[0].spec.element_type
            values[Source(node.id, 0)] = TensorSpec(element_type, PartialShape(given[node.id].shape), given[node.id])
            continue
        operation = node.operation
        if operation is None:
            raise UncorkError("has no operation: the model was not checked before it was run", node.label)
        try:
            outputs = operation.evaluate([values[source] for source in node.inputs])
        except UncorkError as error:
            raise error.at(node.label) from None
        for position, output in enumerate(outputs):
            if uses[Source(node.id, position)]:
                values[Source(node.id, position)] = output
        if node.type_name == "Result" and outputs[0].value is not None:
            results[node.id] = outputs[0].value
        for source in node.inputs:
            uses[source] -= 1
            if not uses[source]:
                del values[source]
    return [results[result] for result in model.results]
