"""A whole model to ONNX: every layer by its lowering, constants, names, inputs and outputs; what
cannot be exported in one error.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from uncork.compiler.options import Ids, Options
from uncork.errors import InputError, Problem, UncorkError, UnsupportedError
from uncork.export.onnx.graph import KNOWN, Graph, Settings, State, Tensor
from uncork.export.onnx.layers import tell_layers
from uncork.export.onnx.registry import REGISTRY, lowerings
from uncork.export.onnx.signatures import carrier
from uncork.export.onnx.tensors import is_packed, stored_as
from uncork.ir.model import Model, Node, Source
from uncork.onnx.types import ONNX_TYPES
from uncork.ops.parameter import Const
from uncork.passes.pipeline import with_ids
from uncork.types import ElementType, PartialShape, TensorSpec

#: The first opset whose operations the lowerings write, and the version of the file format that
#: came with it.
FIRST_OPSET, IR_VERSION = 21, 10
Values = dict[Source, Tensor]


@dataclass(frozen=True)
class Exported:
    """The ONNX model without the bytes of the constants, the constants by the name of their
    initializer, and what is not exact.
    """

    proto: Any
    weights: Mapping[str, Const]
    approximations: Sequence[tuple[str, str]]


def export(model: Model, opset: int, approximate: bool, ids: Ids) -> Exported:
    """The model in ONNX. Raises UnsupportedError, with every layer that cannot be exported."""
    onnx = import_onnx()
    newest = onnx.defs.onnx_opset_version()
    InputError.when(
        not FIRST_OPSET <= opset <= newest,
        f"opset: expected {FIRST_OPSET} to {newest}, the newest that onnx {onnx.__version__} "
        f"has, got {opset}",
    )
    REGISTRY.check(model)
    Options(ids=ids).check()
    model = with_ids(model, ids)
    settings = Settings(opset, approximate)
    graph = Graph(settings)
    problems: list[Problem] = []
    inputs = _inputs(graph, model, problems)
    reserved = [settings.names.unique(model.name_of_output(i)) for i in range(len(model.results))]
    values: Values = {Source(p, 0): t for p, t in zip(model.parameters, inputs, strict=True)}
    lower_nodes(graph, model, values, problems)
    problems.extend(_outputs_without_rank(model, values))
    UnsupportedError.when_any(model.source, problems)
    infos = [value_info(t.name, t.type, t.shape, t.name) for t in inputs]
    outputs = []
    for name, result in zip(reserved, model.results, strict=True):
        source = model.by_id[result].inputs[0]
        output = named(graph, values[source], name)
        outputs.append(value_info(output, model.spec(source).element_type, values[source].shape))
    return _finished(onnx, model, graph, infos, outputs)


def import_onnx() -> Any:
    """The package onnx, which is an extra."""
    try:
        import onnx
    except ImportError:
        raise UncorkError(
            "export to ONNX needs the package onnx: pip install 'uncork[onnx]'"
        ) from None
    return onnx


def _finished(
    onnx: Any, model: Model, graph: Graph, inputs: list[Any], outputs: list[Any]
) -> Exported:
    settings, helper = graph.settings, onnx.helper
    defaults: dict[str, Any] = {}
    for identifier, state in settings.states.items():
        given = [t for t in (state.value, state.is_set) if t is not None]
        inputs.extend(value_info(t.name, t.type, t.shape, t.name) for t in given)
        defaults.update(state.initial)
        if state.new is not None:
            state.output = settings.names.unique(f"{identifier}.new")
            outputs.append(
                value_info(named(graph, state.new, state.output), state.type, state.new.shape)
            )
    nodes, used = pruned(graph, {o.name for o in outputs})
    settings.names.apply(nodes)
    for value in outputs:
        value.name = settings.names.final(value.name)
    kept = [*defaults.values(), *(t for n, t in graph.initializers.items() if n in used)]
    weights: dict[str, Const] = {}
    for name, constant in settings.weights.items():
        if name in used:
            weights[name] = constant
            kept.append(_header(onnx, name, constant))
    proto_graph = helper.make_graph(nodes, model.name or "model", inputs, outputs, kept)
    opsets = [helper.make_opsetid("", settings.opset)]
    version = max(IR_VERSION, helper.find_min_ir_version_for(opsets))
    proto = helper.make_model(
        proto_graph,
        opset_imports=opsets,
        ir_version=version,
        producer_name="uncork",
        producer_version=_version(),
    )
    metadata = {}
    if settings.states:
        metadata["uncork.states"] = json.dumps([_said(i, s) for i, s in settings.states.items()])
    if settings.approximations:
        metadata["uncork.approximations"] = json.dumps(
            [{"layer": a, "what": b} for a, b in settings.approximations]
        )
    helper.set_model_props(proto, metadata)
    return Exported(proto, weights, settings.approximations)


def _said(identifier: str, state: State) -> dict[str, str]:
    """A variable in the metadata: the output of one call that is the input of the next."""
    said = {"variable": identifier, "input": state.value.name}
    if state.new is not None:
        said["output"] = state.output
    if state.is_set is not None:
        said["is_set"] = state.is_set.name
    return said


def _version() -> str:
    import uncork

    return uncork.__version__


def _header(onnx: Any, name: str, constant: Const) -> Any:
    tensor = onnx.TensorProto(
        name=name, data_type=stored_as(constant.element_type), dims=constant.shape.static
    )
    if constant.element_type is ElementType.string:
        tensor.string_data.extend(str(v).encode() for v in constant.value.reshape(-1))
    return tensor


# ---- layers


def lower_nodes(
    graph: Graph, model: Model, values: Values, problems: list[Problem] | None = None
) -> None:
    """Add the nodes of a model to a graph; without a list for `problems` the first is raised."""
    for node in model.nodes:
        if Source(node.id, 0) in values or node.type_name == "Result":
            continue
        try:
            outputs = _lowered(graph, node, [values[s] for s in node.inputs])
        except UncorkError as error:
            if problems is None:
                raise error.at(node.label) from None
            problems.append(Problem(error.where or node.label, error.message))
            outputs = [
                Tensor(f"missing {node.id}", p.spec.element_type, p.spec.shape)
                for p in node.outputs
            ]
        for position, tensor in enumerate(outputs):
            values[Source(node.id, position)] = tensor


def _lowered(graph: Graph, node: Node, inputs: Sequence[Tensor]) -> list[Tensor]:
    specs = tuple(port.spec for port in node.outputs)
    graph.layer, graph.label, graph.outputs = node.name, node.label, specs
    if isinstance(node.operation, Const):
        return [_weight(graph, node, node.operation)]
    first = len(graph.nodes)
    tensors = written(graph, node, inputs, node.name)
    graph.layers.append((node, inputs, tensors, graph.nodes[first:]))
    made = {name: n for n in graph.nodes[first:] for name in n.output}
    return [_settled(graph, node, i, tensor, made) for i, tensor in enumerate(tensors)]


def written(graph: Graph, node: Node, inputs: Sequence[Tensor], hint: str = "") -> list[Tensor]:
    """The outputs of a layer, with what is known of them; `hint` names those that are constants."""
    operation, specs = node.operation, graph.outputs
    assert operation is not None, node.label
    if operation.deterministic and all(_is_known(spec) for spec in specs):
        return [replace(_known(graph, hint, spec), shape=spec.shape) for spec in specs]
    if all(spec.shape.is_static and spec.shape.size == 0 for spec in specs):
        return [_empty(graph, hint, spec) for spec in specs]
    padded: list[Tensor | None] = list(inputs)
    if operation.inputs and not operation.inputs[-1].variadic:
        padded += [None] * (len(operation.inputs) - len(inputs))
    result = lowerings()[node.type_name](graph, operation, *padded)
    tensors = [result] if isinstance(result, Tensor) else list(result)
    assert len(tensors) >= len(specs), f"{node.label}: {len(tensors)} outputs for {len(specs)}"
    return [_told(node, *each) for each in zip(tensors, specs, strict=True)]


def _told(node: Node, tensor: Tensor, spec: TensorSpec) -> Tensor:
    """An output with what is known of it."""
    if tensor.type is not spec.element_type:
        raise AssertionError(f"{node.label}: an output is {tensor.type}, not {spec.element_type}")
    small = spec.value is not None and spec.value.size <= KNOWN
    merged = spec.shape.merge(tensor.shape)
    shape = spec.shape if merged is None else merged
    return Tensor(tensor.name, tensor.type, shape, spec.value if small else None, spec.elements)


def _settled(
    graph: Graph, node: Node, position: int, tensor: Tensor, made: Mapping[str, Any]
) -> Tensor:
    """An output under its layer's name."""
    names = graph.settings.names
    if tensor.name in made and names.final(tensor.name) == tensor.name:
        names.rename(
            tensor.name,
            names.unique(node.name if len(node.outputs) == 1 else f"{node.name}.{position}"),
        )
        if position == 0:
            made[tensor.name].name = node.name
    return tensor


