"""Variables that only grow: what is new is written into their storage, and whoever can reads it
there.
"""

from __future__ import annotations

import itertools
import os
import threading
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import uncork
from uncork import PartialShape
from uncork.compiler import state_storage
from uncork.compiler.plan import Plan
from uncork.compiler.variables import VariableState
from uncork.ir.model import Source
from uncork.kernels.runtime.kernel_cache import ObjectStore

Array = np.ndarray[Any, Any]
BACKENDS = ("cpu", "reference")


class Net:
    """A model that grows layer by layer."""

    def __init__(self) -> None:
        self.builder = uncork.Builder("net")

    def add(self, type_name: str, opset: int, *inputs: Source, **attributes: Any) -> Source:
        return self.builder.add(type_name, opset, *inputs, **attributes)[0]

    def constant(self, value: Any, dtype: Any = np.int64) -> Source:
        return self.builder.constant(np.asarray(value, dtype))

    def input(self, name: str, element_type: str, shape: Sequence[int | None]) -> Source:
        return self.builder.parameter(name, element_type, list(shape))

    def read(
        self, name: str, shape: Sequence[int | None], *initial: Source, element_type: str = "f32"
    ) -> Source:
        return self.add(
            "ReadValue",
            6,
            *initial,
            variable_id=name,
            variable_type=element_type,
            variable_shape=PartialShape(shape),
        )

    def assign(self, name: str, value: Source) -> Source:
        return self.add("Assign", 6, value, variable_id=name)

    def grown(self, name: str, old: Source, new: Source, axis: int) -> Source:
        """What is there when `new` was appended."""
        whole = self.add("Concat", 1, old, new, axis=axis)
        self.assign(name, whole)
        return whole

    def picked(self, data: Source, rows: Source, axis: int = 0) -> Source:
        return self.add("Gather", 8, data, rows, self.constant(axis))

    def model(self, **results: Source) -> uncork.Model:
        for name, source in results.items():
            self.builder.result(source, name)
        return self.builder.model()


def both(model: uncork.Model) -> list[uncork.CompiledModel]:
    return [uncork.compile_model(model, backend=backend, threads=1) for backend in BACKENDS]


def storage(compiled: uncork.CompiledModel, name: str) -> Array:
    """Where the value of a variable lies."""
    array = kept(compiled, name).storage
    assert array is not None, "the variable does not grow in place"
    return array


def kept(compiled: uncork.CompiledModel, name: str) -> VariableState:
    """A variable of the model, by its name."""
    (variable,) = (v for v in compiled.query_state() if v.name == name)
    return variable


def of_every_call(plan: Plan) -> list[str]:
    """The operations of the steps that do not compute initial values."""
    steps = [step for step in plan.steps if not step.layer.startswith("<initial values>")]
    return [step.operation for step in steps]


def rows(*values: float) -> Array:
    return np.array(values, np.float32).reshape(-1, 1)


# ---- by hand


def list_of_rows(picks: bool = False) -> uncork.Model:
    """All rows so far, and how many there were before. Refuses ids outside a table of three rows,
    at its end.
    """
    net = Net()
    x, ids = net.input("x", "f32", [None, 1]), net.input("ids", "i64", [1])
    old = net.read("rows", [None, 1], net.constant(np.zeros((0, 1)), np.float32))
    count = net.add("ShapeOf", 3, old, output_type="i64")
    whole = net.grown("rows", old, x, 0)
    bag = net.add(
        "EmbeddingBagOffsetsSum",
        3,
        net.constant(np.ones((3, 1)), np.float32),
        ids,
        net.constant([0]),
    )
    return net.model(whole=whole, count=count, bag=bag)


GOOD, BAD = np.array([0]), np.array([7])


@pytest.mark.parametrize("backend", BACKENDS)
def test_rows_are_appended(backend: str) -> None:
    compiled = uncork.compile_model(list_of_rows(), backend=backend)
    for given, before, whole in (
        ([1, 2], 0, [1, 2]),
        ([3], 2, [1, 2, 3]),
        ([4, 5, 6], 3, [1, 2, 3, 4, 5, 6]),
    ):
        result = compiled(rows(*given), GOOD)
        assert result["count"].tolist() == [before, 1]
        assert result["whole"].tolist() == rows(*whole).tolist()
    compiled.reset_state()
    assert compiled(rows(9), GOOD)["whole"].tolist() == [[9]]


