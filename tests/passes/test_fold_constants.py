"""Constants that layers compute from constants are computed once."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import uncork
from uncork.compiler.compile import compile_model
from uncork.errors import InputError
from uncork.ir.bodies import GraphBody
from uncork.ir.model import Source
from uncork.ops._body import BodyInput, BodyMap, BodyOutput
from uncork.passes import fold_constants

CODES = np.random.default_rng(0).integers(0, 256, (100, 64)).astype(np.uint8)
X = np.random.default_rng(1).standard_normal((3, 100)).astype(np.float32)
WHOLE = np.random.default_rng(2).standard_normal((100, 64)).astype(np.float32)


def dequantized(product: bool = False) -> uncork.Model:
    """x times weights of 8 bits with a zero point and a scale for each column: element by element,
    or as matrices.
    """
    b = uncork.Builder("dequantized")
    x = b.parameter("x", "f32", [3, 100] if product else [100, 64])
    (wide,) = b.add("Convert", 1, b.constant(CODES), destination_type="f32")
    (centred,) = b.add("Subtract", 1, wide, b.constant(np.full((1, 64), 128, np.float32)))
    (weights,) = b.add(
        "Multiply",
        1,
        centred,
        b.constant(np.linspace(0.01, 0.02, 64, dtype=np.float32).reshape(1, 64)),
    )
    (y,) = b.add("MatMul" if product else "Multiply", 1, x, weights)
    b.result(b.add("ReLU", 1, y)[0], "y")
    return b.model()


def converts(compiled: uncork.CompiledModel) -> bool:
    """The codes are converted by calls."""
    return any(node.type_name == "Convert" for node in compiled.executor.prepared.nodes)


def test_weights_are_made_once() -> None:
    compiled = compile_model(dequantized())
    assert not converts(compiled)
    weights = (CODES.astype(np.float64) - 128) * np.linspace(0.01, 0.02, 64)
    np.testing.assert_allclose(
        compiled(WHOLE)["y"], np.maximum(WHOLE * weights, 0), rtol=1e-5, atol=1e-6
    )


def test_weights_of_products_are_not_made() -> None:
    compiled = compile_model(dequantized(product=True))
    assert [step.operation for step in compiled.plan.steps] == ["FusedCompressedLinear-0"]
    weights = (CODES.astype(np.float64) - 128) * np.linspace(0.01, 0.02, 64)
    np.testing.assert_allclose(compiled(X)["y"], np.maximum(X @ weights, 0), rtol=1e-5, atol=1e-4)


def test_large_constants_are_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(fold_constants, "available", lambda: (2000, "a small machine"))
        compiled = compile_model(dequantized())
        assert converts(compiled)
    np.testing.assert_allclose(
        compiled(WHOLE)["y"], compile_model(dequantized())(WHOLE)["y"], rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("most", [1000, 1 << 20])
def test_constants_do_not_grow_beyond_a_limit(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    b = uncork.Builder("twice")
    x = b.parameter("x", "f32", [200, 64])
    half = b.constant(WHOLE)
    (twice,) = b.add("Concat", 1, half, half, axis=0)
    b.result(b.add("Multiply", 1, x, twice)[0], "y")
    monkeypatch.setattr(fold_constants, "_MOST", most)
    compiled = compile_model(b.model())
    left = [node.type_name for node in compiled.executor.prepared.nodes]
    assert ("Concat" in left) == (most == 1000)


def test_what_only_constants_read_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is of what stays: codes of 8 bits as f32, but not each step between."""
    b = uncork.Builder("steps")
    x = b.parameter("x", "f32", [100, 64])
    (made,) = b.add("Convert", 1, b.constant(CODES), destination_type="f32")
    for _ in range(40):
        (made,) = b.add("Multiply", 1, made, b.constant(np.full((1, 64), 1, np.float32)))
    b.result(b.add("Multiply", 1, x, made)[0], "y")
    monkeypatch.setattr(fold_constants, "_ALWAYS", 0)
    monkeypatch.setattr(fold_constants, "_FOR_A_BYTE", 4)
    compiled = compile_model(b.model())
    assert not converts(compiled)
    np.testing.assert_array_equal(compiled(WHOLE)["y"], WHOLE * CODES.astype(np.float32))


