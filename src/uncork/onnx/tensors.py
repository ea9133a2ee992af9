"""Values of TensorProtos as arrays; those in files beside the model are mapped, not copied."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import numpy as np

from uncork import files
from uncork.errors import ReadError, ValidationError, shortened
from uncork.onnx.types import element_type_of
from uncork.ops._operation import FOLD_LIMIT
from uncork.storage import unpack
from uncork.types import MAX_RANK, Array, ElementType

#: Fields of TensorProto that hold values of some types, each in wider numbers.
_FIELDS = {
    ElementType.f32: ("float_data", np.float32),
    ElementType.f64: ("double_data", np.float64),
    ElementType.i64: ("int64_data", np.int64),
    ElementType.u32: ("uint64_data", np.uint64),
    ElementType.u64: ("uint64_data", np.uint64),
}
_EXTERNAL = 1


class ExternalFiles:
    """The files beside a model in which its large values lie, each opened once."""

    def __init__(self, folder: Path | None, mmap: bool) -> None:
        self.folder = folder
        self.mmap = mmap
        self._open: dict[str, memoryview] = {}

    def part(self, tensor: Any, size: int) -> memoryview:
        """The bytes of a tensor. Raises ReadError, ValidationError."""
        entries = {entry.key: entry.value for entry in tensor.external_data}
        location = entries.get("location", "")
        offset = _number(entries.get("offset", "0"), "offset")
        length = _number(entries.get("length", str(size)), "length")
        ValidationError.when(
            length != size,
            f"its external data have {length:,} bytes, expected {size:,} by its type and shape",
        )
        data = self._data(location)
        ReadError.when(
            offset + size > len(data),
            f"expected bytes {offset:,} to {offset + size:,} in '{shortened(location)}', which "
            f"has {len(data):,}: the file was cut short, or belongs to another model",
        )
        return data[offset : offset + size]

    def _data(self, location: str) -> memoryview:
        if location in self._open:
            return self._open[location]
        if self.folder is None:
            raise ReadError(
                f"its values lie in the file '{shortened(location)}' beside the model: give the "
                "model by its path, not by its bytes"
            )
        parts = Path(location.replace("\\", "/")).parts
        ReadError.when(
            not location or os.path.isabs(location) or ".." in parts or "\0" in location,
            f"its values lie in '{shortened(location)}': expected a file in the model's folder",
        )
        path = self.folder.joinpath(*parts)
        ReadError.when(
            not path.resolve().is_relative_to(self.folder.resolve()),
            f"its values lie in '{shortened(location)}', a link that leads out of the model's "
            "folder: expected a file in that folder",
        )
        try:
            self._open[location] = files.data_of(path, self.mmap)
        except OSError as error:
            raise ReadError(f"its file '{path}' {files.why_not(error, path)}") from None
        return self._open[location]


def _number(text: str, name: str) -> int:
    ValidationError.when(
        not (text.isascii() and text.isdigit() and len(text) < 20),
        f"external data: {name}: expected a number of bytes, got '{shortened(text)}'",
    )
    return int(text)


def value_of(tensor: Any, external: ExternalFiles) -> tuple[Array, ElementType]:
    """The values of a TensorProto, in the carrier type. Raises UncorkError."""
    kind = element_type_of(tensor.data_type)
    shape = tuple(tensor.dims)
    ValidationError.when(
        any(d < 0 for d in shape) or len(shape) > MAX_RANK,
        f"expected the shape of a tensor, got {list(shape)[:40]}",
    )
    count = math.prod(shape)
    if kind is ElementType.string:
        texts = [text.decode("utf-8", "surrogateescape") for text in tensor.string_data]
        _expect(len(texts), count, "strings")
        flat = np.empty(count, object)
        flat[:] = texts
        return flat.reshape(shape), kind
    if kind.is_packed or tensor.data_location == _EXTERNAL or tensor.HasField("raw_data"):
        return unpack(_bytes_of(tensor, kind, count, external), kind, count).reshape(shape), kind
    return _from_numbers(tensor, kind, count).reshape(shape), kind


def packed_of(tensor: Any, external: ExternalFiles) -> tuple[Array, ElementType] | None:
    """The bytes of a large TensorProto of numbers of less than a byte, as the IR holds them too;
    None for any other. Raises UncorkError.
    """
    kind, shape = element_type_of(tensor.data_type), tuple(tensor.dims)
    if not kind.is_packed or any(d < 0 for d in shape) or math.prod(shape) <= FOLD_LIMIT:
        return None
    return np.frombuffer(_bytes_of(tensor, kind, math.prod(shape), external), np.uint8), kind


def _bytes_of(tensor: Any, kind: ElementType, count: int, external: ExternalFiles) -> memoryview:
    """The bytes of values, which lie in the file, beside it, or one each in a field of numbers."""
    size = (count * kind.bits + 7) // 8
    if tensor.data_location == _EXTERNAL:
        data = external.part(tensor, size)
    elif tensor.HasField("raw_data"):
        data = memoryview(tensor.raw_data)
    else:
        data = memoryview(np.array(tensor.int32_data, np.int32).astype(np.uint8).tobytes())
    _expect(len(data), size, "bytes")
    return data


def _expect(got: int, expected: int, what: str) -> None:
    ValidationError.when(
        got != expected, f"has {got:,} {what} of values, expected {expected:,} by its shape"
    )


def _from_numbers(tensor: Any, kind: ElementType, count: int) -> Array:
    """The values where they lie in a field of numbers, which may be wider ones."""
    name, wide = _FIELDS.get(kind, ("int32_data", np.int32))
    numbers = np.array(getattr(tensor, name), wide)
    _expect(len(numbers), count, "elements")
    if kind is ElementType.boolean:
        return np.asarray(numbers != 0)
    if kind is ElementType.f16:  # its bits
        return np.asarray(numbers.astype(np.uint16).view(np.float16))
    return np.asarray(numbers.astype(kind.dtype))
