"""IR files by hand: what OpenVINO's serializer writes, with any part of it changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

import numpy as np

from uncork import storage
from uncork.ir.model import Model, Node
from uncork.ops._body import SubGraphOperation
from uncork.types import ElementType, PartialShape


def attributes(**values: object) -> str:
    """`name="value"` of each; a trailing underscore is dropped (`from_`), an inner one becomes a
    dash when written twice.
    """
    return "".join(
        f" {k.rstrip('_').replace('__', '-')}={quoteattr(str(v))}"
        for k, v in values.items()
        if v is not None
    )


def port(
    number: object,
    dims: Sequence[object] = (),
    precision: str | None = "FP32",
    names: str | None = None,
    inner: str = "",
) -> str:
    sizes = "".join(f"<dim>{d}</dim>" for d in dims)
    return f"<port{attributes(id=number, precision=precision, names=names)}>{sizes}{inner}</port>"


def layer(
    number: object,
    kind: str,
    inputs: Sequence[str] = (),
    outputs: Sequence[str] = (),
    *,
    version: str | None = "opset1",
    name: str | None = None,
    inner: str = "",
    more: str = "",
    **data: object,
) -> str:
    """A <layer>; further keywords are the attributes of its <data>."""
    head = attributes(
        id=number, name=f"layer{number}" if name is None else name, type=kind, version=version
    )
    parts = [f"<data{attributes(**data)}/>" if data else "", inner]
    parts += [
        f"<{tag}>{''.join(ports)}</{tag}>"
        for tag, ports in (("input", inputs), ("output", outputs))
        if ports
    ]
    return f"<layer{head}{more}>{''.join(parts)}</layer>"


def edge(source: object, target: object) -> str:
    """`edge("0:0", "1:0")`."""
    from_layer, from_port, to_layer, to_port = (*str(source).split(":"), *str(target).split(":"))
    return (
        f'<edge from-layer="{from_layer}" from-port="{from_port}" to-layer="{to_layer}" '
        f'to-port="{to_port}"/>'
    )


def parameter(
    number: object, dims: Sequence[object] = (2,), precision: str = "FP32", **more: Any
) -> str:
    name = more.pop("name", None)
    names = more.pop("names", None)
    element_type = ElementType.parse(precision).name
    shape = more.pop("shape", ",".join("?" if str(d) == "-1" else str(d) for d in dims))
    out = port(0, dims, precision, names)
    return layer(
        number,
        "Parameter",
        outputs=[out],
        name=name,
        shape=shape,
        element_type=element_type,
        **more,
    )


def constant(
    number: object, element_type: str, shape: str, offset: object, size: object, **more: Any
) -> str:
    dims = [d for d in shape.replace(" ", "").split(",") if d]
    out = port(0, dims, ElementType.parse(element_type).ir_name)
    return layer(
        number,
        "Const",
        outputs=[out],
        element_type=element_type,
        shape=shape,
        offset=offset,
        size=size,
        **more,
    )


def relu(number: object, dims: Sequence[object] = (2,), **more: Any) -> str:
    return layer(number, "ReLU", [port(0, dims)], [port(1, dims)], **more)


def result(
    number: object, dims: Sequence[object] = (2,), precision: str = "FP32", **more: Any
) -> str:
    return layer(number, "Result", [port(0, dims, precision)], **more)


@dataclass
class Net:
    """The whole file."""

    layers: Sequence[str]
    edges: Sequence[str]
    version: object = 11
    tail: str = "<rt_info/>"
    head: str = '<?xml version="1.0"?>\n'

    @property
    def body(self) -> str:
        """What is inside of <net>, or of a <body>."""
        lines = "\n".join(self.layers)
        return f"<layers>\n{lines}\n</layers>\n<edges>{''.join(self.edges)}</edges>\n{self.tail}"

    def __str__(self) -> str:
        return f"{self.head}<net{attributes(name='net', version=self.version)}>\n{self.body}</net>"

    def save(self, folder: Path, weights: bytes | None = None) -> Path:
        path = folder / "model.xml"
        path.write_text(str(self), encoding="utf-8")
        if weights is not None:
            path.with_suffix(".bin").write_bytes(weights)
        return path


def simple(**more: Any) -> Net:
    """parameter -> ReLU -> result."""
    return Net([parameter(0), relu(1), result(2)], [edge("0:0", "1:0"), edge("1:1", "2:0")], **more)


def one_constant(element_type: str, shape: str, offset: object, size: object) -> Net:
    """A constant that is the model's only result."""
    kind = ElementType.parse(element_type)
    dims = [d for d in shape.replace(" ", "").split(",") if d]
    return Net(
        [constant(0, element_type, shape, offset, size), result(1, dims, kind.ir_name)],
        [edge("0:0", "1:0")],
    )


def assert_same(first: Model, second: Model) -> None:
    """The same model, apart from where constants lie in the weights file and the order of unrelated
    layers.

    Names of bodies are not compared: the file has none.
    """
    for what in ("ir_version", "parameters", "results", "sinks", "extras"):
        assert getattr(first, what) == getattr(second, what), what
    assert set(first.by_id) == set(second.by_id)
    for node in first.nodes:
        _assert_same_node(node, second.by_id[node.id])


def _assert_same_node(first: Node, second: Node) -> None:
    where = first.label
    for what in ("name", "type_name", "opset", "inputs", "layer_attributes", "input_extras"):
        assert getattr(first, what) == getattr(second, what), f"{where}: {what}"
    assert _other_extras(first) == _other_extras(second), where
    apart = {"offset", "size"} if first.type_name == "Const" else set()
    assert {k: v for k, v in first.attributes.items() if k not in apart} == {
        k: v for k, v in second.attributes.items() if k not in apart
    }
    assert len(first.outputs) == len(second.outputs)
    for a, b in zip(first.outputs, second.outputs, strict=True):
        assert a.spec.element_type is b.spec.element_type, where
        # An unknown rank is written as a port without dimensions, as a scalar is.
        assert (
            a.spec.shape == b.spec.shape
            or a.spec.rank is None
            or _open(a.spec.shape) == _open(b.spec.shape)
        ), where
        assert sorted(a.names) == sorted(b.names)
        assert a.extras == b.extras, where
    if first.type_name == "Const":
        kind = first.operation.element_type
        assert bytes(storage.pack(first.operation.value, kind)) == bytes(
            storage.pack(second.operation.value, kind)
        ), where
        np.testing.assert_array_equal(
            first.operation.value.shape, second.operation.value.shape, where
        )
    assert [tag for tag, _ in first.bodies] == [tag for tag, _ in second.bodies], where
    for (_, a), (_, b) in zip(first.bodies, second.bodies, strict=True):
        assert_same(a, b)


def _other_extras(node: Node) -> list[Any]:
    """What is kept as it is; port maps are written anew, so there it is the meaning that counts."""
    if not isinstance(node.operation, SubGraphOperation):
        return list(node.extras)
    maps = [(tag, m.inputs, m.outputs, m.back_edges) for tag, m in node.operation.bodies.items()]
    return [
        *(e for e in node.extras if e.tag != "back_edges" and not e.tag.endswith("port_map")),
        maps,
    ]


def _open(shape: PartialShape) -> list[int]:
    return [int(d) if d.is_static else -1 for d in shape]
