"""`read_structure`: a model from its file, an IR or an ONNX model, by what the file begins with."""

from __future__ import annotations

import os
from pathlib import Path

from uncork import files
from uncork.compiled_head import is_compiled_file
from uncork.errors import ReadError
from uncork.ir import foreign
from uncork.ir import read as ir
from uncork.ir.diagnostics import Diagnostics
from uncork.ir.model import Model
from uncork.ir.read import Contents

#: Bytes that tell which of the two a file is.
_HEAD = 1 << 16


def read_structure(
    path: Contents, weights: Contents | None, mmap: bool = True
) -> tuple[Model, Diagnostics]:
    """The model as far as it can be read, and everything that is wrong with it.

    Of an ONNX model there is all or nothing: what is wrong with it is raised. Raises what
    `ir.read.read_structure` raises, too.
    """
    if isinstance(path, (str, os.PathLike)):
        if is_compiled_file(path):
            raise ReadError(
                "is a compiled model, which has no layers: give the .xml that it was made of",
                ir.where_of(path),
            )
        if not is_onnx_file(Path(path)):
            return ir.read_structure(path, weights, mmap)
        place: Path | None = Path(path)
        data = None
    else:
        given = ir.given(path)
        if given is None or not foreign.is_onnx(bytes(given[:_HEAD])):
            return ir.read_structure(path if given is None else given, weights, mmap)
        place, data = None, bytes(given)
    if weights is not None:
        raise ReadError(
            "is an ONNX model, whose weights lie in it or in the files that it names: leave "
            "the option for weights out",
            ir.where_of(path),
        )
    from uncork.onnx.read import read_onnx  # for ONNX models only

    return read_onnx(place, data, mmap), Diagnostics()


def is_onnx_file(path: Path) -> bool:
    """Whether a file is to be read as ONNX: by how it begins, or by its name."""
    try:
        with files.opened(path) as file:
            head = file.read(_HEAD)
    except OSError:
        return False  # which the reader of IR files says in its words
    named = path.suffix.lower() == ".onnx"
    return foreign.is_onnx(head) or (named and head.lstrip()[:1] != b"<")
