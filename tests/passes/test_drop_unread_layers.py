"""Layers that no result needs cannot refuse a call."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import uncork
from uncork.compiler.compile import Backend, compile_model
from uncork.ir.bodies import GraphBody
from uncork.ops._body import BodyInput, BodyMap, BodyOutput
from uncork.passes.drop_unread_layers import drop_unread_layers
from uncork.types import ElementType, PartialShape


def with_unread(name: str) -> uncork.Builder:
    """-x, and beside it a Concat that takes no x but square ones, which nobody reads."""
    b = uncork.Builder(name)
    x = b.parameter("x", "f32", [None, None])
    (turned,) = b.add("Transpose", 1, x, b.constant(np.array([1, 0])))
    b.add("Concat", 1, x, turned, axis=1)
    b.result(b.add("Negative", 1, x)[0], "y")
    return b


def in_a_branch() -> uncork.Builder:
    inner = with_unread("inner").model()
    joined = BodyMap(GraphBody(inner), (BodyInput(1, 0),), (BodyOutput(0, 0),))
    outer = uncork.Builder("outer")
    condition, x = outer.parameter("c", "boolean", []), outer.parameter("x", "f32", [None, None])
    bodies = {"then_body": joined, "else_body": joined}
    outer.result(outer.add_with_bodies("If", 8, condition, x, bodies=bodies)[0], "y")
    return outer


@pytest.mark.parametrize("backend", ["cpu", "reference"])
@pytest.mark.parametrize("shape", [(2, 3), (3, 2), (2, 2), (0, 4)])
def test_sizes_that_only_they_refuse(backend: Backend, shape: tuple[int, int]) -> None:
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    plain = compile_model(with_unread("plain").model(), backend=backend)
    np.testing.assert_array_equal(plain(x)["y"], -x)
    branches = compile_model(in_a_branch().model(), backend=backend)
    for condition in (True, False):
        np.testing.assert_array_equal(branches(np.array(condition), x)["y"], -x)


def test_what_is_left() -> None:
    after = drop_unread_layers(with_unread("plain").model())
    assert [node.type_name for node in after.nodes] == ["Parameter", "Negative", "Result"]
    assert drop_unread_layers(after) is after
    outer = drop_unread_layers(in_a_branch().model())
    (branch,) = (node for node in outer.nodes if node.type_name == "If")
    for joined in branch.operation.bodies.values():  # type: ignore[union-attr]
        types = [node.type_name for node in joined.body.model.nodes]
        assert types == ["Parameter", "Negative", "Result"]
    assert drop_unread_layers(outer) is outer


def test_it_computes_what_its_file_computes(tmp_path: Path) -> None:
    model = with_unread("plain").model()
    uncork.write_model(model, tmp_path / "model.xml")
    x = np.ones((3, 2), np.float32)
    expected = uncork.load(tmp_path / "model.xml")(x)["y"]
    np.testing.assert_array_equal(compile_model(model)(x)["y"], expected)


def test_inputs_and_states_stay() -> None:
    b = uncork.Builder("state")
    x, unused = b.parameter("x", "f32", [2]), b.parameter("unused", "f32", [1])
    b.add("Abs", 1, unused)
    (before,) = b.add(
        "ReadValue",
        6,
        x,
        variable_id="v",
        variable_type=ElementType.f32,
        variable_shape=PartialShape([2]),
    )
    total = b.add("Add", 1, before, x)[0]
    b.add("Assign", 6, total, variable_id="v")
    b.result(b.add("Abs", 1, x)[0], "y")
    after = drop_unread_layers(b.model())
    kinds = ["Parameter", "Parameter", "ReadValue", "Add", "Assign", "Abs", "Result"]
    assert [node.type_name for node in after.nodes] == kinds
