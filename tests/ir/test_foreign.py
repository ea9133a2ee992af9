"""Files and folders that are no model.xml: the message says what they are, by what they contain,
and what converts them.
"""

from __future__ import annotations

import io
import re
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

import uncork
from tests.ir._files import simple


def refusal(path: Path) -> str:
    with pytest.raises(uncork.ReadError) as caught:
        uncork.load(path)
    assert len(caught.value.problems) == 1
    assert caught.value.where == str(path)
    return str(caught.value).removeprefix(f"{path}: ")


def archive(*names: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for name in names:
            file.writestr(name, b"x")
    return buffer.getvalue()


def proto(*fields: tuple[int, int | bytes]) -> bytes:
    """A message of protocol buffers, by its wire format: numbers below 128, strings of any
    length.
    """
    parts = []
    for number, value in fields:
        if isinstance(value, int):
            parts.append(bytes([number << 3, value]))
            continue
        size, length = len(value), b""
        while size > 127:
            length, size = length + bytes([size & 127 | 128]), size >> 7
        parts.append(bytes([number << 3 | 2]) + length + bytes([size]) + value)
    return b"".join(parts)


def npy() -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.zeros(2))
    return buffer.getvalue()


CONVERT = r"import openvino as ov; ov.save_model\(ov.convert_model\({}\), 'model.xml'\)"
TORCH = r"in Python: uncork.from_torch\({}, example\)"
HUGGING_FACE = (
    r"optimum-cli export openvino --model {} OUTPUT \(pip install 'optimum\[openvino\]'\)"
)
FILES = [
    (
        "tflite",
        b"\x1c\0\0\0TFL3" + bytes(50),
        r"is a TensorFlow Lite model: ovc '?{path}'?, and give",
    ),
    (
        "frozen graph",
        proto((1, proto((1, b"x"), (2, b"Placeholder"))), (4, b"\x08\x16")),
        "is a graph of TensorFlow: ovc '?{path}",
    ),
    (
        "saved model",
        proto((1, 1), (2, b"\x0a\x02ab")),
        r"is a SavedModel of TensorFlow: ovc '?{folder}'?, and give",
    ),
    ("paddle", proto((1, b"\x08\x00\x10\xff\xff")), "is a program of PaddlePaddle: ovc '?{path}"),
    (
        "safetensors",
        struct.pack("<Q", 20) + b'{"a":{"dtype":"F32"}',
        "tensors without their network.*" + HUGGING_FACE.format("FOLDER"),
    ),
    ("gguf", b"GGUF\3\0\0\0", "is a GGUF file of llama.cpp: convert the model it was made of"),
    ("keras h5", b"\x89HDF\r\n\x1a\n" + bytes(8), "is an HDF5 file, as Keras saves: load it"),
    (
        "keras",
        archive("metadata.json", "config.json", "model.weights.h5"),
        r"is a Keras model: load it, and write it by model.export\('model.onnx', format='onnx'\)",
    ),
    (
        "torch.save",
        archive("state/data.pkl", "state/data/0"),
        "PyTorch checkpoint: weights without their network.*" + TORCH.format("network"),
    ),
    (
        "old torch.save",
        b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.",
        "PyTorch checkpoint of an old kind: weights without",
    ),
    (
        "torchscript",
        archive("s/data.pkl", "s/constants.pkl", "s/code/a.py"),
        CONVERT.format("torch.jit.load\\('{path}'\\)"),
    ),
    (
        "torch.export",
        archive("p/models/model.json", "p/data/weights/w"),
        TORCH.format("torch.export.load\\('{path}'\\).module\\(\\)"),
    ),
    (
        "npy",
        npy(),
        r"is an array of NumPy, not a model: give it as an input \(uncork run MODEL -i NAME=FILE\)",
    ),
    ("npz", archive("x.npy"), "is a file of arrays, not a model: give it as inputs"),
    (
        "zipped model",
        archive("a/model.xml", "a/model.bin"),
        "is a zip archive with a model in it: unpack it first",
    ),
    ("zip", archive("a.txt"), "is a zip archive: unpack it first"),
    ("cut zip", archive("a.txt")[:20], "is a damaged zip archive"),
    ("gzip", b"\x1f\x8b\x08", "is compressed by gzip"),
    ("json", b'{"architectures": []}', "is JSON: expected the .xml file of an OpenVINO model"),
]


