"""`write_c`: a compiled file as a folder that a C compiler makes a library of.

The folder has the compiled file itself, of which assembly takes the bytes of code, words and
constants (`.incbin`); `image.c` and `layout.h`, whose texts are of `texts.py`; and the runtime, its
headers, a program and a CMakeLists.txt, which are the same for all models.
"""

from __future__ import annotations

import os
import re
from importlib import resources
from pathlib import Path
from typing import BinaryIO

from msgspec.structs import replace

from uncork.compiled_head import COMPILED
from uncork.compiler.image import format
from uncork.compiler.image.c.texts import (
    constants_text,
    image_text,
    layout_text,
    parts_text,
    plans_of,
    shares,
)
from uncork.destination import begins_with
from uncork.errors import InputError, UnsupportedError, ValidationError
from uncork.ir.replacement import Replacement, written_into
from uncork.kernels.runtime.target import LEVELS
from uncork.types import PartialShape

_FILES = (
    "model.h", "image.h", "runtime.c", "system.h", "processor.h", "threads.h", "variables.h",
    "growth.h", "main.c", "CMakeLists.txt",
)  # fmt: skip
#: As `MODEL_MAX_RANK` of model.h.
_MAX_RANK = 8
#: More constants than that are not within reach of code as C compilers make it.
_REACH = (1 << 31) - (1 << 26)


def check_folder(folder: str | os.PathLike[str], own: str, overwrite: bool) -> None:
    """Refuse, before any work, a folder that must not or cannot be written: what has no file `own`
    of a compiled model is somebody else's.
    """
    path, where = Path(folder), os.fspath(folder)
    InputError.when(
        not path.absolute().parent.is_dir(), "cannot be written: there is no such folder", where
    )
    InputError.when(
        path.exists() and not path.is_dir(),
        "cannot be written: it is a file, and a folder is needed",
        where,
    )
    if path.is_dir() and not all(entry.is_dir() for entry in path.rglob("*")):
        InputError.when(
            not overwrite,
            "is there already: choose another name, or overwrite it (--overwrite)",
            where,
        )
        compiled = path / own
        InputError.when(
            not compiled.is_file() or begins_with(COMPILED, b"\0asm")(compiled),
            "cannot be overwritten: it is no folder of a compiled model",
            where,
        )


def check_name(name: str) -> None:
    """Refuse what is no identifier of C."""
    ValidationError.when(
        not re.fullmatch("[A-Za-z][A-Za-z0-9_]*", name),
        f"name: expected an identifier of C, got {name!r}",
    )


def write_c(
    compiled: str | os.PathLike[str] | BinaryIO,
    folder: str | os.PathLike[str],
    name: str = "model",
) -> None:
    """Write a compiled file, which may be open, as C: into a folder that there need not be.

    Functions, types and macros begin with `name`, which must be one for C, so that a program can
    have several models. Raises UnsupportedError for what C does not get: see docs/compiled_c.md.
    """
    check_name(name)
    description, data = format.read(compiled)
    check(description, format.name_of(compiled))
    for image in description.images:
        UnsupportedError.when(
            image.arch == "wasm32", "is WebAssembly: write_wasm links it", format.name_of(compiled)
        )
    order = {level: number for number, level in enumerate(LEVELS)}
    images = sorted(description.images, key=lambda image: order[image.level])
    description = replace(description, images=tuple(images))
    folder = Path(folder)
    texts = {
        **sources(description, data),
        "parts/constants.S": constants_text(description),
    }
    for number, image in enumerate(description.images):
        texts[f"parts/{image.level}.S"] = parts_text(number, image)
    if any(map(shares, plans_of(description))):
        texts["CMakeLists.txt"] = texts["CMakeLists.txt"].replace(
            "if(MODEL_THREADS)", "if(TRUE)  # steps of the model are shared by threads"
        )
    own = folder / f"{name}.uncork"
    with written_into(folder, folder / "parts"):
        with Replacement() as files:
            for file, text in texts.items():
                with files.open(folder / _renamed(file, name)) as out:
                    out.write(_renamed(text, name).encode())
            if not _is(own, compiled):
                with files.open(own) as out:
                    out.write(data)
        for old in (folder / "parts").glob("*.S"):
            if f"parts/{old.name}" not in texts:
                old.unlink()  # of targets that it was written for before


def _is(path: Path, compiled: str | os.PathLike[str] | BinaryIO) -> bool:
    """Whether a path is that of the compiled file."""
    try:
        given = compiled if isinstance(compiled, (str, os.PathLike)) else compiled.fileno()
        return os.path.samestat(os.stat(path), os.stat(given))
    except FileNotFoundError:
        return False


def sources(description: format.Description, data: memoryview) -> dict[str, str]:
    """The files of C, by their names."""
    return {
        **{file: resources.files(__package__).joinpath(file).read_text() for file in _FILES},
        "layout.h": layout_text(description, data),
        "image.c": image_text(description, data),
    }


def _renamed(text: str, name: str) -> str:
    """A text whose identifiers begin with another name."""
    if name == "model":
        return text
    text = re.sub(r"\bMODEL_", f"{name.upper()}_", text)
    text = re.sub(r"\bmodel_(?=[a-z])", f"{name}_", text)
    return re.sub(
        r"\bmodel\.(?=h\b|uncork\b)|(?<=project\()model\b|(?<=OUTPUT_NAME )model\b",
        lambda found: found.group().replace("model", name),
        text,
    )


def check(description: format.Description, where: str) -> None:
    """Raise UnsupportedError for what the runtime in C does not run."""
    for image in description.images:
        target = LEVELS.get(image.level)
        if target is None or target.tiles:
            raise UnsupportedError(
                f"has a target that C does not get, '{image.level}': compile it for levels such "
                "as x86-64-v3 and aarch64, without AMX",
                where,
            )
        UnsupportedError.when(
            target.system == "windows" and any(map(shares, (*image.plans, *image.initial))),
            f"has steps for several threads, which C does not get for '{image.level}': compile "
            "it for one (--threads 1)",
            where,
        )
    UnsupportedError.when(
        description.constants.bytes > _REACH,
        f"has {description.constants.bytes:,} bytes of constants, C takes {_REACH:,}",
        where,
    )
    shapes = {port.names[0]: port.shape for port in (*description.inputs, *description.outputs)}
    if description.variables is not None:
        shapes.update((read.variable, read.shape) for read in description.variables.reads)
    for name, text in shapes.items():
        shape = PartialShape.parse(text)
        UnsupportedError.when(
            shape.rank is not None and shape.rank > _MAX_RANK,
            f"has {shape.rank} dimensions, C takes {_MAX_RANK}",
            f"'{name}'",
        )
