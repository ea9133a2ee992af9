"""Conversions to the type of a tensor do not wait for the tensor."""

from __future__ import annotations

import numpy as np
import pytest

import uncork
from uncork.compiler.compile import Backend, compile_model
from uncork.ir.bodies import GraphBody
from uncork.ir.model import Source
from uncork.ops._body import BodyInput, BodyMap, BodyOutput
from uncork.passes.simplify_convert_like import simplify_convert_like


@pytest.mark.parametrize("like", ["f32", "i32", "f16", "boolean"])
def test_the_tensor_is_not_read(like: str) -> None:
    builder = uncork.Builder("like")
    x, other = builder.parameter("x", "f64", [3]), builder.parameter("other", like, [None])
    (computed,) = builder.add("Concat", 1, other, other, axis=0)
    builder.result(builder.add("ConvertLike", 1, x, computed, name="converted")[0], "y")
    built = builder.model()
    after = simplify_convert_like(built)
    assert [node.type_name for node in after.nodes] == ["Parameter", "Parameter", "Convert",
                                                        "Result"]  # fmt: skip
    given = np.array([1.5, 0.0, -2.75]), np.zeros(5, {"boolean": bool}.get(like, np.dtype("f4")))
    given = given[0], given[1].astype({"i32": "i4", "f16": "f2", "f32": "f4", "boolean": "?"}[like])
    expected = {"f32": [1.5, 0, -2.75], "f16": [1.5, 0, -2.75], "i32": [1, 0, -2],
                "boolean": [True, False, True]}[like]  # fmt: skip
    for backend in ("kernels", "reference"):
        options = {"backend": backend} if backend == "reference" else {}
        got = compile_model(built, **options)(*given)["y"]
        np.testing.assert_array_equal(got, expected)


def test_strict_conversions_stay_strict() -> None:
    builder = uncork.Builder("strict")
    x, other = builder.parameter("x", "i64", [2]), builder.parameter("other", "i32", [1])
    builder.result(builder.add("ConvertLike", 1, x, other, name="converted")[0], "y")
    compiled = compile_model(builder.model(), strict=True)
    one = np.zeros(1, np.int32)
    np.testing.assert_array_equal(compiled(np.array([1, -7]), one)["y"], [1, -7])
    with pytest.raises(uncork.UncorkError, match="the numbers of i32"):
        compiled(np.array([1, 1 << 40]), one)


def test_models_without_any_are_the_same_object() -> None:
    builder = uncork.Builder("none")
    builder.result(builder.add("ReLU", 1, builder.parameter("x", "f32", [2]))[0], "y")
    built = builder.model()
    assert simplify_convert_like(built) is built


def _like_of_repeated(builder: uncork.Builder, x: Source, numbers: Source) -> Source:
    """`x` in the type of a Tile, which refuses negative numbers."""
    (repeated,) = builder.add("Tile", 1, numbers, numbers)
    return builder.add("ConvertLike", 1, x, repeated)[0]


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_a_layer_whose_type_alone_is_read_refuses_nothing(backend: Backend) -> None:
    builder = uncork.Builder("unread")
    x, numbers = builder.parameter("x", "f32", [2]), builder.parameter("numbers", "i32", [1])
    builder.result(_like_of_repeated(builder, x, numbers), "y")
    compiled = compile_model(builder.model(), backend=backend)
    got = compiled(np.array([1.5, -2.5], np.float32), np.array([-2], np.int32))["y"]
    assert got.dtype == np.int32
    np.testing.assert_array_equal(got, [1, -2])


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_a_layer_whose_values_are_read_too_refuses_them(backend: Backend) -> None:
    builder = uncork.Builder("read")
    x, numbers = builder.parameter("x", "f32", [2]), builder.parameter("numbers", "i32", [1])
    (repeated,) = builder.add("Tile", 1, numbers, numbers)
    builder.result(builder.add("ConvertLike", 1, x, repeated)[0], "y")
    builder.result(repeated, "repeated")
    compiled = compile_model(builder.model(), backend=backend)
    with pytest.raises(uncork.InputError, match="expected no negative numbers, got"):
        compiled(np.zeros(2, np.float32), np.array([-2], np.int32))


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_bodies(backend: Backend) -> None:
    bodies = {}
    for name in ("then_body", "else_body"):
        inner = uncork.Builder(name)
        x, numbers = inner.parameter("x", "f32", [2]), inner.parameter("numbers", "i32", [1])
        inner.result(_like_of_repeated(inner, x, numbers))
        inputs = BodyInput(1, 0), BodyInput(2, 1)
        bodies[name] = BodyMap(GraphBody(inner.model()), inputs, (BodyOutput(0, 0),))
    builder = uncork.Builder("if")
    given = (
        builder.parameter("flag", "boolean", []),
        builder.parameter("x", "f32", [2]),
        builder.parameter("numbers", "i32", [1]),
    )
    builder.result(builder.add_with_bodies("If", 8, *given, bodies=bodies)[0], "y")
    compiled = compile_model(builder.model(), backend=backend)
    for flag in (True, False):
        got = compiled(flag, np.array([1.5, -2.5], np.float32), np.array([-2], np.int32))["y"]
        np.testing.assert_array_equal(got, [1, -2])
