"""`compile_to`: a model compiled into one file, which runs without a compiler."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from msgspec.structs import replace

from uncork.blas import at_most
from uncork.compiler.compile import Settled, read_model, settled
from uncork.compiler.compiled_model import executor_of
from uncork.compiler.execute import Executor
from uncork.compiler.image.format import name_of
from uncork.compiler.image.write import write_compiled
from uncork.compiler.options import PlanOptions, asked, taking
from uncork.errors import CompileError, InputError, UncorkError, UnsupportedError
from uncork.ir.model import Model
from uncork.kernels.runtime.kernel_cache import CannotCompile
from uncork.kernels.runtime.target import host_target, level_of

if TYPE_CHECKING:
    from typing_extensions import Unpack


@taking(PlanOptions)
def compile_to(
    model: Model | str | os.PathLike[str],
    path: str | os.PathLike[str] | BinaryIO,
    *,
    targets: Sequence[str] = (),
    shapes: Sequence[Mapping[str, Sequence[int | None]]] = (),
    with_source: bool = False,
    **options: Unpack[PlanOptions],
) -> None:
    """Compile a model into one file, which runs where neither a compiler nor the model is.

    `uncork.load("model.uncork")` maps it: its plan is made, its kernels are linked, its weights are
    packed. `targets` are the processors that it is for, levels such as "x86-64-v3", "x86-64-v4" and
    "aarch64" (none: this machine's); of those that a machine runs, `load` takes the largest.

    There is a plan for calls of any size, as far as the model leaves sizes open, and others for
    sizes that answer its questions otherwise (whether two are equal, or one is 1). With `shapes`
    there is one for each of them, by names of inputs: `{"image": [1, 3, None, None]}` fixes two
    sizes, as kernels may need them, and leaves two open. Other options are those of
    `compile_model`; `threads` is the most threads that a call uses, wherever it runs.

    `with_source` puts the model's files into it, too, which make the calls that the plans do not
    take; `model` is a path then.

    What is at `path` is replaced when all went well; a file that is open for writing will do, too.
    Raises UnsupportedError for a model that needs references or Python between its kernels, in an
    error that names the layer; ValidationError, CompileError and InputError as `compile_model`
    does.
    """
    wanted = asked(compile_to, options)
    source = None if isinstance(model, Model) else os.fspath(model)
    InputError.when(
        with_source and source is None,
        "expected the path of a model, whose files go into the compiled one, got a Model: write it "
        "(write_model) and give its path",
        "with_source",
    )
    read = model if isinstance(model, Model) else read_model(model, mmap=False)
    levels = tuple(targets) or (_own_level(),)
    reshaped = [read.reshape(dict(given)) for given in shapes] or [read]
    made = {
        level: [settled(one, replace(wanted, target=level), elsewhere=True) for one in reshaped]
        for level in dict.fromkeys(levels)
    }

    def executor(one: Settled) -> Executor:
        made = executor_of(one.target, one.threads, one.precision, wanted.ids, None, one.model)
        assert isinstance(made, Executor)
        return made

    # What was settled, for AMX too: the options alone do not tell.
    compiled_for = {
        level: target for level, ones in made.items() if (target := ones[0].target) is not None
    }
    sources = {} if source is None else _files_of(Path(source))
    try:
        with at_most(max(one.threads for ones in made.values() for one in ones)):
            write_compiled(
                Path(path) if isinstance(path, (str, os.PathLike)) else path,
                read,
                {level: [partial(executor, one) for one in ones] for level, ones in made.items()},
                compiled_for,
                sources,
                with_source,
                {name: value for name, value in wanted.given().items() if name != "tables"},
            )
    except CannotCompile as error:
        raise CompileError(str(error), read.source) from None
    except OSError as error:
        raise UncorkError(f"cannot be written: {error.strerror or error}", name_of(path)) from None


def _own_level() -> str:
    level = level_of(host_target())
    if level is None:
        raise UnsupportedError("this machine is of no known level: name one (targets)")
    return level


def _files_of(path: Path) -> dict[str, Path]:
    """The files of a model, by the names that they have in a compiled file."""
    weights = path.with_suffix(".bin")
    return {path.name: path, **({weights.name: weights} if weights.is_file() else {})}
