"""The interpreter, which is the oracle: it runs a whole model by the references.

Slow, clear, and what every faster path is held against.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import zip_longest

from uncork.errors import UncorkError
from uncork.ir.model import Model, Node, Source
from uncork.ops.state import Assign3, ReadValue3
from uncork.types import Array, PartialShape, TensorSpec

#: The values of a model's variables, by variable id.
State = dict[str, Array]


def interpret(model: Model, inputs: Sequence[Array], state: State | None = None) -> list[Array]:
    """The results of a checked model, in order, from one carrier array per parameter, in order.

    `state` holds the variables' values; what the model assigns is put there when the whole call has
    succeeded. A result may be one of `inputs`, but never an array of the model's own: the caller
    may write into it. Raises InputError, with the layer, when shapes or values of this call do not
    fit.
    """
    state = {} if state is None else state
    assigned: State = {}
    given = dict(zip(model.parameters, inputs, strict=True))
    uses = Counter(source for node in model.nodes for source in node.inputs)
    values: dict[Source, TensorSpec] = {}
    results: dict[int, Array] = {}
    constants: set[int] = set()
    for node in model.nodes:
        if node.id in given:
            element_type = node.outputs[0].spec.element_type
            values[Source(node.id, 0)] = TensorSpec.of_array(element_type, given[node.id])
            continue
        operation = node.operation
        if operation is None:
            raise UncorkError(
                "has no operation: the model was not checked before it was run", node.label
            )
        try:
            arguments = [values[source] for source in node.inputs]
            if isinstance(operation, ReadValue3) and operation.variable_id in state:
                kept = state[operation.variable_id]
                outputs: tuple[TensorSpec, ...] = (
                    TensorSpec.of_array(node.outputs[0].spec.element_type, kept),
                )
            else:
                outputs = operation.evaluate(arguments)
            if isinstance(operation, Assign3) and outputs[0].value is not None:
                assigned[operation.variable_id] = outputs[0].value
        except UncorkError as error:
            if reason := _of_one_size(model, node, arguments):
                error = error.during(reason)
            raise error.at(node.label) from None
        if not node.inputs and outputs[0].value is not None:
            constants.add(id(outputs[0].value))
        for position, output in enumerate(outputs):
            if uses[Source(node.id, position)]:
                values[Source(node.id, position)] = output
        if node.type_name == "Result" and outputs[0].value is not None:
            results[node.id] = outputs[0].value
        for source in node.inputs:
            uses[source] -= 1
            if not uses[source]:
                del values[source]
    # Copies: a value may be a view of the caller's array, which the caller may change before the
    # next call.
    state.update({name: value.copy() for name, value in assigned.items()})
    return [results[r].copy() if id(results[r]) in constants else results[r] for r in model.results]


def _of_one_size(model: Model, node: Node, arguments: Sequence[TensorSpec]) -> str:
    """The shapes that a layer's inputs have in every call, where its operation refuses those of
    this call, and a number of the model meets another size that is open; else "".
    """
    try:
        shapes = [TensorSpec(given.element_type, given.shape) for given in arguments]
        node.checked_operation.describe(shapes)
    except UncorkError:
        own = [model.spec(source).shape for source in node.inputs]
        here = [given.shape for given in arguments]
        alike = len({shape.rank for shape in here}) == 1
        if not alike and getattr(node.operation, "auto_broadcast", "") != "numpy":
            return ""  # axes of inputs do not meet
        if any(map(_meets_open, _axes(own), _axes(here))):
            whole = ", ".join(map(str, own))
            return f"the model they are {whole}: sizes that are numbers were fixed by its export"
    return ""


def _axes(shapes: Sequence[PartialShape]) -> list[tuple[int | None, ...]]:
    """The sizes of tensors along each axis, from the last one on: 1 where a tensor has none, None
    where it is open.
    """
    sizes = [[dim.static_size for dim in shape] if shape.rank else [] for shape in shapes]
    return list(zip_longest(*(each[::-1] for each in sizes), fillvalue=1))


def _meets_open(own: tuple[int | None, ...], here: tuple[int | None, ...]) -> bool:
    """Whether a number of the model other than 1 meets another size of this call that is open in
    the model.
    """
    fixed = {size for size in own if size not in (None, 1)}
    return bool(fixed) and any(
        size is None and given not in fixed | {1} for size, given in zip(own, here, strict=True)
    )