def test_a_row_is_written_into_the_storage() -> None:
    compiled = uncork.compile_model(list_of_rows())
    compiled(rows(1), GOOD)
    first = storage(compiled, "rows")
    for number in range(20):
        compiled(rows(number), GOOD)
    assert storage(compiled, "rows") is first


def test_a_storage_that_is_full_grows() -> None:
    """A few times in a thousand calls, and what was there stays."""
    compiled = uncork.compile_model(list_of_rows())
    seen: list[Array] = []
    for number in range(1000):
        result = compiled(rows(number), GOOD)["whole"]
        if not seen or seen[-1] is not storage(compiled, "rows"):
            seen.append(storage(compiled, "rows"))
    np.testing.assert_array_equal(result, rows(*range(1000)))
    assert 2 <= len(seen) <= 8
    assert all(len(later) >= 1.4 * len(earlier) for earlier, later in itertools.pairwise(seen))


def test_results_are_the_callers() -> None:
    compiled = uncork.compile_model(list_of_rows())
    first = compiled(rows(1, 2), GOOD)["whole"]
    first[...] = 7
    second = compiled(rows(3), GOOD)["whole"]
    assert second.tolist() == [[1], [2], [3]]
    compiled(rows(4), GOOD)
    assert second.tolist() == [[1], [2], [3]]


def test_a_call_that_fails_leaves_the_state() -> None:
    """In the middle of a generation: refused by a kernel, by its shape, and for want of a
    conversion.
    """
    compiled = uncork.compile_model(list_of_rows())
    compiled(rows(1, 2), GOOD)
    held = storage(compiled, "rows")
    for given, ids, message in (
        (rows(8), BAD, r"indices\[0\] is 7"),
        (np.zeros((1, 2), np.float32), GOOD, r"expected shape \[\?,1\]"),
        (rows(8).astype(str), GOOD, "x"),
    ):
        with pytest.raises(uncork.InputError, match=message):
            compiled(given, ids)
        assert storage(compiled, "rows") is held
        assert kept(compiled, "rows").state.tolist() == [[1], [2]]
    assert compiled(rows(3), GOOD)["whole"].tolist() == [[1], [2], [3]]


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("element_type", ["f32", "i8", "f16", "i64"])
def test_any_axis_and_type(axis: int, element_type: str) -> None:
    shape = [2, 3, 2]
    shape[axis] = None  # type: ignore[call-overload]
    net = Net()
    x = net.input("x", element_type, shape)
    old = net.read("v", shape, element_type=element_type)
    compiled, slow = both(net.model(whole=net.grown("v", old, x, axis)))
    expected = None
    generator = np.random.default_rng(0)
    for count in (1, 2, 1, 70, 3):
        size = [2, 3, 2]
        size[axis] = count
        given = generator.integers(-9, 9, size).astype(uncork.ElementType.parse(element_type).dtype)
        expected = given if expected is None else np.concatenate([expected, given], axis)
        # The initial value is all zeros, and dynamic dimensions are 0.
        np.testing.assert_array_equal(compiled(given)["whole"], expected)
        np.testing.assert_array_equal(slow(given)["whole"], expected)
    assert storage(compiled, "v").shape[axis] > 77


@pytest.mark.parametrize(("outer", "copies"), [([], 0), ([1], 0), ([2], 1)])
def test_layers_read_the_beginning_of_a_storage(outer: list[int], copies: int) -> None:
    """Where nothing lies between the rows, they are a tensor like any other."""
    net = Net()
    x = net.input("x", "f32", [*outer, None, 3])
    whole = net.grown("v", net.read("v", [*outer, None, 3]), x, len(outer))
    compiled, slow = both(
        net.model(
            top=net.add("ReduceMax", 1, whole, net.constant([-1, -2]), keep_dims=False), whole=whole
        )
    )
    generator = np.random.default_rng(3)
    for count in (2, 1, 90, 4):
        given = generator.standard_normal((*outer, count, 3)).astype(np.float32)
        for got, expected in zip(compiled(given), slow(given), strict=True):
            np.testing.assert_array_equal(got, expected)
    assert (
        sum(row.operation == "StateValue-0" and row.kernel != "view" for row in compiled.plan.steps)
        == copies
    )


