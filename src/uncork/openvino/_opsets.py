"""The functions of an opset: `opset13.matmul(a, b, False, False)`, made from uncork's registry.

How each is called is said by `_signatures.py`; what is an attribute of the operation and what an
input, by the operation. Every function takes `name=`, the name of the layer.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from uncork.openvino._any import OVAny
from uncork.openvino._bodies import If, Loop, TensorIterator
from uncork.openvino._errors import as_runtime_errors, invalid_if
from uncork.openvino._node import Constant, Node, Parameter, Result, as_output
from uncork.openvino._ports import Output
from uncork.openvino._shapes import PartialShape, core_shape
from uncork.openvino._signatures import SIGNATURES
from uncork.openvino._types import element_of
from uncork.openvino._values import attribute_value
from uncork.ops import Operation, find, type_names
from uncork.ops._ports import REQUIRED, element_type, element_type_or_dynamic, shape
from uncork.types import ElementType

#: Functions whose name is not that of their operation.
_TYPES = {"absolute": "Abs", "ceil": "Ceiling", "logical_xor": "LogicalXor"}
#: Arguments that are attributes of another name.
_ATTRIBUTES = {
    "min_value": "min",
    "max_value": "max",
    "kernel_shape": "kernel",
    "broadcast_spec": "mode",
}
#: Arguments that hold several attributes by name.
_SEVERAL = ("attrs", "attributes")
#: What stands in an input that is left out where a later one is given.
_BLANKS: dict[str, tuple[Any, ElementType | None]] = {
    "max_output_boxes_per_class": (0, ElementType.i64),
    "iou_threshold": (0.0, ElementType.f32),
    "score_threshold": (0.0, ElementType.f32),
    "default_index": (-1, None),
    "attention_mask": (0.0, None),
}
#: Numbers for every axis of a window, where they are left out.
_OF_EVERY_AXIS = {"dilations": 1, "pads_begin": 0, "pads_end": 0}


class _Call:
    """One function: its name, from which opset on it is called so, and its arguments."""

    def __init__(self, text: str) -> None:
        match = re.fullmatch(r"(\d+) (\w+)\((.*)\)", text)
        assert match is not None, text
        self.since, self.name = int(match[1]), match[2]
        # The arguments are read as Python reads them; they are literals of this package.
        namespace: dict[str, Any] = {}
        exec(f"def call({match[3]}, name=None): pass", namespace)
        self.signature = inspect.signature(namespace["call"])
        self.arguments = [n for n in self.signature.parameters if n != "name"]


@functools.cache
def _calls() -> dict[str, list[_Call]]:
    """The functions by name, the newest form of each first."""
    calls: dict[str, list[_Call]] = {}
    for line in re.sub(r"\n\s+", " ", SIGNATURES).strip().splitlines():
        call = _Call(line)
        calls.setdefault(call.name, []).insert(0, call)
    return calls


@functools.cache
def _type_of() -> dict[str, str]:
    """The types of operations by their names in small letters."""
    return {name.lower(): name for name in type_names()}


def type_of_function(name: str) -> str | None:
    """The type of the operation that a function makes."""
    return _TYPES.get(name) or _type_of().get(name.replace("_", "").lower())


def _versions(type_name: str, opset: int) -> list[type[Operation]]:
    """The versions of an operation that are in force up to an opset, the newest first."""
    found: list[type[Operation]] = []
    for number in range(opset, 0, -1):
        kind = find(type_name, number)
        if kind is not None and kind not in found:
            found.append(kind)
    return found


def names_in(opset: int) -> list[str]:
    """The functions of an opset."""
    names = [n for n, calls in _calls().items() if any(c.since <= opset for c in calls)]
    more = [n for n, (since, _) in _OWN.items() if since <= opset]
    return sorted({*names, *more})


@functools.cache
def function(name: str, opset: int) -> Callable[..., Node]:
    """A function of an opset. Raises AttributeError where it has none of this name."""
    if name in _OWN and _OWN[name][0] <= opset:
        return _OWN[name][1]
    call = next((c for c in _calls().get(name, ()) if c.since <= opset), None)
    if call is None:
        later = sorted({c.since for c in _calls().get(name, ())})
        hint = f": it is in opset{later[0]} and later" if later else ""
        raise AttributeError(f"opset{opset} has no function '{name}'{hint}", name=name, obj=None)
    type_name = type_of_function(name)
    if type_name is None or not _versions(type_name, opset):
        raise AttributeError(f"opset{opset} has no function '{name}'", name=name, obj=None)
    made = _function(call, type_name, opset)
    made.__name__ = made.__qualname__ = name
    made.__signature__ = call.signature  # type: ignore[attr-defined]
    made.__doc__ = f"A layer of {type_name}, of opset{opset}."
    return made


def _function(call: _Call, type_name: str, opset: int) -> Callable[..., Node]:
    def make(*args: Any, **named: Any) -> Node:
        bound = call.signature.bind(*args, **named)
        bound.apply_defaults()
        given = dict(bound.arguments)
        name = given.pop("name")
        kinds = _versions(type_name, opset)
        with as_runtime_errors():
            kind = next((k for k in kinds if _suits(k, call)), kinds[0])
            attributes = _attributes(kind, given)
            sources = _sources(kind, given)
            kind.refuse_unknown(attributes, kind.attributes)
            return Node(kind(**attributes), sources, name)

    return make


def _suits(kind: type[Operation], call: _Call) -> bool:
    """Whether the arguments say every attribute that the operation has to be told."""
    needed = {n for n, a in kind.attributes.items() if a.default is REQUIRED}
    said = {_attribute_of(kind, n) for n in call.arguments}
    return needed <= said or any(n in call.arguments for n in (*_SEVERAL, "output_roi"))


def _attribute_of(kind: type[Operation], argument: str) -> str | None:
    """The attribute that an argument is; None for an input."""
    if argument == "merge_repeated" and argument not in kind.attributes:
        argument = "ctc_merge_repeated"
    argument = _ATTRIBUTES.get(argument, argument)
    return argument if argument in kind.attributes else None


def _attributes(kind: type[Operation], given: dict[str, Any]) -> dict[str, Any]:
    """The attributes among the arguments, which are taken out of them."""
    found: dict[str, Any] = {}
    for argument in list(given):
        if argument in _SEVERAL:
            for key, value in (given.pop(argument) or {}).items():
                found[key] = _attribute(kind, key, value)
            continue
        if argument in ("output_roi", "output_size") and "pooled_h" in kind.attributes:
            value = given.pop(argument)
            if value is not None:
                found["pooled_h"], found["pooled_w"] = (int(v) for v in value)
            continue
        name = _attribute_of(kind, argument)
        if name is not None:
            value = given.pop(argument)
            if value is not None:
                found[name] = _attribute(kind, name, value)
    for name, number in _OF_EVERY_AXIS.items():
        attribute = kind.attributes.get(name)
        if attribute is not None and attribute.default is REQUIRED and name not in found:
            found[name] = (number,) * len(found.get("strides", ()))
    return found


def _attribute(kind: type[Operation], name: str, value: Any) -> Any:
    if isinstance(value, OVAny):
        value = value.value
    declared = kind.attributes.get(name)
    if declared is not None and declared.kind in (element_type, element_type_or_dynamic):
        return element_of(value)
    if declared is not None and declared.kind is shape:
        return core_shape(value)
    return attribute_value(value)


def _sources(kind: type[Operation], given: Mapping[str, Any]) -> list[Output]:
    """The inputs among the arguments, in the operation's order."""
    values = list(given.items())
    if kind.inputs and kind.inputs[0].variadic:
        ((_, several),) = values
        return [as_output(value) for value in several]
    names = [port.name for port in kind.inputs]
    if set(given) <= set(names):  # where the names are the same, the order may differ
        values.sort(key=lambda item: names.index(item[0]))
    while values and values[-1][1] is None:
        values.pop()
    like = next((v for _, v in values if isinstance(v, (Node, Output))), None)
    sources: list[Output] = []
    for argument, value in values:
        if value is None:
            value = _blank(kind, argument, sources)
        is_number = isinstance(value, (bool, int, float)) and not isinstance(value, np.generic)
        port = kind.inputs[min(len(sources), len(kind.inputs) - 1)]
        same = like is not None and is_number and _type_is_shared(kind, port.type_variable)
        sources.append(as_output(value, as_output(like) if same else None))
    return sources


