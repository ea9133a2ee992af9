"""`write_wasm`: a compiled file as a module of WebAssembly, with a loader in JavaScript.

The runtime is that of C, with the kernels of the level wasm32, which clang links. Constants stay in
the compiled file, which the loader puts into the module's memory.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from importlib import resources
from pathlib import Path
from typing import BinaryIO

from uncork.compiler.image import format
from uncork.compiler.image.c.texts import functions_of
from uncork.compiler.image.c.write import check, sources
from uncork.errors import CompileError, UncorkError, UnsupportedError
from uncork.ir.replacement import Replacement, written_into

#: What the loader calls.
_EXPORTS = (
    "malloc", "free", "model_open", "model_sizes", "model_run", "model_reset", "model_close",
    "model_text", "model_why", "model_inputs", "model_outputs", "model_input", "model_output",
    "model_take_constants",
)  # fmt: skip
_CONSTANTS = """
const unsigned char *model_constants;
void model_take_constants(const unsigned char *constants) { model_constants = constants; }
"""
_OPTIONS = (
    "--target=wasm32-wasi", "-mexec-model=reactor", "-O2", "-msimd128", "-mbulk-memory",
    "-Wno-unused-command-line-argument", "-Wl,-z,stack-size=1048576",
)  # fmt: skip


def write_wasm(compiled: str | os.PathLike[str] | BinaryIO, folder: str | os.PathLike[str]) -> None:
    """Write a file that was compiled for wasm32 as model.wasm, model.js and model.uncork, into a
    folder that there need not be.

    Raises UnsupportedError for a file of another target, and where there is no clang with wasm-ld
    and a C library for WebAssembly; CompileError where they fail.
    """
    description, data = format.read(compiled)
    where = format.name_of(compiled)
    UnsupportedError.when(
        [image.arch for image in description.images] != ["wasm32"],
        "is not compiled for wasm32, and for it alone",
        where,
    )
    check(description, where)
    clang = shutil.which("clang")
    if clang is None or shutil.which("wasm-ld") is None:
        raise UnsupportedError(
            "a module of WebAssembly is linked by clang and wasm-ld, which are not installed "
            "(Debian: apt install clang lld wasi-libc libclang-rt-14-dev-wasm32)"
        )
    loader = resources.files(__package__).joinpath("model.js").read_bytes()
    try:
        with tempfile.TemporaryDirectory() as built:
            module = _linked(Path(built), description, data, clang)
    except OSError as error:
        where = f"the folder for what is linked ({error.filename or 'TMPDIR'})"
        raise UncorkError(f"cannot be written: {error.strerror or error}", where) from None
    folder = Path(folder)
    begin = description.constants.offset
    constants = bytes(data[begin : begin + description.constants.bytes])
    with written_into(folder), Replacement() as files:
        for name, content in {
            "model.wasm": module,
            "model.js": loader,
            "model.constants": constants,
        }.items():
            with files.open(folder / name) as out:
                out.write(content)


def _linked(built: Path, description: format.Description, data: memoryview, clang: str) -> bytes:
    """The module, from sources and objects in a folder."""
    texts = sources(description, data)
    texts["image.c"] += _CONSTANTS
    for name, text in texts.items():
        (built / name).write_text(text)
    objects = functions_of(description.images[0], data).values()
    for number, content in enumerate(objects):
        (built / f"{number}.o").write_bytes(content)
    done = subprocess.run(
        [
            clang,
            *_OPTIONS,
            *(f"-Wl,--export={name}" for name in _EXPORTS),
            *("-o", "model.wasm", "runtime.c", "image.c"),
            *(f"{number}.o" for number in range(len(objects))),
        ],
        cwd=built,
        capture_output=True,
        text=True,
        check=False,
    )
    CompileError.when(
        done.returncode, f"clang cannot link the module: {done.stderr.strip()[-2000:]}"
    )
    return (built / "model.wasm").read_bytes()
