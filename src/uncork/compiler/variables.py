"""`VariableState`: a variable of a model, to read, set and reset by name, as OpenVINO has it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct

from uncork.compiler.arguments import accept, present
from uncork.compiler.saved_state import read_saved, saved
from uncork.compiler.state import constant_value, is_computed
from uncork.compiler.state_storage import first_of
from uncork.errors import InputError, Label, shortened
from uncork.internal_ops.coded_rows import CodedRead, RowCoding
from uncork.ir.model import Model, Node
from uncork.ir.ports import ModelPort
from uncork.ops.state import Assign3, ReadValue3
from uncork.types import Array, Dimension, ElementType, PartialShape, TensorSpec

if TYPE_CHECKING:
    from uncork.compiler.compiled_model import CompiledModel


class _Variable(Struct, frozen=True):
    """What a model says of a variable: where it is read first (None: nowhere), what it may hold,
    and how it keeps that where its rows are kept in fewer bits.
    """

    name: str
    read: Node | None
    kept: TensorSpec
    coding: RowCoding | None = None

    @property
    def spec(self) -> TensorSpec:
        """What whoever asks is given."""
        return self.kept if self.coding is None else self.coding.plain(self.kept)

    def shown(self, kept: Array) -> Array:
        """A value that is kept, as whoever asks is given it."""
        return present(
            self.spec.element_type, kept if self.coding is None else self.coding.decode(kept)
        )

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
        _Variable(
            name,
            reads.get(name),
            _held(reads.get(name), assigned[name]),
            _coding_of(reads.get(name)),
        )
        for name in names
        if name in assigned
    ]


def _coding_of(read: Node | None) -> RowCoding | None:
    operation = None if read is None else read.operation
    return operation.coding if isinstance(operation, CodedRead) else None


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


def kept_variables(model: Model) -> list[tuple[str, TensorSpec]]:
    """The variables of a model that keep a value, each with what it may hold, as it is kept."""
    return [(variable.name, variable.kept) for variable in _variables(model)]


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
        return self._variable.shown(self._carrier())

    @state.setter
    def state(self, value: Any) -> None:
        """Set the value that the next call reads; a copy is kept.

        Raises InputError for another type or shape than the variable has.
        """
        variable = self._variable
        port = ModelPort((variable.name,), variable.spec.element_type, variable.spec.shape)
        array = accept(port, value, variable.where)
        self._keep(array.copy() if variable.coding is None else variable.coding.encode(array))

    def _keep(self, array: Array) -> None:
        """Set the value to an array as the variable keeps it."""
        compiled, variable = self._compiled, self._variable
        with compiled._turn.held():
            compiled._state.forget(variable.name)
            compiled._executor.set_value(variable.name, array, compiled._state)

    @property
    def storage(self) -> Array | None:
        """The array that the value of a variable that grows in place lies in, with space for more;
        None for a variable that is kept whole, or holds nothing yet.
        """
        kept: Any = self._compiled._state.get(self.name)
        return kept[0] if isinstance(kept, tuple) else None

    def truncate(self, count: int) -> None:
        """Keep the first `count` elements along the axis that the variable grows along: what calls
        have appended since is forgotten, and nothing is copied.

        Raises InputError where the variable has no such axis, or fewer elements.
        """
        compiled, name, where = self._compiled, self.name, self._variable.where
        axis = compiled._executor.growing_axes().get(name)
        if axis is None:
            raise InputError("does not grow along an axis: set its state", where)
        with compiled._turn.held():
            value = compiled._state.get(name)
            if isinstance(value, tuple):
                there = int(value[1][0])
            else:
                value = self._initial() if value is None else value
                there = value.shape[axis]
            InputError.when(
                isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= there,
                f"expected a number from 0 to {there}, of the elements along axis {axis} that "
                f"it has, got {count!r}",
                where,
            )
            if isinstance(value, tuple):
                compiled._state[name] = (value[0], np.array([count], np.int64), value[2])
            else:
                first = np.ascontiguousarray(first_of(value, axis, count)).copy()
                compiled._executor.set_value(name, first, compiled._state)

    def fork(self, other: VariableState) -> None:
        """Give another request's variable this value. What it lies in is shared until one of the
        two calls; then it is copied once.

        Raises InputError for a variable of another type or rank, and where only the next call can
        tell the value.
        """
        InputError.when(
            not isinstance(other, VariableState),
            f"expected a variable of another request, got {type(other).__name__}",
            self._variable.where,
        )
        mine, theirs = self._compiled, other._compiled
        if mine.model is not theirs.model or self.name != other.name:
            other.state = self.state
            return
        with mine._turn.held():
            lent = mine._state.lend(self.name) if self.name in mine._state else None
        with theirs._turn.held():
            if lent is None:
                theirs._state.forget(other.name)
            elif mine is not theirs:
                theirs._state.borrow(other.name, *lent)

    def save(self) -> bytes:
        """The value as bytes, which `load` takes here or in another process. Raises InputError
        where only the next call can tell it.
        """
        return saved({self.name: (self._variable.kept.element_type, self._carrier())})

    def load(self, data: bytes) -> None:
        """Set the value from bytes that `save` gave. Raises InputError for others, and for a value
        of another type or shape.
        """
        values = read_saved(data)
        InputError.when(
            len(values) != 1,
            f"expected bytes of one variable, got {len(values)}: load_state() takes them",
            self._variable.where,
        )
        ((element_type, array),) = values.values()
        self._set(element_type, array)

    def _set(self, element_type: ElementType, array: Array) -> None:
        variable, wanted = self._variable, self._variable.kept
        InputError.when(
            element_type is not wanted.element_type,
            f"expected {wanted.element_type}, got {element_type}",
            variable.where,
        )
        port = ModelPort((variable.name,), element_type, wanted.shape)
        self._keep(accept(port, present(element_type, array), variable.where).copy())

    def _carrier(self) -> Array:
        """A copy of what the next call reads, as it is kept."""
        compiled = self._compiled
        with compiled._turn.held():
            value = compiled._executor.value_of(self.name, compiled._state)
            copy: Array = (self._initial() if value is None else value).copy()
            return copy

    def reset(self) -> None:
        """Have the next call read the initial value."""
        with self._compiled._turn.held():
            self._compiled._state.forget(self.name)

    def _initial(self) -> Array:
        model = self._compiled.executor.model  # another one, maybe, since an exchange
        variable = next(one for one in _variables(model) if one.name == self.name)
        if variable.read is None:
            raise InputError("has no value before the first call", variable.where)
        InputError.when(
            is_computed(model, variable.read),
            "has no value before the first call, which computes its initial value",
            variable.where,
        )
        return constant_value(model, variable.read)

    def __repr__(self) -> str:
        return f"<VariableState '{self.name}': {self._variable.spec}>"


def saved_state(compiled: CompiledModel) -> bytes:
    """The values of all variables as bytes; of those that have none yet nothing."""
    values = {}
    for variable in variable_states(compiled):
        if variable.name in compiled._state:
            values[variable.name] = variable._variable.kept.element_type, variable._carrier()
    return saved(values)


def load_state(compiled: CompiledModel, data: bytes) -> None:
    """Set all variables from such bytes; those without a value in them are reset. Nothing is
    changed where one does not fit.
    """
    values = read_saved(data)
    variables = {variable.name: variable for variable in variable_states(compiled)}
    unknown = [name for name in values if name not in variables]
    if unknown:
        raise InputError(
            f"the saved state has a variable '{shortened(unknown[0])}', which the model has not",
            f"model '{compiled.model.name}'",
        )
    trial = compiled.new_request()
    for variable in variable_states(trial):
        if variable.name in values:
            variable._set(*values[variable.name])
    for variable in variable_states(trial):
        variable.fork(variables[variable.name])


def forked(compiled: CompiledModel) -> CompiledModel:
    """A new request whose variables have the values of these."""
    result = compiled.new_request()
    for mine, theirs in zip(variable_states(compiled), variable_states(result), strict=True):
        mine.fork(theirs)
    return result


def variable_states(compiled: CompiledModel) -> list[VariableState]:
    """The variables of a compiled model."""
    return [VariableState(compiled, variable) for variable in _variables(compiled.executor.model)]