def _is_known(spec: TensorSpec) -> bool:
    return (
        spec.value is not None
        and spec.value.size <= KNOWN
        and carrier(spec.element_type) is spec.element_type
    )


def _known(graph: Graph, hint: str, spec: TensorSpec) -> Tensor:
    assert spec.value is not None
    return graph.constant(spec.value, spec.element_type, hint)


def _empty(graph: Graph, hint: str, spec: TensorSpec) -> Tensor:
    """An empty tensor as a constant: several nodes of onnxruntime do not take one."""
    element_type = carrier(spec.element_type)
    tensor = graph.constant(np.zeros(spec.shape.static, element_type.dtype), element_type, hint)
    return replace(tensor, type=spec.element_type)


def _weight(graph: Graph, node: Node, constant: Const) -> Tensor:
    """A constant of the model: an initializer under its layer's name; values of four bits are cast
    to a byte each.
    """
    settings = graph.settings
    name = settings.names.unique(node.name)
    settings.weights[name] = constant
    value = None if is_packed(constant.element_type) or constant.count > KNOWN else constant.value
    tensor = Tensor(name, constant.element_type, constant.shape, value)
    if not is_packed(constant.element_type):
        return tensor
    cast = Tensor(settings.names.unique(f"{node.name}/Cast"), constant.element_type, constant.shape)
    graph.append("Cast", [tensor], [cast], {"to": ONNX_TYPES[carrier(constant.element_type)]})
    return cast