def _type_is_shared(kind: type[Operation], variable: str) -> bool:
    """Whether a type is that of several inputs, the first of them included."""
    return bool(variable) and kind.inputs[0].type_variable == variable


def _blank(kind: type[Operation], argument: str, before: Sequence[Output]) -> Constant:
    invalid_if(
        argument not in _BLANKS, f"argument '{argument}' is left out, and one behind it is given"
    )
    value, element = _BLANKS[argument]
    if element is None:
        element = before[1 if argument == "default_index" else 0].spec.element_type
    return Constant(value, element_type=element)


# ---- functions of their own


def parameter(shape: Any, dtype: Any = np.float32, name: str | None = None) -> Parameter:
    """An input of a model."""
    with as_runtime_errors():
        made = Parameter(dtype, shape, name)
    if name:
        made.output(0).set_names([name])
    return made


def constant(
    value: Any, dtype: Any = None, shared_memory: bool = False, name: str | None = None
) -> Constant:
    """A constant of an array, numbers, texts or a tensor; of `dtype` where one is given."""
    if isinstance(shared_memory, str):  # before opset13 the name is the third
        shared_memory, name = False, shared_memory
    with as_runtime_errors():
        return Constant(value, shared_memory, name, element_type=dtype)


def result(data: Any, name: str | None = None) -> Result:
    """An output of a model."""
    return Result(data, name)


