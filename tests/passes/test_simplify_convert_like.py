"""Conversions to the type of a tensor do not wait for the tensor."""

from __future__ import annotations

import numpy as np
import pytest

import uncork
from uncork.compiler.compile import compile_model
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