def test_several_tensors_at_once() -> None:
    net = Net()
    x, y = net.input("x", "f32", [None, 1]), net.input("y", "f32", [None, 1])
    old = net.read("v", [None, 1])
    whole = net.add("Concat", 1, old, x, y, x, axis=0)
    net.assign("v", whole)
    compiled = uncork.compile_model(net.model(whole=whole))
    assert compiled(rows(1), rows(2, 3))["whole"].ravel().tolist() == [1, 2, 3, 1]
    assert compiled(rows(4), rows(5))["whole"].ravel().tolist() == [1, 2, 3, 1, 4, 5, 4]
    assert storage(compiled, "v").shape[0] > 7


def test_what_the_model_makes_of_the_value_may_be_appended() -> None:
    """The value doubles, and what is read of it is what was there before."""
    net = Net()
    x = net.input("x", "f32", [None, 1])
    old = net.read("v", [None, 1])
    net.grown(
        "v",
        old,
        net.add("Concat", 1, net.add("Multiply", 1, old, net.constant(2, np.float32)), x, axis=0),
        0,
    )
    compiled, slow = both(net.model(old=net.add("ReLU", 1, old)))
    for number, expected in enumerate(([], [1], [1, 2, 2], [1, 2, 2, 2, 4, 4, 3])):
        for each in (compiled, slow):
            assert each(rows(number + 1))["old"].ravel().tolist() == expected
    assert kept(compiled, "v").storage is not None


# ---- rows that are picked


def beams(axis: int = 1, shape_is_read: bool = False) -> uncork.Model:
    """[beam, step, 1]: what each beam has seen, of which some go on."""
    net = Net()
    x, picks = net.input("x", "f32", [None, None, 1]), net.input("picks", "i32", [None])
    old = net.read("v", [None, None, 1])
    more = {"shape": net.add("ShapeOf", 3, old, output_type="i64")} if shape_is_read else {}
    return net.model(whole=net.grown("v", net.picked(old, picks), x, axis), **more)


def step(*values: float) -> Array:
    return np.array(values, np.float32).reshape(-1, 1, 1)


def seen(
    compiled: uncork.CompiledModel, values: Sequence[float], picks: Sequence[int]
) -> list[list[float]]:
    found: list[list[float]] = compiled(step(*values), np.array(picks, np.int32))["whole"][
        :, :, 0
    ].tolist()
    return found


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("shape_is_read", [False, True])
def test_beams_are_picked(backend: str, shape_is_read: bool) -> None:
    compiled = uncork.compile_model(beams(shape_is_read=shape_is_read), backend=backend)
    assert seen(compiled, [1, 2], [0, 1]) == [[1], [2]]
    assert seen(compiled, [3, 4], [1, 0]) == [[2, 3], [1, 4]]
    assert seen(compiled, [5, 6], [1, 1]) == [[1, 4, 5], [1, 4, 6]]
    assert seen(compiled, [7, 8, 9], [0, 1, -1]) == [[1, 4, 5, 7], [1, 4, 6, 8], [1, 4, 6, 9]]
    assert seen(compiled, [1], [2]) == [[1, 4, 6, 9, 1]]
    assert seen(compiled, [2], [0]) == [[1, 4, 6, 9, 1, 2]]
    # A row that is not there is one of zeros: decisions on Gather.
    assert seen(compiled, [3, 3], [0, 5]) == [[1, 4, 6, 9, 1, 2, 3], [0, 0, 0, 0, 0, 0, 3]]


def test_beams_that_stay_cost_nothing_and_others_move() -> None:
    compiled = uncork.compile_model(beams())
    seen(compiled, [1, 2], [0, 1])
    first = storage(compiled, "v")
    seen(compiled, [1, 2], [0, 1])
    assert storage(compiled, "v") is first
    seen(compiled, [1, 2], [1, 0])
    assert storage(compiled, "v") is not first
    # The next rows that move take the storage that is left, and so on.
    seen(compiled, [1, 2], [1, 0])
    assert storage(compiled, "v") is first


