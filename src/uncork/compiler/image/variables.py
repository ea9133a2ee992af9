"""The executor of a compiled model that has variables."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NoReturn

from msgspec.structs import replace

from uncork.compiler.growing_state import GrowingStateExecutor
from uncork.compiler.image import format
from uncork.compiler.image.executor import ImageExecutor
from uncork.compiler.state import References, StateExecutor
from uncork.errors import InputError, UncorkError
from uncork.ir.model import Model, Node
from uncork.ops.gather import Gather1, Gather7, Gather8
from uncork.ops.state import ReadValue3
from uncork.passes.functionalize_variables import Lifted
from uncork.passes.match_appends import Append, RowSelection
from uncork.types import Array


def stateful(
    model: Model,
    known: format.Variables,
    main: ImageExecutor,
    initial: ImageExecutor,
    references: References | None,
) -> StateExecutor | GrowingStateExecutor:
    """The executor of a model with variables, by those of its plans and of initial values.
    `references` make the calls that plans do not, where the file has its source.
    """
    grown = {one.variable: one for one in known.grown}
    reads = [node for node in model.nodes if isinstance(node.operation, ReadValue3)]
    values = tuple(node for node in reads if node.operation.variable_id not in grown)  # type: ignore[union-attr]
    read_of = {node.operation.variable_id: node for node in reads}  # type: ignore[union-attr]
    appended = tuple(_append(read_of[name], one) for name, one in grown.items())
    main.has_references = references is not None
    references = references or _Refusal(model, appended)
    assigned = tuple(one.variable for one in known.assigned if one.variable not in grown)
    lifted = Lifted(main.model, values, assigned, appended)

    def executor_of(other: Model, _: Collection[int]) -> ImageExecutor:
        return main if other is lifted.model else initial

    if not appended:
        return StateExecutor(model, lifted, executor_of, references)
    return GrowingStateExecutor(model, lifted, executor_of, _no_other, references)


def _append(read: Node, one: format.Grown) -> Append:
    picked = one.picked
    selection = None
    if picked is not None:
        gather = {1: Gather1, 7: Gather7, 8: Gather8}[picked.opset]()
        node = replace(read, operation=gather.replace(strict=picked.strict))
        selection = RowSelection(node, picked.axis, picked.input)
    return Append(one.variable, read, read, one.axis, selection, one.shape_is_read)


class _Refusal:
    """What makes the calls that plans do not, where there are no references: an error that says
    why.
    """

    def __init__(self, model: Model, appended: Sequence[Append]) -> None:
        self._model, self._appended = model, appended

    def __call__(self, inputs: Sequence[Array], state: Mapping[str, Any]) -> NoReturn:
        error = sys.exc_info()[1]
        if isinstance(error, UncorkError):  # what plans said of the call
            raise error
        rows = next(filter(None, (self._rows(one, inputs, state) for one in self._appended)), "")
        why = rows or (
            "its sizes, or the rows that it picks of variables, are outside of what the plans are "
            "for (inputs without elements have plans of their own: --shape NAME=0)"
        )
        way = "" if rows else "for such sizes (--shape) or "
        raise InputError(
            f"cannot be called so: {why}: compile the model {way}with its source (--with-source), "
            "or load its .xml",
            f"model '{self._model.name}'",
        )

    def _rows(self, append: Append, inputs: Sequence[Array], state: Mapping[str, Any]) -> str:
        """What is wrong with the rows that a call picks of a variable; "" where nothing is."""
        pick, value = append.selection, state.get(append.variable)
        if pick is None or value is None:
            return ""
        there, picks = value.shape[pick.axis], inputs[pick.input]
        name = f"input '{self._model.name_of_input(pick.input)}'"
        variable = f"variable '{append.variable}'"
        if append.shape_is_read and len(picks) != there:
            return (
                f"{name} picks {len(picks)} rows of {variable}, expected {there}, as many as it "
                "has, since layers read its shape"
            )
        low = -there if getattr(pick.node.operation, "counts_from_end", False) else 0
        outside = [int(row) for row in picks if not low <= row < there]
        if outside:
            return f"{name} picks row {outside[0]} of {variable}, expected {low} to {there - 1}"
        return ""


def _no_other() -> NoReturn:
    raise InputError("a compiled model does not make such a call: load its .xml")
