"""The executor of a compiled model that has variables."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from typing import NoReturn

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
    references = references or _refuse
    grown = {one.variable: one for one in known.grown}
    reads = [node for node in model.nodes if isinstance(node.operation, ReadValue3)]
    values = tuple(node for node in reads if node.operation.variable_id not in grown)  # type: ignore[union-attr]
    read_of = {node.operation.variable_id: node for node in reads}  # type: ignore[union-attr]
    appended = tuple(_append(read_of[name], one) for name, one in grown.items())
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


def _refuse(inputs: Sequence[Array], state: object) -> NoReturn:
    """Say what plans said of a call: there are no references."""
    error = sys.exc_info()[1]
    if isinstance(error, UncorkError):
        raise error
    raise InputError("a compiled model does not make such a call: load its .xml")


def _no_other() -> NoReturn:
    raise InputError("a compiled model does not make such a call: load its .xml")