def test_rows_that_move_take_memory_that_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = uncork.compile_model(beams())
    seen(compiled, [1, 2], [0, 1])
    monkeypatch.setattr(state_storage, "available", lambda: (4000, "this machine's memory"))
    with pytest.raises(
        uncork.InputError,
        match=r"variable 'v' would take 2,056 bytes as f32\[2,257,1\]; with 2,056 bytes",
    ):
        seen(compiled, [1, 2], [1, 0])
    assert seen(compiled, [3, 4], [0, 1]) == [[1, 3], [2, 4]]


def test_the_storage_for_rows_that_move_is_given_back() -> None:
    compiled = uncork.compile_model(beams())
    seen(compiled, [1, 2], [0, 1])
    spare = weakref.ref(storage(compiled, "v"))
    seen(compiled, [3, 4], [1, 0])
    assert spare() is not None, "the next rows that move take it"
    compiled.release_memory()
    assert spare() is None
    assert seen(compiled, [5, 6], [1, 0]) == [[1, 4, 5], [2, 3, 6]]


def test_picks_that_do_not_fit_are_refused() -> None:
    """Three beams are picked, and two go on: by the words of the layer in the file."""
    fast, slow = both(beams())
    messages = []
    for compiled in (fast, slow):
        seen(compiled, [1, 2], [0, 1])
        with pytest.raises(uncork.InputError) as caught:
            seen(compiled, [1, 2], [1, 0, 1])
        messages.append(str(caught.value))
        assert seen(compiled, [3, 4], [1, 0]) == [[2, 3], [1, 4]]
    assert messages[0] == messages[1]
    assert "Concat" in messages[0]


def test_a_call_that_fails_after_beams_have_moved() -> None:
    net = Net()
    x, picks, ids = (
        net.input("x", "f32", [None, None, 1]),
        net.input("picks", "i32", [None]),
        net.input("ids", "i64", [1]),
    )
    whole = net.grown("v", net.picked(net.read("v", [None, None, 1]), picks), x, 1)
    bag = net.add(
        "EmbeddingBagOffsetsSum",
        3,
        net.constant(np.ones((3, 1)), np.float32),
        ids,
        net.constant([0]),
    )
    compiled = uncork.compile_model(net.model(whole=whole, bag=bag))
    compiled(step(1, 2), np.array([0, 1], np.int32), GOOD)
    with pytest.raises(uncork.InputError, match=r"indices\[0\] is 7"):
        compiled(step(8, 8), np.array([1, 1], np.int32), BAD)
    whole_now = compiled(step(3, 4), np.array([1, 0], np.int32), GOOD)["whole"]
    assert whole_now[:, :, 0].tolist() == [[2, 3], [1, 4]]


# ---- what begins the state


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_computed_initial_value(backend: str) -> None:
    """A prefix of as many rows as the first call says."""
    net = Net()
    x, prefix = net.input("x", "f32", [None, 1]), net.input("prefix", "f32", [None, 1])
    old = net.read("v", [None, 1], net.add("Multiply", 1, prefix, net.constant(10, np.float32)))
    compiled = uncork.compile_model(net.model(whole=net.grown("v", old, x, 0)), backend=backend)
    assert compiled(rows(1), rows(5, 6))["whole"].ravel().tolist() == [50, 60, 1]
    assert compiled(rows(2), rows(7))["whole"].ravel().tolist() == [50, 60, 1, 2]
    compiled.reset_state()
    assert compiled(rows(3), rows(7))["whole"].ravel().tolist() == [70, 3]


def test_a_plan_tells_how_initial_values_are_computed() -> None:
    """Before any call, after one, and for sizes; only they are marked."""
    net = Net()
    x, prefix = net.input("x", "f32", [None, 1]), net.input("prefix", "f32", [None, 1])
    old = net.read("v", [None, 1], net.add("Multiply", 1, prefix, net.constant(10, np.float32)))
    whole = net.grown("v", old, x, 0)
    compiled = uncork.compile_model(net.model(y=net.add("Abs", 1, whole)))
    plans = [compiled.plan, compiled.plan_for(x=[1, 1], prefix=[7, 1])]
    compiled(rows(1), rows(5, 6))
    plans.append(compiled.plan)
    for plan in plans:
        marked = [step.layer.startswith("<initial values> ") for step in plan.steps]
        assert marked == [True] + [False] * (len(marked) - 1) and len(marked) > 1
        assert plan.steps[0].operation == "Multiply-1" and plan.steps[0].kernel != "reference"
        assert "steps of <initial values> run in calls that find" in str(plan)
    assert plans[1].steps[0].outputs == "f32[7,1]"
    net = Net()
    whole = net.grown("v", net.read("v", [None, 1]), net.input("x", "f32", [None, 1]), 0)
    assert "<initial values>" not in str(uncork.compile_model(net.model(whole=whole)).plan)


