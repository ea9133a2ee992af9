"""A model of one layer: to run it by its kernel on given values, or to hand it to somebody as a
file.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from uncork.compiler.bodies import with_checked_bodies
from uncork.ir.model import Model, Node, Port, Source, node_of
from uncork.ops.parameter import Const, Parameter, Result
from uncork.storage import encode
from uncork.types import Array, ElementType, TensorSpec


def alone(
    model: Model,
    node: Node,
    known: Mapping[Source, TensorSpec],
    given: Mapping[Source, TensorSpec] | None = None,
) -> tuple[Model, list[Source]]:
    """The layer as a model, and the tensors that are its inputs, in order. Constants come with it;
    shapes stay as open as they were.

    `known` has specs of tensors that the model knows too little of; `given` those of tensors that
    are inputs with other sizes or values than the model knows.
    """
    nodes: list[Node] = []
    renamed: dict[Source, Source] = {}
    open_inputs: list[Source] = []
    given = given or {}
    for source in dict.fromkeys(node.inputs):
        producer = model.by_id[source.node]
        renamed[source] = Source(len(nodes), 0)
        constant = None if source in given else _constant(producer, source.output)
        if constant is not None:
            spec = TensorSpec(constant.element_type, constant.shape, constant.value)
            nodes.append(node_of(len(nodes), producer.name, constant, (), [Port(spec)]))
            continue
        spec = model.spec(source)
        spec = given.get(source, known.get(source, spec) if spec.rank is None else spec)
        nodes.append(_parameter(len(nodes), producer, source.output, spec))
        open_inputs.append(source)
    own = len(nodes)
    inputs = tuple(renamed[source] for source in node.inputs)
    nodes.append(replace(with_checked_bodies(node), id=own, inputs=inputs))
    results = range(own + 1, own + 1 + len(node.outputs))
    nodes += [
        node_of(number, f"Result_{number}", Result(), [Source(own, output)], [port])
        for output, (number, port) in enumerate(zip(results, node.outputs, strict=True))
    ]
    single = replace(
        model,
        name=node.name,
        nodes=tuple(nodes),
        parameters=tuple(renamed[source].node for source in open_inputs),
        results=tuple(results),
        sinks=(),
        source=node.label,
    )
    return single, open_inputs


def _parameter(number: int, producer: Node, output: int, spec: TensorSpec) -> Node:
    """The input in place of an output of another layer."""
    operation = Parameter(element_type=spec.element_type, shape=spec.shape)
    name = producer.name if len(producer.outputs) == 1 else f"{producer.name}:{output}"
    port = Port(operation.infer(), producer.outputs[output].names)
    return node_of(number, name, operation, (), [port])


def _constant(producer: Node, output: int) -> Const | None:
    """A constant, or a value that constants alone give."""
    if isinstance(producer.operation, Const):
        return producer.operation
    spec = producer.outputs[output].spec
    if spec.value is None:
        return None
    return Const.of_array(spec.element_type, spec.value)


def carrier(values: Array, element_type: ElementType) -> Array:
    """Values as a caller sees them, in the type that carries them."""
    if element_type is ElementType.string:
        return values.astype(object)
    if element_type.is_float and not element_type.is_native:
        return encode(values, element_type)
    return values
