"""`load_compiled`: a model from a compiled file, without its layers, passes, planner or LLVM."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from msgspec.structs import replace

from uncork.compiler.base_executor import BaseExecutor
from uncork.compiler.compiled_model import CompiledModel
from uncork.compiler.image import format
from uncork.compiler.image.executor import ImageExecutor, model_of
from uncork.compiler.image.instance import LoadedCode, LoadedPlan
from uncork.compiler.image.plans import ImagePlans
from uncork.compiler.sharing import Runs
from uncork.compiler.variable_values import Values
from uncork.concurrency import lazy
from uncork.errors import InputError, ReadError, UnsupportedError
from uncork.ir.model import Model
from uncork.kernels.runtime.target import LEVELS, Target, lacking
from uncork.types import Array

#: Makes the executor of the model that a compiled file, at this path, has inside, with the options
#: that it was compiled with.
CompileSource = Callable[[str, dict[str, Any]], BaseExecutor]
#: The code of files that were loaded, by its digest: it stays, since threads may be in it.
_loaded_code: dict[bytes, LoadedCode] = {}


def load_compiled(
    path: str | os.PathLike[str],
    memory_limit: int | None = None,
    target: str | None = None,
    compile_source: CompileSource | None = None,
) -> CompiledModel:
    """The model of a compiled file, for the largest of its targets that this machine runs, or the
    one of this name.

    `compile_source` makes an executor of the source in it, for calls that its plans do not take.

    Its constants are mapped, and shared with other processes that load it. Raises ReadError for a
    file that is damaged or that others can write to, UnsupportedError where this machine runs none
    of its targets.
    """
    path = os.fspath(path)
    _check_owner(path)
    description, data = format.read(path)
    image, runs_on = _image(description, path, target)
    view = memoryview(data)
    code = _code(image, view, path)
    constants = format.array(data, description.constants, np.uint8)
    model = _model(description, path)
    name = f"model '{description.name}'"

    source = (
        _Source(compile_source, path, description.settings)
        if description.source and compile_source is not None
        else None
    )

    def executor(of: Model, plans: tuple[format.Plan, ...]) -> ImageExecutor:
        try:
            loaded = [LoadedPlan(plan, data, constants, code) for plan in plans]
        except (KeyError, AttributeError, TypeError) as error:
            raise ReadError(
                f"refers to {error}, which this process has not: compile the model again", path
            ) from None
        threads = max((plan.threads for plan in plans), default=1)
        # Plans of models with variables take values of these, too, which the source does not.
        alone = source if description.variables is None else None
        calls = ImagePlans(loaded, name, memory_limit, None if alone is None else alone.compute)
        return ImageExecutor(of, calls, runs_on, threads, memory_limit)

    runs = executor(model, image.plans)
    if description.variables is not None:
        from uncork.compiler.image.variables import stateful  # for models that have some

        main, initial = executor(replace(model), image.plans), executor(model, image.initial)
        references = None if source is None else source.run_with_state
        runs.with_variables = stateful(model, description.variables, main, initial, references)
    return CompiledModel(Runs(model, runs, _remade(path)))


class _Source:
    """The model that a file was made of, for calls that its plans do not take."""

    def __init__(self, compile_source: CompileSource, path: str, settings: dict[str, Any]) -> None:
        self._compile, self._path, self._settings = compile_source, path, settings

    @lazy
    def _executor(self) -> BaseExecutor:
        return self._compile(self._path, self._settings)

    def compute(self, inputs: Sequence[Array]) -> list[Array]:
        """The results of a call."""
        return self._executor.run(inputs)

    def run_with_state(self, inputs: Sequence[Array], state: Any) -> list[Array]:
        """The results of a call of a model with variables, whose values are whole arrays."""
        executor, values = self._executor, Values()
        for name, value in state.items():
            executor.set_value(name, value, values)
        results = executor.run_with_state(inputs, values)
        state.update({name: executor.value_of(name, values) for name in values})
        return results


def _model(description: format.Description, where: str) -> Model:
    try:
        return model_of(description, where)
    except (KeyError, ValueError, IndexError, TypeError) as error:
        raise ReadError(f"is damaged: {error}: copy it again", where) from None


def _remade(where: str) -> Any:
    def remade(model: Model) -> ImageExecutor:
        raise InputError(
            "is compiled, its constants cannot be exchanged: load the .xml that it was made of",
            where,
        )

    return remade


def _check_owner(path: str) -> None:
    """Refuse a file that others than this user and root can write to: it is code."""
    if os.name != "posix":
        return
    try:
        status = os.stat(path)
    except OSError:
        return  # which reading it says in its words
    ReadError.when(
        status.st_uid not in (0, os.getuid()),
        "is code and belongs to another user: copy it to a file of your own",
        path,
    )
    ReadError.when(
        status.st_mode & (stat.S_IWGRP | stat.S_IWOTH),
        f"is code and others can write to it: take that away (chmod go-w {path})",
        path,
    )


def _image(
    description: format.Description, where: str, target: str | None
) -> tuple[format.Image, Target]:
    """The image for this machine, of the levels that it runs the largest, and its target."""
    by_level = {image.level: image for image in description.images}
    UnsupportedError.when(
        target is not None and target not in by_level,
        f"has no plan for '{target}', but for {', '.join(by_level)}: compile the model for it",
        where,
    )
    lacks: dict[str, str] = {}
    for level in (target,) if target is not None else (*LEVELS, *by_level):
        if level not in by_level or level in lacks:
            continue
        image = by_level[level]
        runs_on = LEVELS.get(level) or Target.of(image.arch, "", ",".join(image.features))
        lacks[level] = lacking(runs_on)
        if not lacks[level]:
            return image, runs_on
    wanted = "; ".join(f"'{level}' needs {missing}" for level, missing in lacks.items())
    raise UnsupportedError(
        f"is compiled for other processors: {wanted}: compile the model for this one, or load its "
        ".xml",
        where,
    )


def _code(image: format.Image, view: memoryview, where: str) -> LoadedCode:
    code = bytes(view[image.code.offset : image.code.offset + image.code.bytes])
    digest = hashlib.sha256(code).digest()
    if digest not in _loaded_code:
        try:
            _loaded_code[digest] = LoadedCode(code, image.functions)
        except OSError as error:
            raise UnsupportedError(
                f"cannot run here: {error.strerror or error}: load its .xml", where
            ) from None
    return _loaded_code[digest]