def test_a_step_that_fails_leaves_what_comes_before_it_made() -> None:
    b = uncork.Builder("half")
    x = b.parameter("x", "f32", [5000])
    (table,) = b.add("Convert", 1, b.constant(np.arange(6000) % 7), destination_type="f32")
    (picked,) = b.add("GatherElements", 6, table, b.constant(np.full(5000, 6001)), axis=0)
    (more,) = b.add("Add", 1, picked, b.constant(np.ones(5000, np.float32)))
    b.result(b.add("Add", 1, x, more)[0], "y")
    compiled = compile_model(b.model())
    assert not converts(compiled)
    with pytest.raises(InputError, match=r"GatherElements.*6001"):
        compiled(np.zeros(5000, np.float32))


def test_what_only_repeats_is_left() -> None:
    b = uncork.Builder("repeated")
    x = b.parameter("x", "f32", [100, 100])
    (mask,) = b.add(
        "Broadcast", 3, b.constant(np.float32(2)), b.constant(np.array([100, 100])), mode="numpy"
    )
    b.result(b.add("Multiply", 1, x, mask)[0], "y")
    compiled = compile_model(b.model())
    assert not any(
        node.type_name == "Const" and node.outputs[0].spec.shape.size == 10_000
        for node in compiled.executor.prepared.nodes
    )
    np.testing.assert_array_equal(
        compiled(np.ones((100, 100), np.float32))["y"], np.full((100, 100), 2)
    )


def test_what_cannot_be_computed_is_refused_by_the_call() -> None:
    b = uncork.Builder("bad index")
    x = b.parameter("x", "f32", [5000])
    table = b.constant(np.arange(6000, dtype=np.float32))
    (picked,) = b.add("GatherElements", 6, table, b.constant(np.full(5000, 6001)), axis=0)
    b.result(b.add("Add", 1, x, picked)[0], "y")
    with pytest.raises(InputError, match=r"GatherElements.*6001"):
        compile_model(b.model())(np.zeros(5000, np.float32))


def test_what_is_drawn_is_not_a_constant() -> None:
    b = uncork.Builder("random")
    x = b.parameter("x", "f32", [8000])
    limits = [b.constant(np.float32(v)) for v in (0, 1)]
    (drawn,) = b.add(
        "RandomUniform",
        8,
        b.constant(np.array([8000])),
        *limits,
        output_type="f32",
        global_seed=0,
        op_seed=0,
    )
    b.result(b.add("Add", 1, x, drawn)[0], "y")
    compiled = compile_model(b.model())
    zeros = np.zeros(8000, np.float32)
    assert (compiled(zeros)["y"] != compiled(zeros)["y"]).any()


@pytest.mark.parametrize("in_body", [False, True])
def test_numbers_of_shapes_that_are_supposed_are_not_constants(in_body: bool) -> None:
    """At load a dimension that a Squeeze names counts as 1: a call may have it otherwise, and its
    result has a dimension more then.
    """

    def squeezed(builder: uncork.Builder, x: Source) -> Source:
        return builder.add("Squeeze", 1, x, builder.constant(np.array([0])))[0]

    builder = uncork.Builder("supposed")
    x = builder.parameter("x", "i64", [None])
    if in_body:
        bodies = {}
        for name in ("then_body", "else_body"):
            inner = uncork.Builder(name)
            inner.result(squeezed(inner, inner.parameter("x", "i64", [None])))
            bodies[name] = BodyMap(
                GraphBody(inner.model()), (BodyInput(1, 0),), (BodyOutput(0, 0),)
            )
        flag = builder.constant(np.array(True))
        (found,) = builder.add_with_bodies("If", 8, flag, x, bodies=bodies)
    else:
        found = squeezed(builder, x)
    shape = builder.add("ShapeOf", 3, found, output_type="i64")[0]
    end = builder.constant(np.array([-1]))
    builder.result(builder.add("Concat", 1, shape, end, axis=0)[0], "shape")
    compiled = [compile_model(builder.model(), backend=b) for b in ("cpu", "reference")]
    for size, wanted in ((1, [-1]), (3, [3, -1]), (1, [-1]), (2, [2, -1])):
        for each in compiled:
            np.testing.assert_array_equal(each(np.arange(size))["shape"], wanted)


