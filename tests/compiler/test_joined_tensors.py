"""Tensors that a Concat joins lie beside each other where kernels can make them there: the results
stay, and the plan says which Concats have nothing to do.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import uncork
from uncork.ir.model import Source
from uncork.kernels.kernel_spec import KernelSpec
from uncork.kernels.runtime.kernel_cache import CannotCompile, ObjectStore
from uncork.kernels.runtime.target import Target

Made = Callable[[uncork.Builder, Source], "dict[str, Source]"]
#: Rows of a tensor of one line of the cache each, and of rows that are none.
ROW, RAGGED = 16, 5


def relu(builder: uncork.Builder, x: Source, times: float = 1.0) -> Source:
    """A tensor that a kernel makes."""
    (scaled,) = builder.add("Multiply", 1, x, builder.constant(np.array([times], np.float32)))
    # A kernel of its own, with which the next one is not fused.
    (sums,) = builder.add("CumSum", 3, scaled, builder.constant(np.int64(1)))
    return sums


def concat(builder: uncork.Builder, *parts: Source, axis: int = 1, name: str) -> Source:
    return builder.add("Concat", 1, *parts, axis=axis, name=name)[0]


def end(builder: uncork.Builder, x: Source) -> Source:
    """What reads a tensor, so that it is not a result itself."""
    return builder.add("CumSum", 3, x, builder.constant(np.int64(0)))[0]


def once(builder: uncork.Builder, x: Source) -> dict[str, Source]:
    a, b = relu(builder, x), relu(builder, x, 2)
    return {"joined": concat(builder, a, b, name="joined"), "a": a, "b": b}


def grown(builder: uncork.Builder, x: Source) -> dict[str, Source]:
    """As DenseNets have it: each joins all before it."""
    parts = [relu(builder, x)]
    for number in range(3):
        last = concat(builder, *parts, name=f"before_{number}") if number else parts[0]
        first = builder.add(
            "Slice",
            8,
            last,
            *(builder.constant(np.array([n])) for n in (0, 4, 1, 1)),
        )[0]
        parts.append(relu(builder, first, number + 2))
    return {"joined": concat(builder, *parts, name="joined")}


def nested(builder: uncork.Builder, x: Source) -> dict[str, Source]:
    inner = concat(builder, relu(builder, x), relu(builder, x, 2), name="inner")
    return {"joined": concat(builder, relu(builder, x, 3), inner, name="joined")}


def seen_otherwise(builder: uncork.Builder, x: Source) -> dict[str, Source]:
    """A part is a view of what a kernel makes."""
    a = builder.add("Unsqueeze", 1, relu(builder, x), builder.constant(np.array([2])))[0]
    b = builder.add("Unsqueeze", 1, relu(builder, x, 2), builder.constant(np.array([2])))[0]
    return {"joined": concat(builder, a, b, name="joined")}


def twice(builder: uncork.Builder, x: Source) -> dict[str, Source]:
    a = relu(builder, x)
    return {"joined": concat(builder, a, a, name="joined")}


def of_an_input(builder: uncork.Builder, x: Source) -> dict[str, Source]:
    return {"joined": concat(builder, x, relu(builder, x), name="joined")}


def in_two_orders(builder: uncork.Builder, x: Source) -> dict[str, Source]:
    a, b = relu(builder, x), relu(builder, x, 2)
    first = concat(builder, b, a, name="first")
    return {"first": first, "joined": concat(builder, a, b, name="joined")}


def along_rows(builder: uncork.Builder, x: Source) -> dict[str, Source]:
    return {"joined": concat(builder, relu(builder, x), relu(builder, x, 2), axis=2, name="joined")}


def model_of(made: Made, shape: list[int | None]) -> uncork.Model:
    builder = uncork.Builder()
    x = builder.parameter("x", "f32", shape)
    for name, source in made(builder, x).items():
        builder.result(end(builder, source), f"end_{name}")
    return builder.model()


def held(model: uncork.Model, *shapes: tuple[int, ...]) -> dict[str, str]:
    """The kernels of the Concats, once results are those of the references."""
    compiled = uncork.compile_model(model)
    references = uncork.compile_model(model, backend="reference")
    for shape in shapes:
        x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
        for _ in range(2):
            for got, wanted in zip(compiled(x), references(x), strict=True):
                np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)
    return {s.layer: s.kernel for s in compiled.plan.steps if s.operation == "Concat-1"}


@pytest.mark.parametrize("made", [once, grown, nested, seen_otherwise])
def test_nothing_is_copied(made: Made) -> None:
    kernels = held(model_of(made, [1, 4, ROW]), (1, 4, ROW))
    assert kernels and set(kernels.values()) == {"view"}


@pytest.mark.parametrize("made", [twice, of_an_input, along_rows])
def test_what_is_copied(made: Made) -> None:
    assert "view" not in held(model_of(made, [1, 4, ROW]), (1, 4, ROW)).values()


def test_a_tensor_lies_at_one_place() -> None:
    kernels = held(model_of(in_two_orders, [1, 4, ROW]), (1, 4, ROW))
    assert kernels["joined"] == "view" and kernels["first"] != "view"


def test_parts_begin_at_lines_of_the_cache() -> None:
    assert "view" not in held(model_of(once, [1, 4, RAGGED]), (1, 4, RAGGED)).values()


def test_images_that_only_the_call_knows() -> None:
    kernels = held(model_of(once, [None, 4, ROW]), (1, 4, ROW), (3, 4, ROW))
    assert "view" not in kernels.values()


@pytest.mark.parametrize("made", [once, nested, in_two_orders])
def test_sizes_of_the_call(made: Made) -> None:
    """A room of open size; parts begin where the call says."""
    kernels = held(model_of(made, [1, None, ROW]), (1, 4, ROW), (1, 7, ROW), (1, 0, ROW))
    assert kernels["joined"] == "view"


def test_lines_of_open_rows() -> None:
    assert "view" not in held(model_of(once, [1, 4, None]), (1, 4, 16), (1, 4, 7)).values()


def test_a_result_is_the_callers_own() -> None:
    builder = uncork.Builder()
    x = builder.parameter("x", "f32", [1, 4, ROW])
    a, b = relu(builder, x), relu(builder, x, 2)
    builder.result(concat(builder, a, b, name="joined"), "joined")
    builder.result(a, "a")
    assert "view" not in held(builder.model(), (1, 4, ROW)).values()


def test_references_read_parts() -> None:
    """A part, and what is joined, before a layer without a kernel."""
    builder = uncork.Builder()
    x = builder.parameter("x", "f32", [1, 4, ROW])
    a, b = relu(builder, x), relu(builder, x, 2)
    joined = concat(builder, a, b, name="joined")
    for name, source in (("b", b), ("joined", joined)):
        shape = builder.constant(np.array([4, -1]))
        (rows,) = builder.add("Reshape", 1, source, shape, special_zero=False)
        (unique, *_) = builder.add("Unique", 10, rows, builder.constant(np.int64(0)))
        builder.result(unique, name)
    model = builder.model()
    assert held(model, (1, 4, ROW))["joined"] == "view"
    steps = uncork.compile_model(model).plan.steps
    assert {s.kernel for s in steps if s.operation == "Unique-10"} == {"reference"}


def test_the_profile_counts_no_copy() -> None:
    compiled = uncork.compile_model(model_of(once, [1, 4, ROW]))
    steps = {s.layer: s for s in compiled.profile(np.ones((1, 4, ROW), np.float32)).steps}
    assert (steps["joined"].kernel, steps["joined"].bytes) == ("view", 0)


@pytest.mark.parametrize("lacking", ["joined", "inner"])
def test_views_need_no_kernels(monkeypatch: pytest.MonkeyPatch, lacking: str) -> None:
    """Where no kernel of moves can be had, Concats that have nothing to do are views as well; what
    would lie in the room of one that has no kernel is a view of nothing.
    """
    refused = CannotCompile("it cannot be had here")

    def refusal(store: ObjectStore, spec: KernelSpec, target: Target) -> CannotCompile | None:
        return refused if "copy" in spec.name else None

    monkeypatch.setattr(ObjectStore, "refusal", refusal)

    def made(builder: uncork.Builder, x: Source) -> dict[str, Source]:
        inner = concat(builder, relu(builder, x), relu(builder, x, 2), name="inner")
        others = [relu(builder, x, 3)] if lacking == "inner" else [x]
        return {"joined": concat(builder, *others, inner, name="joined")}

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", uncork.UncorkWarning)
        kernels = held(model_of(made, [1, 4, ROW]), (1, 4, ROW))
    views = {"inner"} if lacking == "joined" else {"inner", "joined"}
    assert {layer for layer, kernel in kernels.items() if kernel == "view"} == views
    assert all(kernels[layer] == "reference" for layer in set(kernels) - views)
