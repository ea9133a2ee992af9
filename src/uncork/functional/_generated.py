"""The functions that nobody has written by hand: one for each other operation, made of what the
operation says of its inputs and attributes.
"""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from uncork.functional._arguments import Unsaid, bound
from uncork.functional._call import Call
from uncork.functional._native import one, several
from uncork.ops import Operation, versions_of
from uncork.ops._modules import MODULES
from uncork.ops._ports import FLOAT, INTEGER, REQUIRED, Input
from uncork.types import ElementType

#: What needs a graph around it.
_NO_FUNCTIONS = frozenset(
    {"Parameter", "Result", "Const", "If", "Loop", "TensorIterator", "ReadValue", "Assign"}
)
#: What gives as many results as it is told to.
_PARTS = frozenset({"Split", "VariadicSplit"})
#: Names that do not follow from the types: as OpenVINO's and PyTorch's Python have them.
_NAMES = {
    "MatMul": "matmul",
    "SoftMax": "softmax",
    "SoftPlus": "softplus",
    "SoftSign": "softsign",
    "ReLU": "relu",
    "PReLU": "prelu",
    "HSwish": "hswish",
    "HSigmoid": "hsigmoid",
    "CumSum": "cumsum",
    "TopK": "topk",
    "Range": "range_",
    "Round": "round_",
    "Slice": "slice_",
    "Xor": "xor_",
    "NV12toBGR": "nv12_to_bgr",
    "NV12toRGB": "nv12_to_rgb",
    "I420toBGR": "i420_to_bgr",
    "I420toRGB": "i420_to_rgb",
    "ExperimentalDetectronTopKROIs": "experimental_detectron_topk_rois",
    "Col2Im": "col2im",
    "IsNaN": "is_nan",
}
#: How the documentation of each begins, after the operation.
NAMED = " on plain arrays: see the page of operations."
_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def name_of(type_name: str) -> str:
    """The function's name for an operation: `reduce_sum` for ReduceSum."""
    return _NAMES.get(type_name) or _WORDS.sub("_", type_name).lower()


#: Types of operations by the names of their functions.
TYPES = {name_of(type_name): type_name for type_name in MODULES if type_name not in _NO_FUNCTIONS}


def operation_function(name: str) -> Callable[..., Any]:
    """The function of the operation of a name."""
    versions = versions_of(TYPES[name])
    operation = versions[max(versions)]
    describe = _described(name, operation)
    if any(port.variadic for port in operation.inputs):
        # How many arrays there are belongs to the call: nothing is remembered of it.
        return _by_references(describe, operation)
    single = len(operation.outputs) == 1 and operation.type_name not in _PARTS
    return one(describe) if single else several(describe)


def _described(name: str, operation: type[Operation]) -> Callable[..., Call]:
    """The function that describes a call, with the signature that callers see."""

    def describe(*args: Any, **options: Any) -> Call:
        values = bound(name, signature, args, options)
        call = Call(name, operation.type_name, operation.opset, values["strict"])
        _take_inputs(call, operation, values)
        given = {own: values[own] for own in operation.attributes if values[own] is not _UNSAID}
        return call.with_attributes(**given)

    parameters = [_parameter(port) for port in operation.inputs]
    # A parameter with a default may come before none without one.
    for i, parameter in reversed([*enumerate(parameters)][:-1]):
        later = parameters[i + 1]
        if parameter.default is None and later.default is inspect.Parameter.empty:
            parameters[i] = parameter.replace(default=inspect.Parameter.empty)
    required = [n for n, a in operation.attributes.items() if a.default is REQUIRED]
    optional = [n for n in operation.attributes if n not in required]
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters += [inspect.Parameter(n, keyword) for n in required]
    parameters += [
        inspect.Parameter(n, keyword, default=_shown(operation.attributes[n].default))
        for n in optional
    ]
    parameters.append(inspect.Parameter("strict", keyword, default=False))
    signature = inspect.Signature(parameters)
    describe.__name__ = describe.__qualname__ = name
    describe.__signature__ = signature  # type: ignore[attr-defined]
    describe.__module__ = "uncork.functional"
    describe.__doc__ = _documentation(operation)
    return describe


_UNSAID = Unsaid()


def _shown(default: Any) -> Any:
    """A default as callers see it: values that Python writes as they are, else the operation's."""
    plain = isinstance(default, (bool, int, float, str, tuple, type(None)))
    return default if plain and default is not None else _UNSAID


def _parameter(port: Input) -> inspect.Parameter:
    if port.variadic:
        return inspect.Parameter(port.name, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    default = None if port.optional else inspect.Parameter.empty
    return inspect.Parameter(port.name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default)


def _documentation(operation: type[Operation]) -> str:
    text = inspect.cleandoc(operation.__doc__ or "").strip()
    label = f"{operation.type_name}-{operation.opset}"
    return f"{label}{NAMED}\n\n{text}".strip()


def _take_inputs(call: Call, operation: type[Operation], values: dict[str, Any]) -> None:
    """The arguments as inputs of the operation."""
    typed: dict[str, str] = {}
    counted = Counter(port.type_variable or port.name for port in operation.inputs)
    for port in operation.inputs:
        value = values[port.name]
        several_of = (
            [(f"{port.name}[{i}]", each) for i, each in enumerate(_listed(call, port, value))]
            if port.variadic
            else [(port.name, value)]
        )
        for name, each in several_of:
            like = typed.get(port.type_variable) if port.type_variable else None
            listed = _type_of_lists(port)
            if listed is ElementType.i64 and counted[port.type_variable or port.name] == 1:
                call.integers.add(name)
                if not port.ids:
                    call.settings.add(name)
            call.typed(name, each, like, listed)
            if each is not None and port.type_variable:
                typed.setdefault(port.type_variable, name)


def _listed(call: Call, port: Input, value: Any) -> list[Any]:
    if not isinstance(value, (list, tuple)):
        raise call.error(
            f"input '{port.name}': expected a list of arrays, got {type(value).__name__}",
            input=port.name,
        )
    return [*value]


def _type_of_lists(port: Input) -> ElementType | None:
    """The type of numbers that have none of their own: i64 where the port takes integers alone."""
    integers = port.types <= INTEGER and ElementType.i64 in port.types
    if integers:
        return ElementType.i64
    return ElementType.f32 if port.types <= FLOAT and ElementType.f32 in port.types else None


def _by_references(describe: Callable[..., Call], operation: type[Operation]) -> Callable[..., Any]:
    """The function of an operation of any number of inputs, which the reference computes."""

    def function(*args: Any, **options: Any) -> Any:
        results: list[np.ndarray[Any, Any]] = describe(*args, **options).evaluate()
        return results[0] if len(operation.outputs) == 1 else tuple(results)

    for own in ("__name__", "__qualname__", "__doc__", "__module__"):
        setattr(function, own, getattr(describe, own))
    function.__signature__ = inspect.signature(describe)  # type: ignore[attr-defined]
    return function
