"""`Model` to `model.xml` and `model.bin`: reading them again gives the same model.

OpenVINO loads what is written.

Both files are written beside their final names and renamed when whole, weights first: whoever opens
the XML finds its bytes.
"""

from __future__ import annotations

import os
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

from uncork import storage
from uncork.errors import UncorkError, ValidationError
from uncork.internal_ops.packed_const import PackedConst
from uncork.ir import xml
from uncork.ir.diagnostics import shown
from uncork.ir.dropped import warn_if_dropped
from uncork.ir.graph import COMPILED_LAYERS
from uncork.ir.model import Model, Node, join_names
from uncork.ir.replacement import Replacement
from uncork.ir.subgraphs import write_maps
from uncork.ops._body import SubGraphOperation
from uncork.ops.parameter import Const
from uncork.types import ElementType, TensorSpec


def write_model(model: Model, path: str | os.PathLike[str]) -> None:
    """Write `path` and the weights beside it, with the suffix `.bin`.

    Existing files are replaced only when all went well.

    The model may be one that was read from these very files: its constants stay valid. Raises
    ValidationError for what the format cannot hold (a control character in a name) and UncorkError
    when a file cannot be written.
    """
    path = Path(path)
    write_files(model, path, path.with_suffix(".bin"))


def write_files(model: Model, path: Path, binary: Path) -> None:
    """As `write_model`, with the weights in a file of any name, for its caller's caller."""
    warn_if_dropped(model, stacklevel=3)
    UncorkError.when(
        any(node.opset == COMPILED_LAYERS for node in model.nodes),
        "is compiled, its layers are not in the file: take its .xml",
        model.source,
    )
    UncorkError.when(
        path == binary,
        f"expected a path such as model.xml, got '{path}': '.bin' is where the weights go",
    )
    try:
        with Replacement() as files:
            with files.open(binary) as file:
                root = ElementTree.Element(
                    "net", {"name": model.name, "version": str(model.ir_version)}
                )
                _graph(root, model, _BinaryWriter(file))
            _check_text(root)
            ElementTree.indent(root, "\t")
            with files.open(path) as file:
                ElementTree.ElementTree(root).write(file, encoding="utf-8", xml_declaration=True)
    except OSError as error:
        raise UncorkError(f"cannot be written: {error.strerror or error}", str(path)) from None


#: What XML 1.0 cannot hold, not even escaped.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def _check_text(root: ElementTree.Element) -> None:
    for element in root.iter():
        for text in (element.text or "", *element.attrib.values()):
            if _NOT_XML.search(text):
                raise ValidationError(
                    f"<{element.tag}>: {shown(text)} has a character that XML cannot hold"
                )


class _BinaryWriter:
    """Appends constants to the weights file; one that was written before is not written again."""

    #: Equal constants are found by address at any size, by content up to this many bytes (shapes,
    #: axes, scalars).
    SMALL = 4096

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.end = 0
        self.by_address: dict[tuple[int, ElementType, int], tuple[int, int]] = {}
        self.by_content: dict[bytes, tuple[int, int]] = {}

    def add(self, constant: Const) -> tuple[int, int]:
        """Write a constant, unless its bytes are there already; returns their offset and size."""
        stored = constant.packed if isinstance(constant, PackedConst) else constant.value
        address = (stored.__array_interface__["data"][0], constant.element_type, constant.count)
        if address in self.by_address and stored.flags.c_contiguous:
            return self.by_address[address]
        data = (
            stored.data
            if isinstance(constant, PackedConst)
            else storage.pack(stored, constant.element_type)
        )
        content = bytes(data) if len(data) <= self.SMALL else None
        place = None if content is None else self.by_content.get(content)
        if place is None:
            place = (self._aligned(64 if len(data) >= 64 else 8), len(data))
            self.file.write(data)
            self.end += len(data)
            if content is not None:
                self.by_content[content] = place
        if stored.flags.c_contiguous and content is None:
            self.by_address[address] = place
        return place

    def _aligned(self, to: int) -> int:
        """The next offset that arrays can be mapped at as the processor likes them.

        The format asks for no alignment.
        """
        padding = -self.end % to
        self.file.write(bytes(padding))
        self.end += padding
        return self.end


def _graph(root: ElementTree.Element, model: Model, binary: _BinaryWriter) -> None:
    layers = ElementTree.SubElement(root, "layers")
    edges = ElementTree.SubElement(root, "edges")
    for node in _in_file_order(model):
        layers.append(_layer(node, model, binary))
        for position, source in enumerate(node.inputs):
            numbers = (
                source.node,
                len(model.by_id[source.node].inputs) + source.output,
                node.id,
                position,
            )
            keys = ("from-layer", "from-port", "to-layer", "to-port")
            ElementTree.SubElement(
                edges, "edge", {k: str(n) for k, n in zip(keys, numbers, strict=True)}
            )
    root.extend(xml.thawed(extra) for extra in model.extras)


def _in_file_order(model: Model) -> list[Node]:
    """Parameters and results in the model's own order: their order in the file is the order of
    inputs and outputs.
    """
    ordered = {"Parameter": iter(model.parameters), "Result": iter(model.results)}
    return [
        model.by_id[next(ordered[n.type_name])] if n.type_name in ordered else n
        for n in model.nodes
    ]


def _layer(node: Node, model: Model, binary: _BinaryWriter) -> ElementTree.Element:
    layer = ElementTree.Element(
        "layer",
        {"id": str(node.id), "name": node.name, "type": node.type_name, "version": node.opset},
    )
    for key, value in node.layer_attributes:
        layer.set(key, value)
    attributes = dict(node.attributes)
    if isinstance(node.operation, Const):
        attributes["offset"], attributes["size"] = map(str, binary.add(node.operation))
    if attributes:
        ElementTree.SubElement(layer, "data", attributes)
    runtime_info = [e for e in node.extras if e.tag == "rt_info"]
    layer.extend(xml.thawed(e) for e in runtime_info)
    if node.inputs:
        inputs = ElementTree.SubElement(layer, "input")
        for position, source in enumerate(node.inputs):
            element = _port(position, model.spec(source), {})
            element.extend(
                xml.thawed(extra)
                for extra in (node.input_extras[position] if node.input_extras else ())
            )
            inputs.append(element)
    if node.outputs and node.type_name != "Result":
        outputs = ElementTree.SubElement(layer, "output")
        for position, port in enumerate(node.outputs):
            names = {"names": join_names(port.names)} if port.names else {}
            element = _port(len(node.inputs) + position, port.spec, names)
            element.extend(xml.thawed(extra) for extra in port.extras)
            outputs.append(element)
    maps = (
        ("rt_info", "back_edges") if isinstance(node.operation, SubGraphOperation) else ("rt_info",)
    )
    layer.extend(
        xml.thawed(e)
        for e in node.extras
        if e.tag not in maps and not (len(maps) > 1 and e.tag.endswith("port_map"))
    )
    if isinstance(node.operation, SubGraphOperation):
        write_maps(layer, node.operation, len(node.inputs))
    for tag, body in node.bodies:
        element = ElementTree.SubElement(layer, tag)
        _graph(element, body, binary)
    return layer


def _port(port_id: int, spec: TensorSpec, more: Mapping[str, str]) -> ElementTree.Element:
    port = ElementTree.Element(
        "port", {"id": str(port_id), "precision": spec.element_type.ir_name, **more}
    )
    for dim in spec.shape if spec.rank is not None else ():
        ElementTree.SubElement(port, "dim").text = (
            str(int(dim)) if dim.is_static and int(dim) < 2**63 else "-1"
        )
    return port
