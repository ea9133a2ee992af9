"""`Lowerer`: the nodes of an ONNX graph as layers, node by node, with every problem noted."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from uncork.errors import (
    Label,
    Problem,
    UncorkError,
    UnsupportedError,
    ValidationError,
    shortened,
)
from uncork.ir.model import Source
from uncork.onnx.call import Call
from uncork.onnx.graph import Graph
from uncork.onnx.layers import DOMAIN, KEY, TOLD, array_of, layer_of, whole_layers
from uncork.onnx.registry import Added, Rows, Value, lowering_of, plain_domain, shown_domain
from uncork.onnx.tensors import ExternalFiles, packed_of, value_of
from uncork.types import Array, ElementType

#: Functions in functions, and graphs in graphs: deeper than any exporter nests them.
_DEEPEST = 48
#: What Python says of wrong numbers that no rule has refused before.
_OF_PYTHON = (
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    TypeError,
    ValueError,
)
_STRING, _TENSOR, _GRAPH, _SPARSE = 3, 4, 5, 11


class Failed(Exception):
    """A value whose node was refused before: what reads it is not reported again."""


class Scope:
    """The names of an ONNX graph, or of a function, and what they stand for.

    A graph in a node sees the names of the graph around it, also where its layers become a body of
    their own.
    """

    def __init__(self, lowerer: Lowerer, graph: Graph, parent: Scope | None = None) -> None:
        self.lowerer, self.graph, self.parent = lowerer, graph, parent
        self.values: dict[str, Value] = {}
        #: Names of values whose nodes were refused.
        self.failed: set[str] = set()
        #: Tensors of the file that become constants when they are read.
        self.initializers: dict[str, Any] = {}
        #: The version of each domain, and what attributes that refer to a function's stand for.
        self.opsets: Mapping[str, int] = parent.opsets if parent else {}
        self.references: Mapping[str, Any] = parent.references if parent else {}
        self.prefix: str = parent.prefix if parent else ""
        self.depth: int = parent.depth + 1 if parent else 0

    def tensor(self, proto: Any) -> tuple[Array, ElementType]:
        """The values of a tensor of the file."""
        return value_of(proto, self.lowerer.external)

    def told(self, name: str) -> tuple[Array, ElementType] | None:
        """The values of a small initializer."""
        proto = self.initializers.get(name)
        if proto is None:
            return None if self.parent is None else self.parent.told(name)
        return self.tensor(proto) if math.prod(proto.dims) <= TOLD else None

    def lookup(self, name: str) -> Value:
        """What a name stands for. Raises Failed, ValidationError."""
        if name in self.values:
            return self.values[name]
        if name in self.failed:
            raise Failed
        if name in self.initializers:
            try:
                self.values[name] = self._initializer(self.initializers[name], name)
            except UncorkError as error:
                self.failed.add(name)
                raise error.at(f"initializer '{shortened(name)}'") from None
            return self.values[name]
        if self.parent is None:
            raise ValidationError(
                f"reads '{shortened(name)}', which no input, initializer or node before it gives"
            )
        value = self.parent.lookup(name)
        if self.parent.graph is not self.graph:
            value = self._captured(value, name)
        self.values[name] = value
        return value

    def _initializer(self, proto: Any, name: str) -> Source:
        packed, name = packed_of(proto, self.lowerer.external), self.graph.named(self.prefix + name)
        if packed is not None:
            return self.graph.stored(*packed, tuple(proto.dims), name)
        return self.graph.constant(*self.tensor(proto), name)

    def _captured(self, value: Value, name: str) -> Value:
        if isinstance(value, list):
            return [self._captured(v, f"{name}_{i}") for i, v in enumerate(value)]
        if isinstance(value, Added):
            raise UnsupportedError(
                f"'{shortened(name)}': a sequence that a loop fills, in a graph inside its body, "
                "is not supported: give tensors of equal shapes"
            )
        if isinstance(value, Rows):
            return Rows(self.graph.capture(value.tensor, self.graph.named(name)))
        return None if value is None else self.graph.capture(value, self.graph.named(name))


class Lowerer:
    """Reads the nodes of a model. Problems are collected; what a refused node gives is unknown."""

    def __init__(self, model: Any, external: ExternalFiles) -> None:
        self.external = external
        self.problems: list[Problem] = []
        self.unsupported: list[Problem] = []
        #: Types of values, which some functions of the standard ask for.
        self.functions = {
            (plain_domain(f.domain), f.name, getattr(f, "overload", "")): f for f in model.functions
        }

    # ---- graphs

    def nodes(self, scope: Scope, nodes: Sequence[Any], wanted: Iterable[str]) -> None:
        """Lower those nodes that the wanted names need, in the order of the file."""
        for node in _needed(whole_layers(nodes, scope.told), wanted):
            self._node(scope, node)

    def graph(self, scope: Scope, proto: Any) -> list[Value]:
        """Lower a graph in a node, whose inputs are in the scope, and give its outputs. Raises
        Failed where a node of it was refused.
        """
        ValidationError.when(scope.depth > _DEEPEST, f"graphs are nested more than {_DEEPEST} deep")
        scope.initializers.update((t.name, t) for t in proto.initializer)
        names = [o.name for o in proto.output]
        with self.accepted():
            self.nodes(scope, proto.node, names)
            return [scope.lookup(name) for name in names]

    @contextmanager
    def accepted(self) -> Iterator[None]:
        """Raises Failed where a node is refused meanwhile."""
        before = len(self.problems) + len(self.unsupported)
        yield
        if len(self.problems) + len(self.unsupported) > before:
            raise Failed

    # ---- nodes

    def _node(self, scope: Scope, node: Any) -> None:
        name = scope.prefix + (node.name or next((o for o in node.output if o), node.op_type))
        domain = plain_domain(node.domain)
        label = self._label(scope, node, name, domain)
        graph, since = scope.graph, scope.graph.count
        try:
            inputs = [scope.lookup(i) if i else None for i in node.input]
            since = graph.count
            values = self._lowered(scope, node, domain, inputs, name)
            given = _each(values)
            UnsupportedError.when(
                len(given) < sum(1 for o in node.output if o),
                f"has {len(node.output)} outputs, of which {len(given)} are supported",
            )
        except Failed:
            scope.failed.update(o for o in node.output if o)
            return
        except UnsupportedError as error:
            self._refused(scope, node, self.unsupported, error, label)
            return
        except UncorkError as error:
            self._refused(scope, node, self.problems, error, label)
            return
        except RecursionError:
            self._refused(scope, node, self.problems, ValidationError("is nested too deep"), label)
            return
        except _OF_PYTHON as error:
            message = f"does not fit its operator: {type(error).__name__}: {error!s:.200}"
            self._refused(scope, node, self.problems, ValidationError(message), label)
            return
        main = next((v for v in given if isinstance(v, Source)), None)
        graph.rename(since, name, main if main is not None and main.node >= since else None)
        for output, value in zip(node.output, given, strict=False):
            if output:
                scope.values[output] = value
                if isinstance(value, Source) and not scope.prefix:
                    graph.name_tensor(value, output, since)

    def _label(self, scope: Scope, node: Any, name: str, domain: str) -> Label:
        opset = scope.opsets.get(domain)
        version = f"opset {opset}" if opset else "no opset"
        kind = f"{shortened(node.op_type)} of {shortened(shown_domain(domain))}, {version}"
        return Label(f"node '{shortened(name)}' ({kind})", name)

    def _refused(
        self, scope: Scope, node: Any, problems: list[Problem], error: UncorkError, label: Label
    ) -> None:
        scope.failed.update(o for o in node.output if o)
        message = error.message if len(error.problems) == 1 else str(error.problems[0])
        problems.append(Problem(label, message))

    def _lowered(
        self, scope: Scope, node: Any, domain: str, inputs: list[Value], name: str
    ) -> Value | tuple[Value, ...]:
        attributes = _attributes(scope, node)
        if domain == DOMAIN:
            return _layer(scope.graph, attributes[KEY], inputs)
        key = (domain, node.op_type, getattr(node, "overload", ""))
        if key in self.functions:
            return self._inlined(scope, self.functions[key], node, inputs, attributes, name)
        opset = scope.opsets.get(domain)
        if opset is None and domain == "com.microsoft":
            opset = 1
        if opset is None:
            raise ValidationError(
                f"the model imports no opset of domain '{shortened(shown_domain(domain))}'"
            )
        schema = _schema(domain, node.op_type, opset)
        version = schema.since_version if schema else opset
        if schema is not None:
            _check(schema, inputs, attributes)
        found = lowering_of(domain, node.op_type, version)
        if found is not None:
            call = Call(
                scope.graph,
                node.op_type,
                version,
                inputs,
                attributes,
                list(node.output),
                scope,
                name,
            )
            return found(scope.graph, call, *call.inputs_of(found))
        body = (
            None if schema is None else _function_of(schema, node, opset, scope, inputs, attributes)
        )
        if body is None:
            raise UnsupportedError(_not_supported(domain, node.op_type, opset, schema))
        return self._inlined(scope, body, node, inputs, attributes, name)

    def _inlined(
        self,
        scope: Scope,
        function: Any,
        node: Any,
        inputs: list[Value],
        attributes: Mapping[str, Any],
        name: str,
    ) -> tuple[Value, ...]:
        """The nodes of a function in place of the node that calls it."""
        inner = Scope(self, scope.graph)
        inner.depth = scope.depth + 1
        ValidationError.when(
            inner.depth > _DEEPEST, f"functions call functions more than {_DEEPEST} deep"
        )
        ValidationError.when(
            len(inputs) > len(function.input),
            f"has {len(inputs)} inputs, the function takes {len(function.input)}",
        )
        own = {plain_domain(o.domain): o.version for o in function.opset_import}
        inner.opsets = {**_newest(), **scope.opsets, **own}
        defaults = {a.name: _value(inner, a) for a in getattr(function, "attribute_proto", ())}
        inner.references = {**defaults, **attributes}
        inner.prefix = f"{name}/"
        padded = inputs + [None] * (len(function.input) - len(inputs))
        inner.values.update(zip(function.input, padded, strict=True))
        # Only the outputs that are asked for: the nodes of others may not even be there.
        wanted = [o for o, asked in zip(function.output, node.output, strict=False) if asked]
        with self.accepted():
            self.nodes(inner, function.node, wanted)
        found = {output: inner.lookup(output) for output in wanted}
        return tuple(found.get(output) for output in function.output)


def _layer(graph: Graph, text: str, inputs: Sequence[Value]) -> tuple[Value, ...]:
    """The layer that several nodes are."""
    layer = layer_of(text)
    assert layer is not None, text
    operation, constants = layer.operation(), iter(layer.constants)
    assert operation is not None, text
    given = [graph.constant(*array_of(next(constants))) if i is None else i for i in inputs]
    return graph.add_operation(operation, *(i for i in given if isinstance(i, Source)))


def _newest() -> dict[str, int]:
    """The newest opset, for functions of the standard that say none."""
    from onnx import defs

    return {"": defs.onnx_opset_version()}


def _each(values: Value | tuple[Value, ...]) -> tuple[Value, ...]:
    """The values of a lowering, of which one may come alone. (A Source is a tuple, too.)"""
    if isinstance(values, tuple) and not isinstance(values, Source):
        return values
    return (values,)


def _needed(nodes: Sequence[Any], wanted: Iterable[str]) -> list[Any]:
    """The nodes that the wanted names need."""
    names = set(wanted)
    kept: list[Any] = []
    for node in reversed(nodes):
        if not names.isdisjoint(o for o in node.output if o):
            names.update(_reads(node))
            kept.append(node)
    return kept[::-1]


def _reads(node: Any) -> Iterator[str]:
    """The names that a node reads, those that only graphs in it read included."""
    pending = [node]
    while pending:
        each = pending.pop()
        yield from each.input
        for attribute in each.attribute:
            for graph in (attribute.g, *attribute.graphs) if attribute.type in (5, 10) else ():
                yield from (o.name for o in graph.output)
                pending.extend(graph.node)


def _attributes(scope: Scope, node: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for attribute in node.attribute:
        if attribute.ref_attr_name:
            if attribute.ref_attr_name in scope.references:
                found[attribute.name] = scope.references[attribute.ref_attr_name]
        else:
            found[attribute.name] = _value(scope, attribute)
    return found


def _value(scope: Scope, attribute: Any) -> Any:
    """An attribute as Python has it: texts are str, tensors and graphs stay as they are."""
    kind = attribute.type
    if kind == _STRING:
        return _text(attribute, attribute.s)
    single = {1: "f", 2: "i", _TENSOR: "t", _GRAPH: "g", _SPARSE: "sparse_tensor"}
    if kind in single:
        return getattr(attribute, single[kind])
    several = {6: "floats", 7: "ints", 9: "tensors", 10: "graphs"}
    if kind in several:
        return list(getattr(attribute, several[kind]))
    if kind == 8:
        return [_text(attribute, text) for text in attribute.strings]
    if kind == 13:
        return attribute.tp
    raise ValidationError(f"attribute '{shortened(attribute.name)}' has no type that is known")


def _text(attribute: Any, data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise ValidationError(
            f"attribute '{shortened(attribute.name)}': expected text in UTF-8, got {data[:40]!r}"
        ) from None


def _schema(domain: str, op_type: str, opset: int) -> Any:
    """What the standard says of an operator; None where it does not know it."""
    from onnx import defs

    try:
        return defs.get_schema(op_type, min(opset, 2**31 - 1), domain)
    except (defs.SchemaError, TypeError):
        return None


def _check(schema: Any, inputs: Sequence[Value], attributes: dict[str, Any]) -> None:
    """Refuse what no version of the operator has, and give attributes their defaults."""
    ValidationError.when(
        not schema.min_input <= len(inputs) <= schema.max_input,
        f"has {len(inputs)} inputs, {schema.name}-{schema.since_version} takes "
        f"{schema.min_input} to {schema.max_input}",
    )
    for name, declared in schema.attributes.items():
        if name in attributes:
            continue
        ValidationError.when(declared.required, f"attribute '{name}' is missing")
        if declared.default_value.type:
            attributes[name] = _value_of_default(declared.default_value)


def _value_of_default(proto: Any) -> Any:
    return _value(None, proto)  # type: ignore[arg-type]


def _function_of(
    schema: Any,
    node: Any,
    opset: int,
    scope: Scope,
    inputs: Sequence[Value],
    attributes: Mapping[str, Any],
) -> Any:
    """The function by which the standard defines an operator; None where it has none."""
    from onnx import FunctionProto, NodeProto, TypeProto, helper

    from uncork.onnx.types import ONNX_TYPES

    if schema.has_function:
        versions = [v for v in schema.function_opset_versions if v <= opset]
        if versions:
            body = schema.get_function_with_opset_version(max(versions))
            return FunctionProto.FromString(body)
    if schema.has_context_dependent_function:
        types = []
        for value in inputs:
            kind = TypeProto()
            if isinstance(value, Source):
                spec = scope.graph.spec(value)
                kind.tensor_type.elem_type = ONNX_TYPES.get(spec.element_type, 0)
                if spec.rank is not None:
                    for size in spec.shape:
                        dim = kind.tensor_type.shape.dim.add()
                        if size.is_static:
                            dim.dim_value = int(size)
            types.append(kind.SerializeToString())
        versions = [v for v in schema.context_dependent_function_opset_versions if v <= opset]
        if versions:
            whole = NodeProto()
            whole.CopyFrom(node)
            for attribute in [a for a in whole.attribute if a.ref_attr_name]:
                whole.attribute.remove(attribute)
                if attribute.name in attributes:
                    value = helper.make_attribute(attribute.name, attributes[attribute.name])
                    whole.attribute.append(value)
            body = schema.get_context_dependent_function_with_opset_version(
                max(versions), whole.SerializeToString(), types
            )
            return FunctionProto.FromString(body) if body else None
    return None


def _not_supported(domain: str, op_type: str, opset: int, schema: Any) -> str:
    from uncork.onnx.registry import LOWERINGS

    if schema is not None or (domain, op_type) in LOWERINGS:
        what = "is not supported"
    elif domain:
        what = "is a custom operator that is not supported"
    else:
        what = f"is no operator of opset {opset} that the installed onnx knows"
        return f"{what}: is its name right, and is the package onnx new enough?"
    return (
        f"{what}: export the model without it, or run this part with onnxruntime and give what it "
        "computes to a model that begins behind it"
    )
