"""ReadValue and Assign: attributes of the module that keep their value from call to call."""

from __future__ import annotations

from uncork.export.torch.names import identifier
from uncork.export.torch.registry import lowers
from uncork.export.torch.writer import Value, Writer
from uncork.ops.state import Assign3, ReadValue3


def _attribute(w: Writer, identifier_of: str) -> str:
    states = w.program.states
    if identifier_of not in states:
        name = f"state_{identifier(identifier_of)}"
        while name in states.values():
            name += "_"
        states[identifier_of] = name
    return states[identifier_of]


@lowers("ReadValue")
def read_value(w: Writer, op: ReadValue3, initial: Value | None) -> str:
    """The value that the last call kept, or the first value."""
    if w.is_body:
        w.refuse("a variable that is read in a body")
    name = _attribute(w, op.variable_id)
    spec = w.outputs[0]
    if initial is None:
        if spec.rank is None:
            w.refuse("a variable of unknown rank without a first value")
        sizes = [d.static_size or 0 for d in spec.shape]
        first = f"torch.zeros({sizes}, dtype={w.dtype(spec.element_type)}{w.on_device()})"
    else:
        first = w(initial)
    return f"{first} if self.{name} is None else self.{name}"


@lowers("Assign")
def assign(w: Writer, op: Assign3, value: Value) -> Value:
    """The value, kept in an attribute when the call is done."""
    if w.is_body:
        w.refuse("a variable that is assigned in a body")
    name = _attribute(w, op.variable_id)
    text = w(value)
    w.program.kept.append(f"self.{name} = {text}.detach()")
    return value