def test_an_initial_value_that_depends_on_another_variable() -> None:
    """References compute it, and say so; the calls after it have kernels."""
    net = Net()
    x = net.input("x", "f32", [1])
    first = net.read("first", [1], net.constant([3], np.float32))
    second = net.read("second", [1], net.add("Add", 1, first, x))
    net.assign("first", net.add("Add", 1, first, x))
    net.assign("second", net.add("Multiply", 1, second, x))
    compiled = uncork.compile_model(net.model(y=net.add("Subtract", 1, second, first)))
    assert "<initial values> depend on other variables: references make calls" in str(compiled.plan)
    two = np.array([2], np.float32)
    assert [compiled(two)["y"].item() for _ in range(3)] == [2, 5, 13]


@pytest.mark.parametrize("backend", BACKENDS)
def test_beside_a_variable_that_does_not_grow(backend: str) -> None:
    net = Net()
    x = net.input("x", "f32", [None, 1])
    whole = net.grown("v", net.read("v", [None, 1]), x, 0)
    total = net.add(
        "Add",
        1,
        net.read("sum", [1, 1], net.constant([[0.5]], np.float32)),
        net.add("ReduceSum", 1, x, net.constant([0]), keep_dims=True),
    )
    net.assign("sum", total)
    compiled = uncork.compile_model(net.model(whole=whole, total=total), backend=backend)
    assert compiled(rows(1, 2))["total"].tolist() == [[3.5]]
    result = compiled(rows(3))
    assert (result["whole"].ravel().tolist(), result["total"].tolist()) == ([1, 2, 3], [[6.5]])


# ---- what does not grow in place


def prepended(net: Net, old: Source, x: Source) -> Source:
    return net.add("Concat", 1, x, old, axis=0)


def last_three(net: Net, old: Source, x: Source) -> Source:
    """A window: what is assigned is not all there is."""
    whole = net.add("Concat", 1, old, x, axis=0)
    return net.add(
        "Slice",
        8,
        whole,
        net.constant([-3]),
        net.constant([2**31]),
        net.constant([1]),
        net.constant([0]),
    )


def changed(net: Net, old: Source, x: Source) -> Source:
    return net.add("Concat", 1, net.add("Negative", 1, old), x, axis=0)


@pytest.mark.parametrize(
    ("rule", "expected"), [(prepended, [3, 2, 1]), (last_three, [1, 2, 3]), (changed, [1, -2, 3])]
)
def test_what_only_looks_like_growing(rule: Any, expected: list[float]) -> None:
    net = Net()
    value = rule(net, net.read("v", [None, 1]), net.input("x", "f32", [None, 1]))
    net.assign("v", value)
    for compiled in both(net.model(v=value)):
        for number in (1, 2, 3):
            result = compiled(rows(number))["v"]
        assert result.ravel().tolist() == expected
        assert kept(compiled, "v").storage is None


def test_as_many_as_the_data_tell() -> None:
    """How many are appended is found as the call runs: no storage can be made ready for them."""
    net = Net()
    x = net.input("x", "f32", [None])
    places = net.add("Squeeze", 1, net.add("NonZero", 3, x, output_type="i64"), net.constant([0]))
    whole = net.grown("v", net.read("v", [None], element_type="i64"), places, 0)
    for compiled in both(net.model(whole=whole)):
        compiled(np.array([0, 1, 1], np.float32))
        assert compiled(np.array([3, 0, 0, 2], np.float32))["whole"].tolist() == [1, 2, 0, 3]


# ---- memory