# ---- inputs and outputs


def _inputs(graph: Graph, model: Model, problems: list[Problem]) -> list[Tensor]:
    names, tensors = graph.settings.names, []
    for position, parameter in enumerate(model.parameters):
        spec = model.by_id[parameter].outputs[0].spec
        name = names.unique(model.name_of_input(position))
        if spec.rank is None:
            problems.append(
                Problem(
                    model.by_id[parameter].label,
                    "the rank is not known, and an input of an ONNX model needs one",
                )
            )
        tensors.append(Tensor(name, spec.element_type, spec.shape))
    return tensors


def _outputs_without_rank(model: Model, values: Values) -> Iterator[Problem]:
    for result in model.results:
        source = model.by_id[result].inputs[0]
        if values[source].rank is None and model.by_id[source.node].type_name != "Parameter":
            message = (
                "the rank of its output is not known, and an output of an ONNX model needs one"
            )
            yield Problem(model.by_id[source.node].label, message)


def value_info(
    name: str,
    element_type: ElementType,
    shape: PartialShape,
    open_names: str = "",
    inner: bool = False,
) -> Any:
    """Name, type and shape of an input or output; open dimensions get names that begin with
    `open_names`.
    """
    from onnx import helper

    number = ONNX_TYPES[carrier(element_type)]
    if shape.rank is None and inner:
        return helper.make_tensor_value_info(name, number, None)
    if shape.rank is None:
        raise UnsupportedError(f"the rank of variable '{name}' is not known, and ONNX needs it")
    dims = [
        d.static_size if d.is_static else f"{open_names}_{i}" if open_names else None
        for i, d in enumerate(shape)
    ]
    return helper.make_tensor_value_info(name, number, dims)


def named(graph: Graph, tensor: Tensor, name: str) -> str:
    """Give a tensor the name of an output; where it has one for good, a copy of it. Returns the
    name before renaming.
    """
    names = graph.settings.names
    made = any(tensor.name in n.output for n in graph.nodes)
    if made and tensor.name not in graph.claimed:
        graph.claimed.add(tensor.name)
        names.rename(names.final(tensor.name), name)
        return tensor.name
    graph.layer = name
    copy = graph.op("Identity", tensor)
    graph.nodes[-1].name = name
    names.rename(copy.name, name)
    return copy.name


def pruned(graph: Graph, needed: set[str]) -> tuple[list[Any], set[str]]:
    """The nodes that the needed tensors come from, in order, and every tensor that they read. What
    layers they are is said of them.
    """
    needed = set(needed)
    kept: list[Any] = []
    for node in reversed(graph.nodes):
        if needed.intersection(node.output):
            kept.append(node)
            needed.update(_read(node))
    tell_layers(graph, {id(node) for node in kept})
    return kept[::-1], needed


def _read(node: Any) -> Iterator[str]:
    yield from node.input
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield from (output.name for output in attribute.g.output)
            for inner in attribute.g.node:
                yield from _read(inner)
