"""Files that are no IR: what they are, by their contents, and the command that converts them.

Only beginnings are read, and the tables of contents of zip archives: files of models are large.
"""

from __future__ import annotations

import os
from pathlib import Path

from uncork.quoting import in_shell

_IR = "give the .xml file that it makes"
_PYTHON = "in Python: import openvino as ov; ov.save_model(ov.convert_model({}), 'model.xml')"
_SAVED_MODEL = "a SavedModel of TensorFlow"
_HUGGING_FACE = "optimum-cli export openvino --model {} OUTPUT (pip install 'optimum[openvino]')"
_TORCH = "in Python: uncork.from_torch({}, example)"
_CHECKPOINT = (
    "weights without their network. Build the network, load them into it, and "
) + _TORCH.format("network")
_KERAS = "load it, and write it by model.export('model.onnx', format='onnx')"

#: Beginnings of files that tell what they are.
_MAGIC = (
    (
        b"\x93NUMPY",
        "an array of NumPy, not a model: give it as an input (uncork run MODEL -i NAME=FILE)",
    ),
    (
        b"GGUF",
        "a GGUF file of llama.cpp: convert the model it was "
        "made of, " + _HUGGING_FACE.format("NAME"),
    ),
    (
        b"\x89HDF\r\n\x1a\n",
        "an HDF5 file, as Keras saves: " + _KERAS,
    ),
    (b"\x80\x02\x8a\x0al\xfc\x9cF\xf9", "a PyTorch checkpoint of an old kind: " + _CHECKPOINT),
    (b"\x1f\x8b", "compressed by gzip: unpack it first"),
    (b"%PDF", "a PDF document"),
    (b"\x7fELF", "a program or library"),
)
#: Members of zip archives that tell what they are, the more telling first.
_MEMBERS = (
    (
        "serialized_exported_program.json",
        "a program of torch.export: " + _TORCH.format("torch.export.load({!r}).module()"),
    ),
    (
        "models/model.json",
        "a program of torch.export: " + _TORCH.format("torch.export.load({!r}).module()"),
    ),
    ("constants.pkl", "a TorchScript program: " + _PYTHON.format("torch.jit.load({!r})")),
    ("data.pkl", "a PyTorch checkpoint: " + _CHECKPOINT),
    (
        "model.weights.h5",
        "a Keras model: " + _KERAS,
    ),
    (".npy", "a file of arrays, not a model: give it as inputs (uncork run MODEL --input FILE)"),
    (".xml", "a zip archive with a model in it: unpack it first"),
)


def describe(path: Path, data: bytes = b"") -> str:
    """What a message says after the path of something that is no model.xml.

    It says nothing ("") when nothing is known of it.
    """
    if path.is_dir():
        return _folder(path)
    name = in_shell(str(path))
    for begin, what in _MAGIC:
        if data.startswith(begin):
            return f"is {what}"
    if data.startswith(b"PK\x03\x04"):
        return _archive(path)
    if data[4:8] == b"TFL3":
        return f"is a TensorFlow Lite model: ovc {name}, and {_IR}"
    if _is_safetensors(data):
        folder = in_shell(str(path.parent)) if (path.parent / "config.json").is_file() else "FOLDER"
        return (
            "is a safetensors file, tensors without their network. "
            f"Of a model of Hugging Face: {_HUGGING_FACE.format(folder)}"
        )
    proto = _protobuf(data)
    if proto:
        whole = in_shell(str(path.parent)) if proto == _SAVED_MODEL else name
        return f"is {proto}: ovc {whole}, and {_IR}"
    if data[:1] in (b"{", b"["):
        return "is JSON: expected the .xml file of an OpenVINO model"
    if path.suffix.lower() == ".bin":
        beside = path.with_suffix(".xml")
        where = f"beside it, '{beside}'" if beside.is_file() else "that was saved with it"
        return f"is a weights file: give the .xml file {where}"
    return ""


def _folder(path: Path) -> str:
    try:
        names = sorted(os.listdir(path))
    except OSError as error:
        return f"is a folder that cannot be read: {error.strerror or error}"
    models = [name for name in names if name.endswith(".xml")]
    if len(models) == 1:
        return f"is a folder: give the model in it, '{path / models[0]}'"
    if models:
        named = ", ".join(f"'{name}'" for name in models[:8]) + (
            f" and {len(models) - 8} more" if len(models) > 8 else ""
        )
        return f"is a folder with {len(models)} models: give one of them ({named})"
    if "saved_model.pb" in names:
        return f"is {_SAVED_MODEL}: ovc {in_shell(str(path))}, and {_IR}"
    if "config.json" in names:
        return (
            f"is a folder of a model of Hugging Face: {_HUGGING_FACE.format(in_shell(str(path)))}"
        )
    return (
        "is a folder, and there is no .xml file in it: expected the .xml file of an OpenVINO model"
    )


def _archive(path: Path) -> str:
    import zipfile  # for files that are no models

    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()[:100_000]
    except (OSError, zipfile.BadZipFile, ValueError, NotImplementedError):
        return "is a damaged zip archive"
    for member, what in _MEMBERS:
        if any(name.endswith(member) for name in names):
            return "is " + (what.format(str(path)) if "{" in what else what)
    return "is a zip archive: unpack it first"


def _is_safetensors(data: bytes) -> bool:
    """Whether the data begin as a safetensors file does: the length of a JSON header, then the
    header.
    """
    return (
        len(data) > 9
        and int.from_bytes(data[:8], "little") < 10**8
        and data[8:10] in (b'{"', b"{}", b"{ ")
    )


def _protobuf(data: bytes) -> str:
    """The message of protocol buffers that begins here, told by its first fields."""
    fields = list(_fields(data))
    kinds = dict(fields)
    if fields[:1] == [(1, 0)] and kinds.get(2) == 2 and set(kinds) == {1, 2}:
        return _SAVED_MODEL
    if fields[:1] == [(1, 2)] and set(fields) <= {(1, 2), (2, 2), (4, 2), (5, 2)}:
        first = data[_varint(data, 1)[1] :]  # what the first field holds
        if first.startswith(b"\x08\x00\x10"):
            return "a program of PaddlePaddle"
        if first.startswith(b"\x0a"):
            return "a graph of TensorFlow"
    return ""


def is_onnx(data: bytes) -> bool:
    """Whether the data begin as an ONNX model does."""
    kinds = dict(_fields(data))
    return kinds.get(1) == 0 and kinds.get(7) == 2 and set(kinds) <= {*range(1, 9), 14, 20, 25, 26}


def _fields(data: bytes) -> list[tuple[int, int]]:
    """Numbers and wire types of the outermost fields, as far as the data reach.

    There are none where the data are no such message.
    """
    result: list[tuple[int, int]] = []
    at = 0
    while at < len(data) and len(result) < 1000:
        key, at = _varint(data, at)
        number, kind = key >> 3, key & 7
        if not 0 < number < 100 or kind not in (0, 2):
            return []
        value, at = _varint(data, at)
        result.append((number, kind))
        if kind == 2:
            at += value
    return result


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 64:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            break
    return value, at