def test_a_state_that_outgrows_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = uncork.compile_model(list_of_rows())
    compiled(rows(1, 2), GOOD)
    monkeypatch.setattr(state_storage, "available", lambda: (5000, "this machine's memory"))
    with pytest.raises(uncork.InputError) as caught:
        compiled(np.zeros((2000, 1), np.float32), GOOD)
    assert str(caught.value) == (
        "layer 'ReadValue_3' (ReadValue-6, id 3): variable 'rows' would take 8,008 bytes as "
        "f32[2002,1]; with 1,032 bytes that variables "
        "hold that is more than this machine's memory (5,000 bytes): call reset_state(), or give "
        "fewer at a time"
    )
    assert compiled(rows(3), GOOD)["whole"].tolist() == [[1], [2], [3]]
    # What fits is taken, without room to spare.
    assert compiled(np.zeros((900, 1), np.float32), GOOD)["whole"].shape == (903, 1)
    assert storage(compiled, "rows").shape == (903, 1)


# ---- a decoder


def decoder(groups: int = 1, spelled: bool = False, masked: bool = False) -> uncork.Model:
    """Attention of heads of 16 over keys and values of all steps so far; `groups` queries share a
    head of keys.
    """
    net = Net()
    heads, size = 2, 16
    q, k, v = (
        net.input(name, "f32", [None, heads * (groups if name == "q" else 1), None, size])
        for name in "qkv"
    )
    picks = net.input("picks", "i32", [None])
    batch = net.add(
        "Gather", 8, net.add("ShapeOf", 3, k, output_type="i64"), net.constant([0]), net.constant(0)
    )
    empty = net.add(
        "Broadcast",
        3,
        net.constant(0, np.float32),
        net.add("Concat", 1, batch, net.constant([heads, 0, size]), axis=0),
        mode="numpy",
    )
    whole = []
    for name, new in (("key", k), ("value", v)):
        old = net.picked(net.read(name, [None, heads, None, size], empty), picks)
        kept = net.grown(name, old, new, -2)
        if groups > 1:
            wide = net.add("Unsqueeze", 1, kept, net.constant([2]))
            wide = net.add(
                "Broadcast", 3, wide, net.constant([1, 1, groups, 1, 1]), mode="bidirectional"
            )
            kept = net.add(
                "Reshape", 1, wide, net.constant([0, heads * groups, -1, size]), special_zero=True
            )
        whole.append(kept)
    mask = [net.input("mask", "f32", [None, 1, None, None])] if masked else []
    if spelled:
        scores = net.add("MatMul", 1, q, whole[0], transpose_b=True)
        scores = net.add("Multiply", 1, scores, net.constant(0.25, np.float32))
        scores = net.add("Add", 1, scores, mask[0]) if mask else scores
        attended = net.add("MatMul", 1, net.add("SoftMax", 8, scores, axis=-1), whole[1])
    else:
        attended = net.add("ScaledDotProductAttention", 13, q, *whole, *mask, causal=False)
    return net.model(attended=attended)


