"""ONNX models in memory and on disk: constants inside the model, or streamed one by one to a file
of external data.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

from uncork.compiler.options import Ids
from uncork.errors import UncorkError, UnsupportedError
from uncork.export.onnx.framing import framed
from uncork.export.onnx.model import Exported, export
from uncork.export.onnx.tensors import stored_bytes, stored_size
from uncork.ir.model import Model
from uncork.ir.replacement import Replacement
from uncork.ir.validate import infer
from uncork.onnx.types import ONNX_TYPES
from uncork.ops.parameter import Const
from uncork.reading import read_structure
from uncork.types import ElementType

#: Protocol buffers end at 2 GB; the nodes need some of that.
INLINE_LIMIT = 2**31 - 2**26
_ALIGNMENT = 4096
#: Called with bytes done and bytes in all.
Progress = Callable[[int, int], None]


def given_model(
    model: Model | str | os.PathLike[str], weights: str | os.PathLike[str] | None = None
) -> Model:
    """The checked model that a path names; a Model is returned as it is."""
    if isinstance(model, Model):
        return model
    result, diagnostics = read_structure(model, weights)
    result, problems = infer(result)
    diagnostics.problems.extend(problems)
    diagnostics.raise_if_any(str(model))
    return result


def foreign_onnx(path: Path) -> str:
    """Why a file is not one that `write_onnx` wrote; "" where it is: its second field, after the
    version of the format, says who made it.
    """
    with open(path, "rb") as file:
        ours = b"\x12\x06uncork" in file.read(32)
    return "" if ours else "what is there was not written by uncork"


def filled(exported: Exported) -> Any:
    """The ONNX model with the bytes of its constants filled in."""
    total = sum(map(stored_size, exported.weights.values()))
    UnsupportedError.when(
        total > INLINE_LIMIT,
        f"the constants take {total:,} bytes, more than the 2 GB that one ModelProto can hold: "
        "write files with uncork.write_onnx",
    )
    for tensor in exported.proto.graph.initializer:
        if tensor.name in exported.weights and tensor.data_type != ONNX_TYPES[ElementType.string]:
            _fill(tensor, exported.weights[tensor.name])
    return exported.proto


def write_onnx(
    model: Model | str | os.PathLike[str],
    path: str | os.PathLike[str],
    *,
    opset: int = 21,
    approximate: bool = False,
    ids: Ids = "64-bit",
    external_data: bool | None = None,
    progress: Progress | None = None,
) -> list[tuple[str, str]]:
    """Write the model to an .onnx file; `model`, `opset`, `approximate` and `ids` are as for
    `to_onnx`. Returns what was approximated: layer and reason.

    The constants go to `path` with `.data` behind it when `external_data` says so or when they are
    more than one file can
    hold; they are written one by one. Files take their names when they are whole. `progress` is
    called with the bytes of constants that are written and all of them.
    """
    path = Path(path)
    exported = export(given_model(model), opset, approximate, ids)
    total = sum(map(stored_size, exported.weights.values()))
    outside = total > INLINE_LIMIT if external_data is None else external_data
    UncorkError.when(
        not outside and total > INLINE_LIMIT,
        f"the constants take {total:,} bytes, more than one file can hold: "
        "external_data must not be False",
        str(path),
    )
    try:
        with Replacement() as files:
            count = _Count(sum(map(_size_of_bytes, exported.weights.values())), progress)
            if outside:
                data = path.with_name(path.name + ".data")
                with files.open(data) as file:
                    _stream(exported, data.name, file, count)
            with files.open(path) as file:
                if outside:
                    file.write(exported.proto.SerializeToString())
                else:
                    framed(exported, file.write, count)
    except OSError as error:
        raise UncorkError(f"cannot be written: {error.strerror or error}", str(path)) from None
    return list(exported.approximations)


def _fill(tensor: Any, constant: Const) -> None:
    """Put the bytes of a constant into its initializer."""
    with BytesIO() as file:  # gives its bytes without a copy, which joined pieces would be
        for piece in stored_bytes(constant):
            file.write(piece)
        tensor.raw_data = file.getvalue()


class _Count:
    """The count of bytes written, reported to the caller's progress function."""

    def __init__(self, total: int, progress: Progress | None) -> None:
        self._done, self._total, self._progress = 0, total, progress

    def __call__(self, more: int) -> None:
        self._done += more
        if self._progress is not None:
            self._progress(self._done, self._total)


def _stream(exported: Exported, location: str, file: BinaryIO, count: _Count) -> None:
    position = 0
    for tensor in exported.proto.graph.initializer:
        constant = exported.weights.get(tensor.name)
        if constant is None or not _goes_outside(constant):
            if constant is not None and constant.element_type is not ElementType.string:
                _fill(tensor, constant)
                count(stored_size(constant))
            continue
        padding = -position % _ALIGNMENT
        file.write(bytes(padding))
        position += padding
        size = 0
        for piece in stored_bytes(constant):
            size += file.write(piece)
            count(len(piece))
        tensor.data_location = 1  # EXTERNAL
        for key, value in (("location", location), ("offset", position), ("length", size)):
            entry = tensor.external_data.add()
            entry.key, entry.value = key, str(value)
        position += size


def _size_of_bytes(constant: Const) -> int:
    return 0 if constant.element_type is ElementType.string else stored_size(constant)


def _goes_outside(constant: Const) -> bool:
    """Whether a constant is external data. Small ones stay in the model, where shapes can be
    inferred from them.
    """
    return constant.element_type is not ElementType.string and stored_size(constant) > 1024
