"""Arrays in .npy and .npz files: read without ever unpickling, written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from uncork import files
from uncork.cli._sound import read_sound
from uncork.destination import Read, begins_with, check_destination
from uncork.errors import InputError, UncorkError
from uncork.ir.replacement import Replacement
from uncork.memory import available
from uncork.storage import write_archive
from uncork.types import Array

_PICKLED = (
    "holds Python objects (pickled), which are refused: loading them can run any program; "
    "save numbers in an array of a numeric type and strings in one of type '<U'"
)


def read_arrays(path: str) -> Array | dict[str, Array]:
    """The array of a .npy file, those of an .npz file by name, or the samples of a .wav file.

    Raises InputError that names the file.
    """
    try:
        with files.opened(path) as file:
            magic = file.read(6)
            file.seek(0)
            if magic == b"\x93NUMPY":
                array: Array = _loaded(path, lambda: np.load(file, allow_pickle=False))
                return array
            if magic[:4] == b"RIFF":
                return read_sound(path)[0]
            InputError.when(
                magic[:2] != b"PK", "is neither a .npy, an .npz, a .wav file nor a picture", path
            )
            with _loaded(path, lambda: np.load(file, allow_pickle=False)) as archive:
                _check_size(path, archive)
                return {name: _member(f"{path}:{name}", archive, name) for name in archive.files}
    except OSError as error:
        raise InputError(files.why_not(error, path), path) from None


def read_named_arrays(path: str, expected: str = "an .npz file") -> dict[str, Array]:
    """The arrays of a file, which has names for them. Raises InputError for any other."""
    arrays = read_arrays(path)
    if not isinstance(arrays, dict):
        raise InputError(f"expected {expected}, whose arrays have names", path)
    return arrays


def _check_size(path: str, archive: Any) -> None:
    """Refuse an archive that would fill the memory: a few compressed bytes may be many."""
    needed = sum(member.file_size for member in archive.zip.infolist())
    most, whose = available()
    InputError.when(
        needed > most, f"its arrays need {needed:,} bytes, more than {whose} ({most:,} bytes)", path
    )


def _member(where: str, archive: Any, name: str) -> Array:
    array = _loaded(where, lambda: archive[name])
    if not isinstance(array, np.ndarray):
        raise InputError("is not an array", where)
    return array


def _loaded(where: str, load: Callable[[], Any]) -> Any:
    try:
        return load()
    except MemoryError:
        raise InputError("not enough memory to read it", where) from None
    except Exception as error:
        # The file may hold anything, and NumPy, zipfile and zlib have a class of error for each
        # kind of damage.
        if "allow_pickle" in str(error):
            raise InputError(_PICKLED, where) from None
        raise InputError(
            f"cannot be read as an array: {error or type(error).__name__}", where
        ) from None


def check_arrays_destination(path: str, overwrite: bool, reads: Sequence[Read]) -> None:
    """Refuse a path that `write_arrays` must not or cannot write, before anything is computed."""
    magic = (b"\x93NUMPY",) if path.endswith(".npy") else (b"PK\x03\x04", b"PK\x05\x06")
    check_destination(path, begins_with(*magic), overwrite=overwrite, reads=reads)


def write_arrays(path: str, arrays: Mapping[str, Array]) -> None:
    """Write an .npz file, or a .npy file when there is one array and the path ends so.

    The file takes its name when it is whole: an existing one stays until then. Raises UncorkError
    when that fails, and leaves nothing behind.
    """
    for name, array in arrays.items():
        UncorkError.when(
            array.dtype.hasobject,
            f"output '{name}' has strings that end in a NUL character, "
            "which NumPy's files cannot hold",
            path,
        )

    def write(file: IO[bytes]) -> None:
        if path.endswith(".npy"):
            (only,) = arrays.values()
            np.lib.format.write_array(file, only, allow_pickle=False)
        else:
            write_archive(file, arrays)

    _write_whole(path, write)


def _write_whole(path: str, write: Callable[[IO[bytes]], object]) -> None:
    # The file that a link points to is replaced, not the link.
    target = Path(os.path.realpath(path))
    try:
        with Replacement() as new, new.open(target) as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise UncorkError(f"cannot be written: {error.strerror or error}", path) from None


def write_page(path: str, text: str) -> None:
    """Write an HTML file whole or not at all, as `write_arrays` does. Raises UncorkError."""
    _write_whole(path, lambda file: file.write(text.encode()))