@pytest.mark.parametrize("groups", [1, 3])
@pytest.mark.parametrize("spelled", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_attention_reads_keys_and_values_where_they_lie(
    groups: int, spelled: bool, masked: bool
) -> None:
    fast, slow = both(decoder(groups, spelled, masked))
    generator = np.random.default_rng(1)

    def numbers(*shape: int) -> Array:
        return generator.standard_normal(shape).astype(np.float32)

    length = 0
    for count, picks in (
        (20, [0, 1]),
        (1, [0, 1]),
        (1, [1, 1]),
        (1, [1, 0]),
        (7, [0, 1]),
        *[(1, [0, 1])] * 60,
    ):
        length += count
        given = [
            numbers(2, 2 * groups, count, 16),
            numbers(2, 2, count, 16),
            numbers(2, 2, count, 16),
            np.array(picks, np.int32),
        ]
        given += [numbers(2, 1, count, length)] if masked else []
        np.testing.assert_allclose(fast(*given)[0], slow(*given)[0], rtol=1e-4, atol=1e-5)
    kinds = of_every_call(fast.plan)
    assert sum(kind == "AppendState-0" for kind in kinds) == 2
    assert sum(kind == "FusedAttention-0" for kind in kinds) == 1
    assert not any(
        kind.startswith(("StateValue", "Concat", "Broadcast", "Gather")) for kind in kinds
    )


@pytest.mark.parametrize("groups", [1, 3])
@pytest.mark.parametrize("turned", [False, True])
def test_products_read_matrices_where_they_lie(groups: int, turned: bool) -> None:
    """The sine of scores makes this no attention that kernels know; keys may be kept turned."""
    net = Net()
    heads, size = 2, 16
    q = net.input("q", "f32", [None, heads * groups, None, size])
    shapes = {
        "key": [None, heads, size, None] if turned else [None, heads, None, size],
        "value": [None, heads, None, size],
    }
    whole = []
    for name, shape in shapes.items():
        start = net.constant(
            np.zeros([2 if n is None and axis == 0 else n or 0 for axis, n in enumerate(shape)]),
            np.float32,
        )
        kept = net.grown(
            name, net.read(name, shape, start), net.input(name, "f32", shape), shape.index(None, 1)
        )
        if groups > 1:
            target = (
                [0, heads * groups, size, -1]
                if turned and name == "key"
                else [0, heads * groups, -1, size]
            )
            wide = net.add("Unsqueeze", 1, kept, net.constant([2]))
            wide = net.add(
                "Broadcast", 3, wide, net.constant([1, 1, groups, 1, 1]), mode="bidirectional"
            )
            kept = net.add("Reshape", 1, wide, net.constant(target), special_zero=True)
        whole.append(kept)
    scores = net.add("Sin", 1, net.add("MatMul", 1, q, whole[0], transpose_b=not turned))
    fast, slow = both(
        net.model(attended=net.add("MatMul", 1, net.add("SoftMax", 8, scores, axis=-1), whole[1]))
    )
    generator = np.random.default_rng(2)
    for count in (20, 1, 1, 7, *[1] * 60):
        shape = (2, heads, count, size)
        query, key, value = (
            generator.standard_normal(s).astype(np.float32)
            for s in ((2, heads * groups, count, size), shape, shape)
        )
        given = [query, np.ascontiguousarray(key.swapaxes(2, 3)) if turned else key, value]
        np.testing.assert_allclose(fast(*given)[0], slow(*given)[0], rtol=1e-4, atol=1e-5)
    kinds = of_every_call(fast.plan)
    assert sum(kind == "StateProduct-0" for kind in kinds) == 2
    assert not any(
        kind.startswith(("StateValue", "Concat", "Broadcast", "MatMul")) for kind in kinds
    )


def test_a_prepared_decoder_makes_no_kernel_in_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = uncork.compile_model(decoder(2, masked=True))
    compiled.prepare()
    monkeypatch.setattr(ObjectStore, "address", refuse)
    length = 0
    for count in (9, 1, 1, 3, *[1] * 80):
        length += count
        q, kv, mask = (
            np.ones(s, np.float32)
            for s in ((2, 4, count, 16), (2, 2, count, 16), (2, 1, count, length))
        )
        np.testing.assert_allclose(
            compiled(q, kv, kv, np.array([0, 1], np.int32), mask)[0], 1, rtol=1e-6
        )


def refuse(*arguments: object) -> int:
    raise AssertionError("a kernel was asked for")


# ---- several states


def test_requests_and_threads_have_states_of_their_own() -> None:
    compiled = uncork.compile_model(list_of_rows())
    wrong: list[object] = []

    def generate(number: int) -> None:
        request = compiled.new_request()
        for step_ in range(150):
            result = request(rows(1000 * number + step_), GOOD)["whole"]
        if result.ravel().tolist() != [1000 * number + step_ for step_ in range(150)]:
            wrong.append(result)

    threads = [threading.Thread(target=generate, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert kept(compiled, "rows").storage is None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_child_process_goes_on_by_itself() -> None:
    compiled = uncork.compile_model(list_of_rows())
    compiled(rows(1, 2), GOOD)
    child = os.fork()
    if child == 0:
        whole = compiled(rows(9), GOOD)["whole"].ravel().tolist()
        os._exit(0 if whole == [1, 2, 9] else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert compiled(rows(3), GOOD)["whole"].ravel().tolist() == [1, 2, 3]


def test_a_call_by_the_interpreter_goes_on_in_place() -> None:
    """Zeros for a row that is not there are the interpreter's; the calls behind it append again."""
    compiled = uncork.compile_model(beams())
    seen(compiled, [1, 2], [0, 1])
    assert seen(compiled, [3, 4], [0, 9]) == [[1, 3], [0, 4]]
    assert seen(compiled, [5, 6], [0, 1]) == [[1, 3, 5], [0, 4, 6]]
    assert storage(compiled, "v").shape[1] > 3
