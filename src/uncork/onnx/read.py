"""`model.onnx` to `Model`: what the file gives and takes, and its nodes as layers.

Every problem of the file is found, not only the first; operators that are not supported are all in
one error.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec.structs import replace

from uncork import files
from uncork.errors import (
    Problem,
    ReadError,
    UncorkError,
    UnsupportedError,
    ValidationError,
    shortened,
)
from uncork.ir.model import Model, Source
from uncork.onnx.graph import Graph
from uncork.onnx.lower import Failed, Lowerer, Scope
from uncork.onnx.registry import plain_domain
from uncork.onnx.tensors import ExternalFiles
from uncork.onnx.types import element_type_of
from uncork.types import MAX_RANK, ElementType, PartialShape

#: Opsets before this one are refused: their operators mean other things.
OLDEST = 6
#: A message of protocol buffers has at most so many bytes.
_MOST_BYTES = (1 << 31) - 1
_INSTALL = "pip install 'uncork[onnx]'"


def read_onnx(path: Path | None, data: bytes | None = None, mmap: bool = True) -> Model:
    """The model of an ONNX file, or of its bytes.

    Large values in files beside it are mapped unless `mmap` is False.

    Raises ReadError when there is no ONNX model in the file, UnsupportedError or ValidationError
    that lists what is wrong with it.
    """
    source = "<bytes>" if path is None else str(path)
    try:
        if data is None:
            assert path is not None
            try:
                data = files.read_whole(path, _MOST_BYTES)
            except OSError as error:
                raise ReadError(files.why_not(error, path)) from None
        proto = _parsed(data)
        external = ExternalFiles(None if path is None else path.parent, mmap)
        return _model(proto, external, source)
    except UncorkError as error:
        raise error.at(source) from None


def _parsed(data: bytes) -> Any:
    try:
        import onnx
    except ImportError:
        raise ReadError(
            f"is an ONNX model, and the package that reads those is not installed: {_INSTALL}"
        ) from None
    try:
        proto = onnx.ModelProto.FromString(bytes(data))
    except Exception as error:
        # protobuf has a class of its own for it, which is another one in each of its versions
        raise ReadError(f"is no ONNX model, or damaged: {error}") from None
    ReadError.when(not proto.HasField("graph"), "is no ONNX model, or damaged: it has no graph")
    if wrong := _not_text(proto):
        raise ReadError(f"is no ONNX model, or damaged: a name is no text, {wrong!r}")
    return proto


def _not_text(message: Any) -> bytes:
    """A text that is none in UTF-8, which some versions of protobuf give as bytes; else nothing."""
    waiting = [message]
    while waiting:
        for field, value in waiting.pop().ListFields():
            if field.type == field.TYPE_STRING:
                texts = [value] if isinstance(value, (str, bytes)) else value
                wrong = next((text for text in texts if isinstance(text, bytes)), b"")
                if wrong:
                    return wrong[:40]
            elif field.type == field.TYPE_MESSAGE:
                waiting.extend([value] if hasattr(value, "ListFields") else value)
    return b""


def _model(proto: Any, external: ExternalFiles, source: str) -> Model:
    opsets = {plain_domain(o.domain): o.version for o in proto.opset_import}
    if 0 < opsets.get("", OLDEST) < OLDEST:
        raise UnsupportedError(
            f"is written in opset {opsets['']}, supported are {OLDEST} and newer: in Python, "
            "onnx.version_converter.convert_version(model, 17) writes a newer one"
        )
    graph = Graph(proto.graph.name or "model")
    lowerer = Lowerer(proto, external)
    scope = Scope(lowerer, graph)
    scope.opsets = opsets
    scope.initializers = {t.name: t for t in proto.graph.initializer}
    UnsupportedError.when(
        proto.graph.sparse_initializer,
        "has sparse initializers, which are not supported: write them as dense ones",
    )
    _inputs(proto.graph, scope)
    names = [o.name for o in proto.graph.output]
    ValidationError.when(not names, "its graph has no outputs: there is nothing to compute")
    if not lowerer.problems:
        lowerer.nodes(scope, proto.graph.node, names)
    ends: list[tuple[Source, str]] = []
    for name in names:
        try:
            value = scope.lookup(name)
            if isinstance(value, Source):
                ends.append((value, name))
            else:
                raise UnsupportedError(
                    "is a sequence or an optional, which outputs cannot be here: cut the model "
                    "before it"
                )
        except Failed:
            pass
        except UnsupportedError as error:
            lowerer.unsupported.append(Problem(f"output '{shortened(name)}'", error.message))
        except UncorkError as error:
            if not lowerer.problems:
                lowerer.problems.append(Problem(f"output '{shortened(name)}'", error.message))
    problems = [*lowerer.problems, *lowerer.unsupported]
    if lowerer.problems:
        raise ValidationError.of_all(source, problems)
    if lowerer.unsupported:
        raise UnsupportedError.of_all(source, problems)
    for value, name in ends:
        graph.end(value, name)
    _metadata(proto, graph)
    return replace(graph.model(), source=source)


def _inputs(proto: Any, scope: Scope) -> None:
    """Parameters for the inputs of a graph that have no value of their own."""
    for given in proto.input:
        if given.name in scope.initializers:
            continue
        try:
            kind, shape = described(given.type)
            scope.values[given.name] = scope.graph.parameter(
                scope.graph.named(given.name), kind, shape
            )
        except UncorkError as error:
            scope.failed.add(given.name)
            where = f"input '{shortened(given.name)}'"
            scope.lowerer.problems.append(Problem(where, error.message))


def described(proto: Any) -> tuple[ElementType, PartialShape]:
    """The element type and shape of a TypeProto. Raises UncorkError for what is no tensor."""
    if proto.WhichOneof("value") != "tensor_type":
        kind = (proto.WhichOneof("value") or "nothing").removesuffix("_type")
        raise UnsupportedError(
            f"is of type {kind}, expected a tensor: cut the model behind the nodes that read it"
        )
    tensor = proto.tensor_type
    kind = element_type_of(tensor.elem_type)
    if not tensor.HasField("shape"):
        return kind, PartialShape()
    sizes = [
        d.dim_value if d.HasField("dim_value") and d.dim_value >= 0 else None
        for d in tensor.shape.dim
    ]
    ValidationError.when(
        len(sizes) > MAX_RANK, f"has {len(sizes)} dimensions, expected at most {MAX_RANK}"
    )
    return kind, PartialShape(sizes)


def _metadata(proto: Any, graph: Graph) -> None:
    """What the file says of itself, as runtime information."""
    for entry in proto.metadata_props:
        key = entry.key.replace("/", "_")
        if key:
            graph.info(f"model_info/{key}", entry.value)
    for name in ("producer_name", "producer_version", "domain", "doc_string"):
        if text := getattr(proto, name):
            graph.info(f"onnx/{name}", text)
