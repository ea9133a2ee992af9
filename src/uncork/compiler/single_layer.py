"""A model of one layer: to run it by its kernel on given values, or to hand it to somebody as a
file.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from uncork.compiler.bodies import with_checked_bodies
from uncork.ir.model import Model, Node, Port, Source
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
        port = producer.outputs[source.output]
        constant = None if source in given else _constant(producer, source.output)
        number = len(nodes)
        if constant is not None:
            nodes.append(
                Node(
                    number,
                    producer.name,
                    "Const",
                    "opset1",
                    constant.to_text(),
                    (),
                    (Port(_spec(constant)),),
                    constant,
                )
            )
        else:
            spec = port.spec if port.spec.rank is not None else known.get(source, port.spec)
            spec = given.get(source, spec)
            parameter = Parameter(element_type=spec.element_type, shape=spec.shape)
            name = (
                producer.name if len(producer.outputs) == 1 else f"{producer.name}:{source.output}"
            )
            ports = (Port(TensorSpec(spec.element_type, spec.shape), port.names),)
            nodes.append(
                Node(number, name, "Parameter", "opset1", parameter.to_text(), (), ports, parameter)
            )
            open_inputs.append(source)
        renamed[source] = Source(number, 0)
    own = len(nodes)
    node = with_checked_bodies(node)
    nodes.append(replace(node, id=own, inputs=tuple(renamed[source] for source in node.inputs)))
    results = []
    for output, port in enumerate(node.outputs):
        number = len(nodes)
        nodes.append(
            Node(
                number,
                f"Result_{number}",
                "Result",
                "opset1",
                {},
                (Source(own, output),),
                (port,),
                Result(),
            )
        )
        results.append(number)
    parameters = tuple(renamed[source].node for source in open_inputs)
    single = replace(
        model,
        name=node.name,
        nodes=tuple(nodes),
        parameters=parameters,
        results=tuple(results),
        sinks=(),
        source=node.label,
    )
    return single, open_inputs


def _constant(producer: Node, output: int) -> Const | None:
    """A constant, or a value that constants alone give."""
    if isinstance(producer.operation, Const):
        return producer.operation
    spec = producer.outputs[output].spec
    if spec.value is None:
        return None
    return Const.of_array(spec.element_type, spec.value)


def _spec(constant: Const) -> TensorSpec:
    return TensorSpec(constant.element_type, constant.shape, constant.value)


def carrier(values: Array, element_type: ElementType) -> Array:
    """Values as a caller sees them, in the type that carries them."""
    if element_type is ElementType.string:
        return values.astype(object)
    if element_type.is_float and not element_type.is_native:
        return encode(values, element_type)
    return values