@pytest.mark.parametrize("read_too", [False, True])
def test_layers_of_which_the_shape_alone_is_read_may_refuse_a_call(read_too: bool) -> None:
    """As by the references. What somebody else reads is a reason for the layer to run, and the
    numbers of its shape are constants then.
    """
    builder = uncork.Builder("refusing")
    table, ids = builder.parameter("table", "f32", [5, 4]), builder.parameter("ids", "i64", [3, 1])
    (rows,) = builder.add("GatherND", 8, table, ids)
    (shape,) = builder.add("ShapeOf", 3, rows, output_type="i64")
    builder.result(builder.add("Concat", 1, shape, shape, axis=0)[0], "shape")
    if read_too:
        builder.result(rows, "rows")
    model = builder.model()
    compiled = [compile_model(model, backend=backend) for backend in ("cpu", "reference")]
    assert any(n.type_name == "ShapeOf" for n in compiled[0].executor.prepared.nodes) != read_too
    for each in compiled:
        good = each(np.zeros((5, 4), np.float32), np.array([[0], [4], [1]]))
        np.testing.assert_array_equal(good["shape"], [3, 4, 3, 4])
        with pytest.raises(InputError, match=r"GatherND.*indices\[2, 0\] is 5"):
            each(np.zeros((5, 4), np.float32), np.array([[0], [4], [5]]))


def gates_in_another_order(read: bool) -> uncork.Model:
    """A dense layer whose weights are parts of a constant in another order, as exporters turn the
    gates of an LSTM; one of the parts may be `read` by another layer.
    """
    b = uncork.Builder("gates")
    x = b.parameter("x", "f32", [3, 64])
    parts = b.add("VariadicSplit", 1, b.constant(WHOLE), b.constant(0), b.constant([25, 25, 50]))
    (weights,) = b.add("Concat", 1, parts[2], parts[0], parts[1], axis=0)
    b.result(b.add("MatMul", 1, x, weights, transpose_b=True)[0], "y")
    if read:
        b.result(b.add("MatMul", 1, x, parts[1], transpose_b=True)[0], "part")
    return b.model()


@pytest.mark.parametrize("read", [False, True])
def test_parts_of_constants_in_another_order_are_one_constant(read: bool) -> None:
    compiled = compile_model(gates_in_another_order(read))
    x = np.random.default_rng(3).standard_normal((3, 64)).astype(np.float32)
    results = compiled(x)
    kinds = {node.type_name for node in compiled.executor.prepared.nodes}
    assert kinds.isdisjoint({"VariadicSplit", "Concat"})
    ordered = np.concatenate([WHOLE[50:], WHOLE[:25], WHOLE[25:50]])
    np.testing.assert_allclose(results["y"], x @ ordered.T, rtol=1e-4, atol=1e-4)
    if read:
        np.testing.assert_allclose(results["part"], x @ WHOLE[25:50].T, rtol=1e-4, atol=1e-4)


def test_a_part_of_a_constant_as_output_keeps_its_name() -> None:
    b = uncork.Builder("parts")
    x = b.parameter("x", "f32", [2])
    first, second = b.add("Split", 1, b.constant(WHOLE), b.constant(0), num_splits=2)
    b.result(first, "first")
    b.result(second, "second")
    b.result(b.add("ReLU", 1, x)[0], "y")
    results = compile_model(b.model())(np.zeros(2, np.float32))
    np.testing.assert_array_equal(results["first"], WHOLE[:50])
    np.testing.assert_array_equal(results["second"], WHOLE[50:])


def test_a_constant_that_repeats_others_is_left_to_the_call() -> None:
    """Eight times the same: memory is not made of it."""
    b = uncork.Builder("repeated")
    x = b.parameter("x", "f32", [800, 64])
    (wide,) = b.add("Exp", 1, b.constant(WHOLE))
    (many,) = b.add("Concat", 1, *[wide] * 8, axis=0)
    b.result(b.add("Add", 1, x, many)[0], "y")
    compiled = compile_model(b.model())
    found = compiled(np.zeros((800, 64), np.float32))["y"]
    assert any(node.type_name == "Concat" for node in compiled.executor.prepared.nodes)
    np.testing.assert_allclose(found, np.concatenate([np.exp(WHOLE)] * 8), rtol=1e-5)