@pytest.mark.parametrize(("data", "message"), [pytest.param(d, m, id=n) for n, d, m in FILES])
@pytest.mark.parametrize("name", ["model.xml", "a model.unknown"])
def test_contents_tell(tmp_path: Path, name: str, data: bytes, message: str) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    message = message.replace("{path}", re.escape(str(path))).replace(
        "{folder}", re.escape(str(tmp_path))
    )
    assert re.search(message, refusal(path)), refusal(path)


def test_weights_given_as_model(tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(bytes(range(100, 200)))
    assert refusal(path) == "is a weights file: give the .xml file that was saved with it"
    simple().save(tmp_path)
    assert (
        refusal(path)
        == f"is a weights file: give the .xml file beside it, '{tmp_path / 'model.xml'}'"
    )


def test_folders(tmp_path: Path) -> None:
    assert (
        refusal(tmp_path)
        == "is a folder, and there is no .xml file in it: expected the .xml file of an OpenVINO "
        "model"
    )
    (tmp_path / "config.json").write_text("{}")
    assert re.match(
        "is a folder of a model of Hugging Face: " + HUGGING_FACE.format(re.escape(str(tmp_path))),
        refusal(tmp_path),
    )
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(struct.pack("<Q", 2) + b"{}")
    assert re.search(HUGGING_FACE.format(re.escape(str(tmp_path))), refusal(weights))
    (tmp_path / "saved_model.pb").write_bytes(b"\x08\x01")
    assert (
        refusal(tmp_path)
        == f"is a SavedModel of TensorFlow: ovc {tmp_path}, and give the .xml file that it makes"
    )
    path = simple().save(tmp_path)
    assert refusal(tmp_path) == f"is a folder: give the model in it, '{path}'"
    (tmp_path / "b.xml").write_text("x")
    assert refusal(tmp_path) == "is a folder with 2 models: give one of them ('b.xml', 'model.xml')"


def test_a_name_without_its_ending(tmp_path: Path) -> None:
    path = simple().save(tmp_path)
    assert (
        refusal(path.with_suffix(""))
        == f"cannot be read: No such file or directory; is it '{path}'?"
    )
    path.unlink()
    assert refusal(path.with_suffix("")) == "cannot be read: No such file or directory"


def test_a_name_with_a_mistake(tmp_path: Path) -> None:
    path = simple().save(tmp_path)
    (tmp_path / "modl.txt").write_text("")
    missing = "cannot be read: No such file or directory"
    assert refusal(tmp_path / "modl.xml") == f"{missing}; did you mean '{path.name}'?"
    assert refusal(tmp_path / "network.xml") == missing
    assert refusal(tmp_path / "nowhere" / "model.xml") == missing


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")
def test_files_that_torch_writes(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    network = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU()).eval()
    path = tmp_path / "file.pt"
    torch.save(network.state_dict(), path)
    assert refusal(path).startswith("is a PyTorch checkpoint: weights without their network")
    torch.save(network.state_dict(), path, _use_new_zipfile_serialization=False)
    assert refusal(path).startswith(
        "is a PyTorch checkpoint of an old kind: weights without their network"
    )
    torch.jit.trace(network, torch.zeros(1, 3)).save(str(path))
    assert refusal(path).startswith("is a TorchScript program: ")
    torch.export.save(torch.export.export(network, (torch.zeros(1, 3),)), tmp_path / "file.pt2")
    assert refusal(tmp_path / "file.pt2").startswith("is a program of torch.export: ")


def test_a_folder_without_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert (
        refusal(Path())
        == "is a folder, and there is no .xml file in it: expected the .xml file of an OpenVINO "
        "model"
    )
    (tmp_path / "model.xml").touch()
    assert refusal(Path()) == "is a folder: give the model in it, 'model.xml'"
