"""Files of named tensors in the safetensors format: written tensor by tensor, read by mapping.

A header of JSON with the type, shape and place of each tensor, then their bytes. Every number of a
header is checked before it is used.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO

import numpy as np

from uncork.errors import ReadError
from uncork.files import let_go
from uncork.storage import decode
from uncork.types import Array, ElementType

T = ElementType
#: The format's names of element types.
NAMES = {
    T.f64: "F64",
    T.f32: "F32",
    T.f16: "F16",
    T.bf16: "BF16",
    T.i64: "I64",
    T.i32: "I32",
    T.i16: "I16",
    T.i8: "I8",
    T.u64: "U64",
    T.u32: "U32",
    T.u16: "U16",
    T.u8: "U8",
    T.boolean: "BOOL",
}
_TYPES = {name: element_type for element_type, name in NAMES.items()}
#: The longest header that is read, as the format's own program has it.
_LONGEST = 100_000_000
#: Elements written at a time.
_BLOCK = 1 << 22
#: Type, shape, and the function that gives the array, when its bytes are written.
Entry = tuple[ElementType, tuple[int, ...], Callable[[], Array]]


def write_tensors(
    file: BinaryIO,
    tensors: Mapping[str, Entry],
    metadata: Mapping[str, str],
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Write tensors one by one; no more than one of them is in memory at a time."""
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    end = 0
    for name, (element_type, shape, _) in tensors.items():
        size = math.prod(shape) * element_type.dtype.itemsize
        offsets = [end, end + size]
        header[name] = {"dtype": NAMES[element_type], "shape": shape, "data_offsets": offsets}
        end += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    file.write(len(text).to_bytes(8, "little"))
    file.write(text)
    done = 0
    for _, _, given in tensors.values():
        flat = np.asarray(given()).reshape(-1)
        for start in range(0, flat.size, _BLOCK):
            part = flat[start : start + _BLOCK]
            part = np.ascontiguousarray(part.astype(part.dtype.newbyteorder("<"), copy=False))
            file.write(part.view(np.uint8).data)
            let_go(part)
            done += part.nbytes
            if progress is not None:
                progress(done, end)


def read_tensors(path: str | os.PathLike[str]) -> tuple[dict[str, Array], dict[str, str]]:
    """The tensors of a file, mapped, and its metadata. bf16 is given in f32, which holds it."""
    where = os.fspath(path)
    try:
        size = os.path.getsize(path)
        with open(path, "rb") as file:
            length = int.from_bytes(file.read(8), "little")
            ReadError.when(
                size < 8 or length > min(_LONGEST, size - 8),
                "is no safetensors file: its header is longer than the file",
                where,
            )
            text = file.read(length)
    except OSError as error:
        raise ReadError(f"cannot be read: {error.strerror or error}", where) from None
    try:
        header = json.loads(text)
        metadata = {str(k): str(v) for k, v in header.pop("__metadata__", {}).items()}
        entries = {str(name): _entry(name, value) for name, value in header.items()}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ReadError(
            f"is no safetensors file: its header cannot be read ({error})", where
        ) from None
    begin = 8 + length
    for name, (element_type, shape, low, high) in entries.items():
        if not 0 <= low <= high <= size - begin or high - low != _bytes_of(element_type, shape):
            raise ReadError(
                f"tensor '{name}' of {element_type}{list(shape)}: expected "
                f"{_bytes_of(element_type, shape):,} bytes inside the file of {size:,} bytes, got "
                f"{low:,} to {high:,}",
                where,
            )
    mapped = np.memmap(path, np.uint8, "r", begin) if size > begin else np.zeros(0, np.uint8)
    tensors = {}
    for name, (element_type, shape, low, high) in entries.items():
        raw = np.asarray(mapped[low:high]).view(element_type.dtype.newbyteorder("<")).reshape(shape)
        tensors[name] = decode(raw, element_type) if element_type is T.bf16 else raw
    return tensors, metadata


def _bytes_of(element_type: ElementType, shape: tuple[int, ...]) -> int:
    return math.prod(shape) * element_type.dtype.itemsize


def _entry(name: str, value: Any) -> tuple[ElementType, tuple[int, ...], int, int]:
    if value["dtype"] not in _TYPES:
        raise ValueError(f"tensor '{name}' has dtype '{value['dtype']}'")
    low, high = value["data_offsets"]
    numbers = [*value["shape"], low, high]
    if not all(isinstance(n, int) and 0 <= n < 2**63 for n in numbers):
        raise ValueError(f"tensor '{name}' has a shape or a place that is no number")
    return _TYPES[value["dtype"]], tuple(value["shape"]), low, high