def assign(new_value: Any, variable_id: str, name: str | None = None) -> Node:
    """Set a variable when the call is done."""
    return Node.of_type("Assign", 6, [as_output(new_value)], {"variable_id": variable_id}, name)


def read_value(*args: Any, name: str | None = None, **named: Any) -> Node:
    """Read a variable: `(init_value, variable_id, type, shape)`, or without the first, or without
    the last two.
    """
    given = list(args)
    initial = named.pop("init_value", None)
    if given and isinstance(given[0], (Node, Output, np.ndarray)):
        initial = given.pop(0)
    keys = ("variable_id", "variable_type", "variable_shape")
    said = {**dict(zip(keys, given, strict=False)), **named}
    if isinstance(said.get("variable_shape"), str) and name is None and len(said) == 3:
        said["variable_shape"] = PartialShape(said["variable_shape"])
    sources = [] if initial is None else [as_output(initial)]
    if "variable_type" not in said:
        return Node.of_type("ReadValue", 3, sources, {"variable_id": said["variable_id"]}, name)
    attributes = {
        "variable_id": said["variable_id"],
        "variable_type": element_of(said["variable_type"]),
        "variable_shape": core_shape(said.get("variable_shape", PartialShape.dynamic())),
    }
    return Node.of_type("ReadValue", 6, sources, attributes, name)


_OWN: dict[str, tuple[int, Callable[..., Node]]] = {
    "parameter": (1, parameter),
    "constant": (1, constant),
    "result": (1, result),
    "assign": (3, assign),
    "read_value": (3, read_value),
    "tensor_iterator": (1, TensorIterator),
    "loop": (5, Loop),
    "if_op": (8, If),
}


def opset(number: int) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of the module of an opset."""

    def find_function(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"opset{number} has no attribute '{name}'")
        return function(name, number)

    return find_function, lambda: names_in(number)
