"""Constants of a model replaced by others of the same shapes, such as trained weights."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from msgspec.structs import replace

from uncork.compiler.arguments import did_you_mean
from uncork.errors import InputError, Problem, UnsupportedError
from uncork.export.onnx.files import given_model
from uncork.ir.bodies import graphs_of, with_graphs
from uncork.ir.model import Model, Node, all_nodes
from uncork.ops._body import SubGraphOperation
from uncork.ops.parameter import Const
from uncork.storage import encode
from uncork.surgery._model import checked
from uncork.types import Array, ElementType


def with_constants(model: Model | str | os.PathLike[str], values: Mapping[str, Any]) -> Model:
    """The model with some constants replaced, by the names of their layers.

    Keys of a torch module's state (`to_torch(model).state_dict()`) are names, too, and its tensors
    are values. Shapes must be the constants' own. Floats are rounded to the constant's type;
    integers must be numbers of it. Raises InputError with everything that is wrong.
    """
    model = given_model(model)
    found: dict[int, Array] = {}
    problems: list[Problem] = []
    by_name = _constants(model)
    keys: Mapping[str, str] | None = None
    for name, value in values.items():
        nodes = by_name.get(name, [])
        if not nodes:
            keys = _keys(model) if keys is None else keys
            nodes = by_name.get(keys.get(name, ""), [])
        if len(nodes) != 1:
            problems.append(Problem(f"'{name}'", _unknown(name, nodes, by_name)))
            continue
        if id(nodes[0].operation) in found:
            problems.append(
                Problem(f"'{name}'", f"names {nodes[0].label}, which another name gives")
            )
            continue
        operation = nodes[0].operation
        assert isinstance(operation, Const)
        try:
            found[id(operation)] = _fitting(operation, as_array(value))
        except InputError as error:
            problems.append(Problem(f"'{name}'", error.message))
    InputError.when_any(model.source, problems)
    return checked(with_values(model, found))


def _constants(model: Model) -> dict[str, list[Node]]:
    """Every constant, those of bodies too, by the names of their layers."""
    result: dict[str, list[Node]] = {}
    for node in all_nodes(model):
        if isinstance(node.operation, Const):
            result.setdefault(node.name, []).append(node)
    return result


def _keys(model: Model) -> Mapping[str, str]:
    """Names of layers by the keys that their constants have in the model's torch module."""
    from uncork.export.torch.model import torch_source

    try:
        return torch_source(model, approximate=True).layers
    except UnsupportedError:
        return {}


def _unknown(name: str, nodes: list[Node], by_name: Mapping[str, list[Node]]) -> str:
    if nodes:
        return f"is the name of {len(nodes)} constants (ids {', '.join(str(n.id) for n in nodes)})"
    return f"the model has no such constant{did_you_mean(name, list(by_name))}"


def as_array(value: Any) -> Array:
    """The array of an object that holds numbers, such as a torch tensor."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        if str(value.dtype) == "torch.bfloat16":
            value = value.float()
        value = value.numpy()
    return np.asarray(value)


def _fitting(constant: Const, array: Array) -> Array:
    """The array in the carrier of the constant's type."""
    element_type, expected = constant.element_type, constant.shape.static
    InputError.when(
        array.shape != tuple(expected), f"expected shape {list(expected)}, got {list(array.shape)}"
    )
    kind = array.dtype.kind
    InputError.when(
        element_type is ElementType.string or kind not in "fiub",
        f"expected numbers for {element_type}, got {array.dtype}",
    )
    if element_type.is_float and element_type.is_native:
        InputError.when(kind != "f", f"expected floats for {element_type}, got {array.dtype}")
        with np.errstate(over="ignore"):
            return array.astype(element_type.dtype)
    if element_type is ElementType.bf16 and kind == "f":
        return encode(array.astype(np.float32), element_type)
    carried = array.astype(element_type.dtype)
    InputError.when(
        not np.array_equal(carried, array) or (kind == "f"),
        f"expected numbers of {element_type}, got {array.dtype} with others",
    )
    return carried


def with_values(model: Model, values: Mapping[int, Array]) -> Model:
    """The model, and its bodies, with new values of constants; keys are the identities of the old
    ones.
    """
    return replace(model, nodes=tuple(_replaced(n, values) for n in model.nodes))


def _with_bodies(node: Node, values: Mapping[int, Array]) -> Node:
    """A layer with other constants in its bodies."""
    operation = node.operation
    assert isinstance(operation, SubGraphOperation)
    made = with_graphs(operation, lambda body: with_values(body, values))
    return replace(node, operation=made, bodies=graphs_of(made))


def _replaced(node: Node, values: Mapping[int, Array]) -> Node:
    if isinstance(node.operation, SubGraphOperation):
        inside = (n for _, body in node.bodies for n in all_nodes(body))
        return (
            _with_bodies(node, values) if any(id(n.operation) in values for n in inside) else node
        )
    value = values.get(id(node.operation))
    if value is None:
        return node
    assert isinstance(node.operation, Const)
    old = node.operation
    array = np.ascontiguousarray(value).reshape(old.shape.static)
    constant = Const.of_array(old.element_type, array)
    return replace(node, operation=constant)
