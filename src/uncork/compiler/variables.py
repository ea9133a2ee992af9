"""`VariableState`: a variable of a model, to read, set and reset by name, as OpenVINO has it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from uncork.compiler.arguments import accept, present
from uncork.compiler.state import constant_value, is_computed
from uncork.errors import InputError, Label, shortened
from uncork.ir.model import Model, Node
from uncork.ir.ports import ModelPort
from uncork.ops.state import Assign3, ReadValue3
from uncork.types import Array, Dimension, PartialShape, TensorSpec

if TYPE_CHECKING:
    from uncork.compiler.compiled_model import CompiledModel


class _Variable(Struct, frozen=True):
    """What a model says of a variable: where it is read first (None: nowhere), what it may hold."""

    name: str
    read: Node | None
    spec: TensorSpec

    @property
    def where(self) -> Label:
        """The name of the variable in messages."""
        layer = "" if self.read is None else self.read.name
        return Label(f"variable '{shortened(self.name)}'", layer)


def _variables(model: Model) -> list[_Variable]:
    """The variables that keep a value, in the order in which the model names them.

    One that is never assigned keeps none: every call reads its initial value.
    """
    reads: dict[str, Node] = {}
    assigned: dict[str, TensorSpec] = {}
    names: dict[str, None] = {}
    for node in model.nodes:
        operation = node.operation
        if isinstance(operation, (ReadValue3, Assign3)):
            names[operation.variable_id] = None
        if isinstance(operation, ReadValue3):
            reads.setdefault(operation.variable_id, node)
        elif isinstance(operation, Assign3):
            assigned[operation.variable_id] = model.spec(node.inputs[0])
    return [
        _Variable(name, reads.get(name), _held(reads.get(name), assigned[name]))
        for name in names
        if name in assigned
    ]


def _held(read: Node | None, assigned: TensorSpec) -> TensorSpec:
    """What a variable may hold: what is read of it and what is assigned to it, of any size where
    these differ.
    """
    if read is None:
        return TensorSpec(assigned.element_type, assigned.shape)
    spec = read.outputs[0].spec
    if spec.rank is None or spec.rank != assigned.rank:
        return TensorSpec(spec.element_type, PartialShape())
    dims = [
        a if (a.low, a.high) == (b.low, b.high) else Dimension()
        for a, b in zip(spec.shape.dims, assigned.shape.dims, strict=True)
    ]
    return TensorSpec(spec.element_type, PartialShape(dims))


class VariableState:
    """A variable of a compiled model or of a request: what it keeps from one call to the next.

    >>> kept = {v.name: v.state for v in compiled.query_state()}  # doctest: +SKIP
    >>> for variable in compiled.query_state():                   # doctest: +SKIP
    ...     variable.state = kept[variable.name]
    """

    def __init__(self, compiled: CompiledModel, variable: _Variable) -> None:
        self._compiled, self._variable = compiled, variable

    @property
    def name(self) -> str:
        """The id that ReadValue and Assign name it by."""
        return self._variable.name

    @property
    def state(self) -> Array:
        """A copy of what the next call reads.

        Raises InputError where only that call can tell: an initial value that is computed.
        """
        compiled, variable = self._compiled, self._variable
        with compiled._turn.held():
            value = compiled._executor.value_of(variable.name, compiled._state)
            if value is None:
                value = self._initial()
            return present(variable.spec.element_type, value.copy())

    @state.setter
    def state(self, value: Any) -> None:
        """Set the value that the next call reads; a copy is kept.

        Raises InputError for another type or shape than the variable has.
        """
        compiled, variable = self._compiled, self._variable
        port = ModelPort((variable.name,), variable.spec.element_type, variable.spec.shape)
        array = accept(port, value, variable.where)
        with compiled._turn.held():
            compiled._executor.set_value(variable.name, array.copy(), compiled._state)

    @property
    def storage(self) -> Array | None:
        """The array that the value of a variable that grows in place lies in, with space for more;
        None for a variable that is kept whole, or holds nothing yet.
        """
        kept: Any = self._compiled._state.get(self.name)
        return kept[0] if isinstance(kept, tuple) else None

    def reset(self) -> None:
        """Have the next call read the initial value."""
        with self._compiled._turn.held():
            self._compiled._state.pop(self.name, None)

    def _initial(self) -> Array:
        variable, model = self._variable, self._compiled.model
        if variable.read is None:
            raise InputError("has no value before the first call", variable.where)
        if is_computed(model, variable.read):
            raise InputError(
                "has no value before the first call, which computes its initial value",
                variable.where,
            )
        return constant_value(model, variable.read)

    def __repr__(self) -> str:
        return f"<VariableState '{self.name}': {self._variable.spec}>"


def variable_states(compiled: CompiledModel) -> list[VariableState]:
    """The variables of a compiled model."""
    return [VariableState(compiled, variable) for variable in _variables(compiled.model)]
