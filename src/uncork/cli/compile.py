"""`uncork compile`: a model compiled into one file, which runs without a compiler."""

from __future__ import annotations

import argparse
import contextlib
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from uncork.cli._compiled import weights_facts, weights_text
from uncork.cli._options import add_threads, rounding
from uncork.cli._output import answer, counted
from uncork.cli._parser import Parser, mistyped_if
from uncork.compiled_head import COMPILED
from uncork.compiler.image import format
from uncork.compiler.image.c.wasm import write_wasm
from uncork.compiler.image.c.write import check_folder, check_name, write_c
from uncork.compiler.image.compile import compile_to
from uncork.destination import begins_with, check_destination
from uncork.errors import InputError, UncorkError
from uncork.quoting import in_terminal

_EPILOG = """\
The file has the plan, the kernels and the packed weights: uncork.load and every command take it as
they take MODEL, and need no compiler, and no layers are read, checked or planned. It is code: load
files of people you trust.

--target may be given several times; of those that a machine runs, the largest is taken. Without
it the file is for machines like this one. --shape fixes sizes of inputs that MODEL leaves open
('?' stays open); one more of the same input begins another plan.

examples:
  uncork compile model.xml -o model.uncork
  uncork compile model.xml --target x86-64-v3 --target x86-64-v4 --target aarch64 -o model.uncork
  uncork compile model.xml --shape image=1,3,224,224 --shape image=8,3,224,224 -o model.uncork
  uncork run model.uncork --random
  uncork compile model.xml --c -o folder && cmake -S folder -B out && cmake --build out
"""


def parser() -> Parser:
    parser = Parser(
        "uncork compile",
        "Compile a model into one file, which runs without a compiler.",
        _EPILOG,
        "uncork compile [OPTION]... MODEL -o OUT",
    )
    parser.add_model()
    parser.add_argument(
        "-o", "--output", required=True, metavar="OUT", help="what to write, such as model.uncork"
    )
    parser.add_argument(
        "--target",
        action="append",
        default=[],
        metavar="LEVEL",
        help="a processor that it is for: x86-64-v3, x86-64-v4, aarch64, .. (this one)",
    )
    parser.add_argument(
        "--shape",
        action="append",
        default=[],
        type=_shape,
        metavar="NAME=N,N,...",
        help="the sizes of an input, '?' for one that stays open",
    )
    parser.add_argument(
        "--c",
        action="store_true",
        help="write a folder OUT, of which a C compiler makes a library",
    )
    parser.add_argument(
        "--wasm",
        action="store_true",
        help="write a folder OUT with a module of WebAssembly, its constants and a loader",
    )
    parser.add_argument(
        "--name", default="model", help="how names begin in C, as model_run does (model)"
    )
    parser.add_argument(
        "--with-source",
        action="store_true",
        help="put the model's files in, too: for calls that the plans do not take",
    )
    add_threads(parser)
    parser.add_overwrite("an OUT")
    parser.add_weights()
    parser.add_json()
    return parser


def _shape(text: str) -> tuple[str, list[int | None]]:
    name, _, sizes = text.rpartition("=")
    parts = [part.strip() for part in sizes.split(",")] if sizes else []
    mistyped_if(
        not name or any(not (p == "?" or (p.isdecimal() and len(p) < 19)) for p in parts),
        f"expected NAME= and sizes such as ids=2,50 or x=1,?, got '{text}'",
    )
    return name, [None if part == "?" else int(part) for part in parts]


def execute(arguments: argparse.Namespace) -> int:
    foreign = begins_with(COMPILED)
    reads = [("the model", arguments.model)]
    InputError.when(arguments.c and arguments.wasm, "expected --c or --wasm, got both")
    InputError.when(
        arguments.wasm and (arguments.target or arguments.threads not in (None, 1)),
        "--wasm is a target of its own, without threads: leave --target and --threads out",
    )
    if arguments.c:
        check_name(arguments.name)
        check_folder(arguments.output, f"{arguments.name}.uncork", arguments.overwrite)
    elif arguments.wasm:
        check_folder(arguments.output, "model.wasm", arguments.overwrite)
    else:
        check_destination(arguments.output, foreign, overwrite=arguments.overwrite, reads=reads)
    InputError.when(
        arguments.weights and Path(arguments.weights) != Path(arguments.model).with_suffix(".bin"),
        "are the weights beside the model when it is compiled: rename them",
        arguments.weights,
    )
    started = time.perf_counter()
    with contextlib.ExitStack() as stack:
        compiled = arguments.output
        if arguments.c or arguments.wasm:
            compiled = stack.enter_context(_without_a_name(Path(compiled)))
        compile_to(
            arguments.model,
            compiled,
            targets=("wasm32",) if arguments.wasm else arguments.target,
            shapes=_calls(arguments.shape),
            with_source=arguments.with_source,
            threads=1 if arguments.wasm else arguments.threads,
            **rounding(arguments),
        )
        if arguments.c:
            write_c(compiled, arguments.output, arguments.name)
        if arguments.wasm:
            write_wasm(compiled, arguments.output)
        description, data = format.read(compiled)
        seconds, size = time.perf_counter() - started, len(data)
    levels = [image.level for image in description.images]
    plans, weights = len(description.images[0].plans), weights_facts(description)
    facts = {
        "schema": "uncork-compile-1",
        "model": arguments.model,
        "saved": arguments.output,
        "bytes": size,
        "targets": levels,
        "plans": plans,
        "weights": weights,
        "seconds": round(seconds, 3),
    }
    text = (
        f"saved {in_terminal(arguments.output)}: {counted(plans, 'plan')} for {', '.join(levels)} "
        f"({size:,} bytes, {seconds:.1f} s)\n  {weights_text(weights)}\n"
    )
    answer(arguments, facts, text)
    return 0


@contextlib.contextmanager
def _without_a_name(path: Path) -> Iterator[BinaryIO]:
    """A file on the file system of a path, which is gone when nobody has it open, even after a
    kill. Errors call it by that path. Raises UncorkError where it cannot be written to its end.
    """
    try:
        with (
            tempfile.TemporaryFile(dir=path.absolute().parent) as nameless,
            open(path, "w+b", opener=lambda *_: os.dup(nameless.fileno())) as file,
        ):
            yield file
    except OSError as error:
        raise UncorkError(f"cannot be written: {error.strerror or error}", str(path)) from None


def _calls(shapes: list[tuple[str, list[int | None]]]) -> list[dict[str, list[int | None]]]:
    """The sizes of each plan: one more of an input begins the next."""
    calls: list[dict[str, list[int | None]]] = []
    for name, sizes in shapes:
        if not calls or name in calls[-1]:
            calls.append({})
        calls[-1][name] = sizes
    return calls
