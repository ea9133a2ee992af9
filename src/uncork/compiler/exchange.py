"""Tables, or the whole model, of a compiled model exchanged while other threads call it.

A call reads once which executor makes it, so it is made by the old constants or by the new ones as
a whole. The old ones are let go with the last call that uses them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from uncork.compiler.sharing import Runs, Users
from uncork.compiler.tables import with_tables
from uncork.compiler.variables import kept_variables
from uncork.concurrency import LiveObjects, unforked
from uncork.errors import InputError, Problem
from uncork.ir.model import Model
from uncork.ir.ports import ModelPort

if TYPE_CHECKING:
    from uncork.compiler.base_executor import BaseExecutor
    from uncork.compiler.compiled_model import CompiledModel
    from uncork.compiler.tables import GivenTable


def exchange(
    users: Users,
    other: CompiledModel | None,
    tables: Mapping[str, GivenTable] | None,
    mmap: bool,
) -> None:
    """Have the next calls of all requests made by another compiled model, or with other tables.
    Raises UncorkError, and nothing is changed then.
    """
    InputError.when(
        other is None and not tables,
        "expected tables={name: values}, or another compiled model",
        "exchange",
    )
    InputError.when(
        other is not None and not isinstance(getattr(other, "users", None), Users),
        f"expected a compiled model (uncork.load(path)), got {type(other).__name__}",
        "exchange",
    )
    runs = users.runs if other is None else other.users.runs
    if tables:
        model = with_tables(runs.model, _owned(tables), mmap)
        _refuse_others(users.runs.model, model)
        runs = Runs(model, runs.remade(model), runs.remade)
    else:
        _refuse_others(users.runs.model, runs.model)
    _refuse_other_variables(users.runs.executor.model, runs.executor.model)
    runs.executor.prepare({})  # no call waits for it
    for request in users.requests:  # refused before anything is changed
        request.wait_for_turn()
    with unforked():
        users.runs = runs
        before, users.bound = users.bound, LiveObjects()
        for request in users.requests:
            request.adopt(runs)
        for call in before:
            call.refuse()


def carry_over(compiled: CompiledModel, executor: BaseExecutor) -> None:
    """Keep the values of variables as another executor keeps them."""
    values = compiled.values
    for name in [*values]:
        value = compiled.executor.value_of(name, values)
        assert value is not None
        copy = value.copy()
        values.forget(name)
        executor.set_value(name, copy, values)
    values.spares.clear()


def _owned(tables: Any) -> Any:
    """The tables with arrays of their own: what the caller writes later is not seen by calls."""
    if not isinstance(tables, Mapping):
        return tables
    return {
        name: table.copy() if isinstance(table, np.ndarray) else table
        for name, table in tables.items()
    }


def _refuse_others(old: Model, new: Model) -> None:
    """Raise InputError where programs that call the old model could not call the new one."""
    problems = _differences("input", old.inputs, new.inputs)
    problems += _differences("output", old.outputs, new.outputs)
    InputError.when_any("exchange", problems)


def _refuse_other_variables(old: Model, new: Model) -> None:
    """Raise InputError where values that variables keep could not stay."""
    kept, others = (
        {name: str(spec) for name, spec in kept_variables(model)} for model in (old, new)
    )
    if kept != others:
        problem = Problem("variables", f"expected {kept}, got {others}")
        raise InputError.of_all("exchange", [problem])


def _differences(what: str, old: Sequence[ModelPort], new: Sequence[ModelPort]) -> list[Problem]:
    if len(old) != len(new):
        return [
            Problem(
                f"{what}s",
                f"expected {len(old)}, as the model in use has, got {len(new)}: programs that call "
                "it could not call this one; load it as a model of its own",
            )
        ]
    return [
        Problem(f"{what} '{a.name}'", f"expected {a}, as the model in use has, got {b}")
        for a, b in zip(old, new, strict=True)
        if (a.names, a.element_type, a.shape) != (b.names, b.element_type, b.shape)
    ]
