"""`Model` to `model.xml` and `model.bin`: what was read and written again is the same model, and OpenVINO loads it.

Both files are written beside their final names and renamed when whole, weights first: whoever opens the XML finds its bytes.
"""

from __future__ import annotations

import os
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

from uncork import storage
from uncork.errors import UncorkError
from uncork.ir import xml
from uncork.ir.bodies import write_maps
from uncork.ir.model import Model, Node, join_names
from uncork.ops._body import SubGraphOperation
from uncork.ops.parameter import Const
from uncork.types import ElementType, TensorSpec


def write_model(model: Model, path: str | os.PathLike[str]) -> None:
    """Write `path` and the weights beside it, with the suffix `.bin`. Existing files are replaced only when all went well."""
    path = Path(path)
    binary = path.with_suffix(".bin")
    if path == binary:
        raise UncorkError(f"expected a path such as model.xml, got '{path}': '.bin' is where the weights go")
    try:
        handle, scratch_bin = tempfile.mkstemp(prefix=f".{binary.name}.", dir=path.parent)
        scratch_xml = scratch_bin + ".xml"
        try:
            with os.fdopen(handle, "wb") as file:
                root = ElementTree.Element("net", {"name": model.name, "version": str(model.ir_version)})
                _graph(root, model, _BinaryWriter(file))
            ElementTree.indent(root, "\t")
            ElementTree.ElementTree(root).write(scratch_xml, encoding="utf-8", xml_declaration=True)
            for scratch in (scratch_bin, scratch_xml):
                os.chmod(scratch, 0o666 & ~_umask())
            os.replace(scratch_bin, binary)
            os.replace(scratch_xml, path)
        finally:
            for scratch in (scratch_bin, scratch_xml):
                if os.path.exists(scratch):
                    os.unlink(scratch)
    except OSError as error:
        raise UncorkError(f"cannot be written: {error.strerror or error}", str(path)) from None


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


class _BinaryWriter:
    """Appends constants to the weights file; one that was written before is not written again."""

    #: Equal constants are found by address at any size, by content up to this many bytes (shapes, axes, scalars).
    SMALL = 4096

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.end = 0
        self.by_address: dict[tuple[int, ElementType, int], tuple[int, int]] = {}
        self.by_content: dict[bytes, tuple[int, int]] = {}

    def add(self, constant: Const) -> tuple[int, int]:
        """(offset, size) of the constant's bytes."""
        address = (constant.value.__array_interface__["data"][0], constant.element_type, constant.count)
        if address in self.by_address and constant.value.flags.c_contiguous:
            return self.by_address[address]
        data = storage.pack(constant.value, constant.element_type)
        place = self.by_content.get(data) if len(data) <= self.SMALL else None
        if place is None:
            place = (self.end, len(data))
            self.file.write(data)
            self.end += len(data)
            if len(data) <= self.SMALL:
                self.by_content[data] = place
        if constant.value.flags.c_contiguous and len(data) > self.SMALL:
            self.by_address[address] = place
        return place


def _graph(root: ElementTree.Element, model: Model, binary: _BinaryWriter) -> None:
    layers = ElementTree.SubElement(root, "layers")
    edges = ElementTree.SubElement(root, "edges")
    for node in _in_file_order(model):
        layers.append(_layer(node, model, binary))
        for position, source in enumerate(node.inputs):
            numbers = (source.node, len(model.by_id[source.node].inputs) + source.output, node.id, position)
            keys = ("from-layer", "from-port", "to-layer", "to-port")
            ElementTree.SubElement(edges, "edge", {k: str(n) for k, n in zip(keys, numbers)})
    root.extend(xml.thawed(extra) for extra in model.extras)


def _in_file_order(model: Model) -> list[Node]:
    """Parameters and results in the model's own order: their order in the file is the order of inputs and outputs."""
    ordered = {"Parameter": iter(model.parameters), "Result": iter(model.results)}
    return [model.by_id[next(ordered[n.type_name])] if n.type_name in ordered else n for n in model.nodes]


def _layer(node: Node, model: Model, binary: _BinaryWriter) -> ElementTree.Element:
    layer = ElementTree.Element("layer", {"id": str(node.id), "name": node.name, "type": node.type_name, "version": node.opset})
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
            inputs.append(_port(position, model.spec(source), {}))
    if node.outputs and node.type_name != "Result":
        outputs = ElementTree.SubElement(layer, "output")
        for position, port in enumerate(node.outputs):
            names = {"names": join_names(port.names)} if port.names else {}
            element = _port(len(node.inputs) + position, port.spec, names)
            element[:0] = [xml.thawed(extra) for extra in port.extras]
            outputs.append(element)
    maps = ("rt_info", "back_edges") if isinstance(node.operation, SubGraphOperation) else ("rt_info",)
    layer.extend(xml.thawed(e) for e in node.extras if e.tag not in maps and not (len(maps) > 1 and e.tag.endswith("port_map")))
    if isinstance(node.operation, SubGraphOperation):
        write_maps(layer, node.operation, len(node.inputs))
    for tag, body in node.bodies:
        element = ElementTree.SubElement(layer, tag)
        _graph(element, body, binary)
    return layer


def _port(port_id: int, spec: TensorSpec, more: Mapping[str, str]) -> ElementTree.Element:
    port = ElementTree.Element("port", {"id": str(port_id), "precision": spec.element_type.ir_name, **more})
    for dim in spec.shape if spec.rank is not None else ():
        ElementTree.SubElement(port, "dim").text = str(int(dim)) if dim.is_static else "-1"
    return port
