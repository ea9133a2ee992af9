"""An ONNX file of a model and the bytes of its constants, which are never in memory together.

A message inside another is its field's number, its length and its bytes. The messages themselves
are written by the package onnx; only those two numbers are written here, so that a constant's bytes
can go from the one file to the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from uncork.export.onnx.model import Exported
from uncork.export.onnx.tensors import stored_bytes, stored_size
from uncork.types import ElementType

_BYTES = 2  # the kind of a field that has a length


def framed(
    exported: Exported, write: Callable[[Any], object], count: Callable[[int], None]
) -> None:
    """Write a file, piece by piece, with the constants inside, and count their bytes.

    The model is used up.
    """
    proto, graph = exported.proto, type(exported.proto.graph)()
    graph.CopyFrom(proto.graph)
    tensors = list(proto.graph.initializer)
    del graph.initializer[:]
    nodes = graph.SerializeToString()
    entries = [_Entry(exported, tensor) for tensor in tensors]
    proto.ClearField("graph")
    write(proto.SerializeToString())
    write(
        _header(
            proto,
            "graph",
            len(nodes) + sum(len(entry.header(graph)) + entry.size for entry in entries),
        )
    )
    write(nodes)
    for entry in entries:
        write(entry.header(graph) + entry.written)
        for piece in entry.bytes_of_constant():
            write(piece)
            count(len(piece))


class _Entry:
    """An initializer: what the package writes of it, and behind it the bytes of its constant."""

    def __init__(self, exported: Exported, tensor: Any) -> None:
        constant = exported.weights.get(tensor.name)
        has_bytes = constant is not None and constant.element_type is not ElementType.string
        self._constant = constant if has_bytes else None
        self.written: bytes = tensor.SerializeToString()
        self.size = len(self.written)
        if self._constant is not None:
            size = stored_size(self._constant)
            self.written += _header(tensor, "raw_data", size)
            self.size = len(self.written) + size

    def header(self, graph: Any) -> bytes:
        return _header(graph, "initializer", self.size)

    def bytes_of_constant(self) -> Iterator[Any]:
        return iter(()) if self._constant is None else stored_bytes(self._constant)


def _header(message: Any, field: str, size: int) -> bytes:
    """The bytes before a field's content: its number, its kind and its length."""
    number: int = message.DESCRIPTOR.fields_by_name[field].number
    return _varint(number << 3 | _BYTES) + _varint(size)


def _varint(number: int) -> bytes:
    """The number as a varint: seven bits a byte, the lowest first; all but the last have their
    highest bit set.
    """
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    found.append(number)
    return bytes(found)
