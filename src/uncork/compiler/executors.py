"""Compiled models of checked models: the executor that options ask for, and how another is made."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from uncork.blas import at_most
from uncork.compiler.compiled_model import CompiledModel
from uncork.compiler.execute import Executor
from uncork.compiler.options import Ids, Precision
from uncork.compiler.sharing import Runs
from uncork.ir.constants import mapped_files
from uncork.ir.model import Model
from uncork.kernels.runtime.target import Target
from uncork.passes import pipeline


def compile_for(
    model: Model,
    target: Target | None,
    threads: int,
    precision: Precision = "f32",
    ids: Ids = "64-bit",
    memory_limit: int | None = None,
) -> CompiledModel:
    """A checked model for a target, which need not be this machine unless it is called."""
    with at_most(threads):
        return compiled_by(
            model, partial(executor_of, target, threads, precision, ids, memory_limit)
        )


def compile_layer(model: Model, target: Target | None, threads: int) -> CompiledModel:
    """The compiled model of a single layer; ids are used as they are given."""
    return compile_for(model, target, threads, ids="as-written")


def compiled_by(model: Model, remade: Callable[[Model], Executor]) -> CompiledModel:
    """A checked model with an executor for it, and for whatever constants it is given later."""
    return CompiledModel(Runs(model, remade(model), remade))


def executor_of(
    target: Target | None,
    threads: int,
    precision: Precision,
    ids: Ids,
    memory_limit: int | None,
    model: Model,
) -> Executor:
    """The executor of a checked model for a target."""
    options = pipeline.Options(target, precision, ids)
    # Before anything runs: references too are then given the rows that they need.
    runs = pipeline.apply_passes(pipeline.AS_READ, model, options)
    return Executor(runs, target, threads, mapped_files(model), memory_limit=memory_limit)
