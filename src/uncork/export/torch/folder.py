"""A module as a folder: model.py, weights.safetensors and check.py, which compares the module's
answers with saved ones.
"""

from __future__ import annotations

import inspect
import json
import os
import zipfile
from collections.abc import Callable, Sequence
from io import BytesIO
from pathlib import Path

import numpy as np

from uncork.compiler.options import Ids
from uncork.destination import begins_with, check_destination
from uncork.errors import InputError, UncorkError
from uncork.export.onnx.files import given_model
from uncork.export.safetensors import Entry, write_tensors
from uncork.export.torch import types
from uncork.export.torch.model import TorchSource, torch_source
from uncork.ir.model import Model
from uncork.ir.replacement import Replacement, written_into
from uncork.ops.parameter import Const
from uncork.types import Array, ElementType

#: Called with bytes done and bytes in all.
Progress = Callable[[int, int], None]
#: Inputs and the outputs that they give.
Sample = tuple[Sequence[Array], Sequence[Array]]
FILES = ("weights.safetensors", "model.py", "check.py", "sample.npz")
#: The first bytes of the sources that are written.
_MODEL, _COMPARES = b'"""The model `', b'"""Compares the module\'s answers with those of the model'

_LOADED = '''

def load(weights: str | Path | None = None) -> {main}:
    """The module with its weights, by default those beside this file."""
    weights = Path(__file__).with_name("weights.safetensors") if weights is None else weights
    with torch.device("meta"):
        module = {main}()
    module.load_state_dict(load_file(weights), assign=True)
    return module
'''
_CHECK = '''"""Compares the module's answers with those of the model that it was made from.

python check.py          the inputs and answers are in sample.npz
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch

from model import load


{agree}

def main() -> int:
    sample = np.load(Path(__file__).with_name("sample.npz"))
    inputs = [torch.from_numpy(sample[f"input_{i}"]) for i in range(int(sample["inputs"]))]
    with torch.no_grad():
        given = load().eval()(*inputs)
    outputs = given if isinstance(given, tuple) else (given,)
    same = True
    for i, output in enumerate(outputs):
        expected = sample[f"output_{i}"]
        close = agree(output.to(torch.float64).numpy(), expected)
        same = same and close
        print(f"output {i} {list(expected.shape)}: {'the same' if close else 'DIFFERENT'}")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
'''


def agree(found: np.ndarray, expected: np.ndarray) -> bool:
    """Whether the values are the same but for rounding, by the largest of them."""
    if found.shape != expected.shape:
        return False
    wanted = expected.astype(np.float64)
    finite = np.abs(wanted[np.isfinite(wanted)])
    largest = max(1.0, finite.max()) if finite.size else 1.0
    return np.allclose(found.astype(np.float64), wanted, 1e-3, 1e-4 * largest, equal_nan=True)


def write_torch(
    model: Model | str | os.PathLike[str],
    folder: str | os.PathLike[str],
    *,
    approximate: bool = False,
    ids: Ids = "64-bit",
    sample: Sample | None = None,
    progress: Progress | None = None,
) -> list[tuple[str, str]]:
    """Write the model as a folder of torch source; `approximate` and `ids` are as for `to_torch`.
    Returns what was approximated: layer and reason.

    `sample` are inputs and their outputs, which check.py compares with; without one there is no
    check.py. The weights are written one by one; files take their names when all are whole.
    """
    folder = Path(folder)
    source = torch_source(given_model(model), approximate, ids)
    with written_into(folder):
        with Replacement() as files:
            with files.open(folder / "weights.safetensors") as file:
                write_tensors(file, _entries(source), _metadata(source), progress)
            if sample is not None:
                with files.open(folder / "check.py") as file:
                    file.write(_CHECK.replace("{agree}", inspect.getsource(agree)).encode())
                with files.open(folder / "sample.npz") as file:
                    file.write(_packed(sample))
            with files.open(folder / "model.py") as file:
                file.write(module_text(source).encode())
        if sample is None:  # one that is there is of another model
            for name in ("check.py", "sample.npz"):
                if (folder / name).exists() and not _foreign(folder / name):
                    (folder / name).unlink()
    return list(source.approximations)


def _entries(source: TorchSource) -> dict[str, Entry]:
    return {key: _entry(constant) for key, constant in source.constants.items()}


def _entry(constant: Const) -> Entry:
    element_type = constant.element_type
    if element_type in types.WIDE:
        carrier = ElementType.i64
    elif element_type in types.TORCH_TYPES:
        carrier = element_type
    else:
        carrier = ElementType.i8 if element_type is ElementType.i4 else ElementType.u8

    def array() -> Array:
        given = constant.value
        return given if carrier is ElementType.bf16 else types.stored(element_type, given)

    return carrier, tuple(constant.shape.static), array


def _metadata(source: TorchSource) -> dict[str, str]:
    return {"format": "pt", "uncork.layers": json.dumps(dict(source.layers))}


def module_text(source: TorchSource) -> str:
    """model.py: the source of the module, and `load`."""
    text = source.text
    imports = "from pathlib import Path\n"
    if "import math\n" in text.split("class ")[0]:
        text = text.replace("import math\n", f"import math\n{imports}", 1)
    else:
        text = text.replace("import torch\n", f"{imports}\nimport torch\n", 1)
    own = "from torch import Tensor, nn\n"
    text = text.replace(own, f"from safetensors.torch import load_file\n{own}", 1)
    return text + _LOADED.format(main=source.main)


def _packed(sample: Sample) -> bytes:
    inputs, outputs = sample
    arrays: dict[str, Array] = {"inputs": np.array(len(inputs))}
    arrays |= {f"input_{i}": np.asarray(a) for i, a in enumerate(inputs)}
    arrays |= {f"output_{i}": np.asarray(a) for i, a in enumerate(outputs)}
    file = BytesIO()
    np.savez(file, **arrays)  # type: ignore[arg-type]
    return file.getvalue()


def check_folder(folder: str | os.PathLike[str], overwrite: bool) -> None:
    """Refuse, before any work, a folder that could not be written or that has a module already."""
    path, where = Path(folder), os.fspath(folder)
    UncorkError.when(not path.parent.is_dir(), "cannot be written: there is no such folder", where)
    InputError.when(
        path.exists() and not path.is_dir(),
        "cannot be written: it is a file, and torch needs a folder",
        where,
    )
    present = [name for name in FILES if (path / name).exists()]
    if present and not overwrite:
        raise UncorkError(
            f"has {present[0]} already: give --overwrite to replace it, or another name", where
        )
    for name in present:
        check_destination(path / name, _foreign, overwrite=overwrite)


def _foreign(path: Path) -> str:
    """Why what is at a path was not written by an export; "" where it was."""
    if path.suffix == ".py":
        return begins_with(_MODEL if path.name == "model.py" else _COMPARES)(path)
    ours = _is_sample(path) if path.suffix == ".npz" else _is_of_layers(path)
    return "" if ours else f"what is there is no {path.name} of an export"


def _is_sample(path: Path) -> bool:
    try:
        with np.load(path) as arrays:
            return "inputs" in arrays.files
    except (OSError, ValueError, zipfile.BadZipFile):
        return False


def _is_of_layers(path: Path) -> bool:
    """Whether a file of weights says which layers they are of, as `_metadata` does."""
    with open(path, "rb") as file:
        size = int.from_bytes(file.read(8), "little")
        return b'"uncork.layers"' in file.read(min(size, 1 << 24))
