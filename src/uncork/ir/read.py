"""`model.xml` to `Model`: structure, attributes and constants.

Every problem of the file is found, not only the first.

What the shapes and types have to say is checked afterwards, by `validate`. Format: IR versions 10
and 11.
"""

from __future__ import annotations

import os
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import BinaryIO, Union

from uncork import files
from uncork.errors import ReadError, UncorkError, shortened
from uncork.ir import foreign, xml
from uncork.ir.diagnostics import (
    Diagnostics,
    shown,
    unsigned,
)
from uncork.ir.model import Model
from uncork.ir.read_graph import GraphReader
from uncork.ir.weights import Weights

#: A path, or the contents of a file: bytes, or a file that is open for reading bytes.
Contents = Union[str, "os.PathLike[str]", bytes, bytearray, memoryview, BinaryIO]
#: An IR file of a model with 100,000 layers has a tenth of this.
_MOST_BYTES = 1 << 30
#: Bytes that tell what a file is that is no XML.
_HEAD = 1 << 16


def read_structure(
    path: Contents, weights: Contents | None = None, mmap: bool = True
) -> tuple[Model, Diagnostics]:
    """The model as far as it can be read, and everything that is wrong with it.

    `mmap`: large weights are mapped, not copied.

    Either may be contents in place of a path: bytes, or a file that is open for reading bytes.

    Raises ReadError when there is no model at all: the file is missing, is not XML, or is not an IR
    of version 10 or 11. Raises TypeError for what is no path.
    """
    data = given(path)
    bytes_of_weights = given(weights)
    beside = (
        None
        if weights is None or bytes_of_weights is not None
        else _path("weights", weights, "model.bin")
    )
    is_path = data is None
    path = _path("the model", path, "model.xml") if data is None else Path("<bytes>")
    data = _contents(path) if data is None else _xml(data)
    try:
        root = xml.parse(data)
        version = _ir_version(root)
        for legacy in ("pre-process", "statistics"):
            if root.find(legacy) is not None:
                raise ReadError(
                    f"has a <{legacy}> section, which would change the inputs and is "
                    "not supported; convert the model again"
                )
    except UncorkError as error:
        raise error.at(str(path)) from None
    diagnostics = Diagnostics(extension=_extension(root))
    reader = GraphReader(
        version,
        Weights(beside or (path.with_suffix(".bin") if is_path else None), mmap, bytes_of_weights),
        diagnostics,
    )
    model = reader.graph(root, root.get("name", ""), str(path), depth=0)
    lacking = reader.weights.problem(root, sound=not diagnostics.problems)
    if lacking is not None:
        diagnostics.add(lacking.where, lacking.message)
    return model, diagnostics


def where_of(path: Contents) -> str:
    """How messages name what a caller gave for a file."""
    return str(path) if isinstance(path, (str, os.PathLike)) else "<bytes>"


def given(value: object) -> bytes | memoryview | None:
    """The contents that a caller gave in place of a path; None for a path."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return value if isinstance(value, bytes) else memoryview(value).cast("B").toreadonly()
    read = getattr(value, "read", None)
    if callable(read) and not isinstance(value, os.PathLike):
        data = read()
        if isinstance(data, bytes):
            return data
        raise TypeError(
            f"expected a file that is open for reading bytes ('rb'), its read() gave "
            f"{type(data).__name__}"
        )
    return None


def _xml(data: bytes | memoryview) -> bytes:
    """The bytes of a model.xml that a caller gave. Raises ReadError for others."""
    data = bytes(data)
    ReadError.when(
        not _looks_like_xml(data[:_HEAD]),
        f"expected the contents of a model.xml, got other bytes, {data[:40]!r}: a path is "
        "given as a str or an os.PathLike",
        "<bytes>",
    )
    return data


def _path(what: str, value: object, example: str) -> Path:
    """The path that a caller gave. Raises ReadError for none, TypeError for what is no path."""
    if not isinstance(value, (str, os.PathLike)):
        raise TypeError(
            f"{what}: expected the path of a file, a str or an os.PathLike such as '{example}', "
            f"got {repr(value)[:80]} ({type(value).__name__})"
        )
    ReadError.when(
        not os.fspath(value), f"{what}: expected the path of a file such as '{example}', got ''"
    )
    return Path(value)


def _contents(path: Path) -> bytes:
    """The bytes of a model.xml. Raises ReadError that says what is there instead."""
    try:
        with files.opened(path) as file:
            head = file.read(_HEAD)
        known = "" if _looks_like_xml(head) else foreign.describe(path, head)
        ReadError.when(known, known, str(path))
        return files.read_whole(path, _MOST_BYTES)
    except OSError as error:
        known = foreign.describe(path) if path.is_dir() else ""
        beside = Path(f"{path}.xml")
        if not known and not path.exists() and beside.is_file():
            known = f"cannot be read: {error.strerror or error}; is it '{beside}'?"
        raise ReadError(known or files.why_not(error, path), str(path)) from None


def _looks_like_xml(head: bytes) -> bool:
    """Whether the first letter is <, in any encoding that XML may have."""
    return head.lstrip(b"\xef\xbb\xbf\xff\xfe\0 \t\r\n")[:1] == b"<"


def _extension(root: ElementTree.Element) -> str:
    """The package of OpenVINO's extensions that wrote the model, which its runtime information
    names by its version.
    """
    names = (
        child.tag.removesuffix("_version")
        for child in root.iterfind("rt_info/*")
        if child.tag.endswith("_version")
    )
    return next((name for name in names if name.startswith("openvino_")), "")


def _ir_version(root: ElementTree.Element) -> int:
    ReadError.when(
        root.tag != "net",
        f"expected <net> as the outermost element of an IR file, got <{shortened(root.tag)}>",
    )
    text = root.get("version", "")
    if text not in ("10", "11"):
        hint = ": convert the model with a current OpenVINO" if (unsigned(text) or 10) < 10 else ""
        raise ReadError(
            f"expected IR version 10 or 11, got {shown(text) if text else 'none'}{hint}"
        )
    return int(text)
