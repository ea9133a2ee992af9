"""Layers of the IR in ONNX files: what several nodes in a row are together, as the last of them
says in its metadata, with a digest by which it is known that they still are.

The nodes alone have the meaning, for any reader. Where a tool has changed them the digest differs,
and they are read one by one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Union

import numpy as np
from msgspec import Struct, convert

from uncork.errors import UncorkError
from uncork.ops import Operation, find
from uncork.types import Array, ElementType

#: The key of the metadata, and the domain of the node that stands for several when they are read.
KEY = DOMAIN = "uncork.layer"
#: Constants up to this many elements are told by their values.
TOLD = 4096
#: Where a tensor is read or made: which node of those in a row, and which of its inputs or outputs.
Place = tuple[int, int]
#: A constant: its element type, shape and elements.
Told = tuple[str, list[int], list[Any]]
#: A tensor that nodes read and neither make nor are given: what it is, None where that is not told.
Constant = Callable[[str], Union[tuple[Array, ElementType], None]]


class Layer(Struct, frozen=True):
    """What nodes in a row mean. An input is read at a place, or None: the next of the constants. An
    output that no node makes is None.
    """

    type: str
    opset: int
    attributes: dict[str, str]
    nodes: int
    inputs: list[Union[Place, None]]
    outputs: list[Union[Place, None]]
    constants: list[Told] = []
    digest: str = ""

    def operation(self) -> Operation | None:
        """The operation, None where there is none like it."""
        kind = find(self.type, self.opset)
        return None if kind is None else kind.from_text(self.attributes)

    def digested(self, nodes: Sequence[Any], constant: Constant) -> str:
        """What tells these nodes, and what is said of them, from all others: names do not count.

        Raises LookupError where they read what is neither an input nor a constant that is told.
        """
        about = [self.type, self.opset, self.attributes, self.inputs, self.outputs, self.constants]
        digest = hashlib.sha256(json.dumps(about).encode())
        names = {"": "nothing"}
        for i, place in enumerate(self.inputs):
            if place is not None:
                names.setdefault(nodes[place[0]].input[place[1]], f"input {i}")
        for part in _spelled(nodes, names, constant):
            digest.update(part + b"\0")
        return digest.hexdigest()[:32]


def told(value: Array, kind: ElementType) -> Told:
    """A constant as a layer holds it."""
    return kind.name, list(value.shape), value.reshape(-1).tolist()


def array_of(constant: Told) -> tuple[Array, ElementType]:
    """The value of such a constant."""
    name, shape, values = constant
    kind = ElementType.parse(name)
    return np.array(values, kind.dtype).reshape(shape), kind


def _spelled(nodes: Sequence[Any], names: dict[str, str], constant: Constant) -> Iterator[bytes]:
    """Nodes in the order of the file, with numbers for the tensors that they make."""

    def define(name: str) -> bytes:
        names[name] = str(len(names))
        return names[name].encode()

    for node in nodes:
        yield f"{node.domain} {node.op_type} {len(node.input)} {len(node.output)}".encode()
        for name in node.input:
            yield _read(name, names, constant)
        for attribute in sorted(node.attribute, key=lambda each: str(each.name)):
            if not attribute.HasField("g"):
                yield attribute.SerializeToString(deterministic=True)
                continue
            graph = attribute.g
            yield attribute.name.encode()
            for tensor in graph.initializer:
                names[tensor.name] = hashlib.sha256(
                    b"%d %a " % (tensor.data_type, list(tensor.dims)) + tensor.raw_data
                ).hexdigest()
            yield from (define(given.name) for given in graph.input)
            yield from _spelled(graph.node, names, constant)
            yield from (_read(result.name, names, constant) for result in graph.output)
        yield from (define(name) for name in node.output)


def _read(name: str, names: dict[str, str], constant: Constant) -> bytes:
    if name not in names:
        found = constant(name)
        if found is None:
            raise LookupError(name)
        value, kind = found
        names[name] = hashlib.sha256(repr(told(value, kind)).encode()).hexdigest()
    return names[name].encode()


# ---- reading


def whole_layers(nodes: Sequence[Any], constant: Constant) -> list[Any]:
    """The nodes of a graph, and in the place of each that ends a layer a node for all of it."""
    return [_whole(nodes, i, constant) or node for i, node in enumerate(nodes)]


def _whole(nodes: Sequence[Any], last: int, constant: Constant) -> Any:
    """The node for a layer that ends here, or None: of the domain `uncork.layer`, with what is said
    of the layer as its one attribute.
    """
    text = next((entry.value for entry in nodes[last].metadata_props if entry.key == KEY), "")
    layer = layer_of(text) if text else None
    if layer is None or not 0 < layer.nodes <= last + 1:
        return None
    row = nodes[last + 1 - layer.nodes : last + 1]
    try:
        if layer.digested(row, constant) != layer.digest or layer.operation() is None:
            return None
        whole = type(row[0])(op_type=layer.type, domain=DOMAIN)
        for names, places, port in (
            (whole.input, layer.inputs, "input"),
            (whole.output, layer.outputs, "output"),
        ):
            names.extend("" if p is None else getattr(row[p[0]], port)[p[1]] for p in places)
    except (LookupError, TypeError, ValueError, UncorkError):
        return None
    first = next((place[0] for place in layer.outputs if place is not None), -1)
    whole.name = row[first].name
    whole.attribute.add(name=KEY, type=3, s=text.encode())
    return whole


def layer_of(text: str) -> Layer | None:
    """What the metadata say; None where that is not to be understood."""
    try:
        return convert(json.loads(text), Layer)
    except (ValueError, RecursionError):
        return None
