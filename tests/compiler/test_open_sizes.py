"""Sizes that a layer finds out as it runs, in front of views and kernels: nothing is read past its
end, nothing is left out.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import uncork
from tests.processes._children import run_child
from uncork.compiler.compile import compile_model
from uncork.errors import InputError
from uncork.ir.bodies import GraphBody
from uncork.ir.model import Source
from uncork.ops._body import BodyInput, BodyMap, BodyOutput
from uncork.symbolic import Origin

BACKENDS = ("cpu", "reference")
TABLE = np.arange(40, dtype=np.float32).reshape(20, 2)


def found(builder: uncork.Builder) -> Source:
    """i64 [1, as many as the call's `x` has numbers other than 0]: where they are."""
    return builder.add("NonZero", 3, builder.parameter("x", "f32", [8]), output_type="i64")[0]


def ones(count: int) -> np.ndarray:
    return (np.arange(8) < count).astype(np.float32)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_reshape_looks_at_the_number_of_elements(backend: str) -> None:
    builder = uncork.Builder()
    (six,) = builder.add(
        "Reshape", 1, found(builder), builder.constant(np.array([6])), special_zero=False
    )
    builder.result(builder.add("Add", 1, six, builder.constant(np.array(100)))[0], "y")
    compiled = compile_model(builder.model(), backend=backend)
    assert compiled(ones(6))["y"].tolist() == [100, 101, 102, 103, 104, 105]
    for count in (3, 8):
        with pytest.raises(InputError, match=rf"as many elements as data \[1,{count}\], got \[6\]"):
            compiled(ones(count))
    assert compiled(ones(6))["y"].tolist() == [100, 101, 102, 103, 104, 105]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_squeeze_keeps_an_axis_that_is_not_1(backend: str) -> None:
    builder = uncork.Builder()
    (y,) = builder.add("Squeeze", 1, found(builder), builder.constant(np.array([1])))
    builder.result(builder.add("Add", 1, y, builder.constant(np.array([1])))[0], "y")
    compiled = compile_model(builder.model(), backend=backend)
    for count, expected in ((1, [1]), (3, [[1, 2, 3]]), (0, [[]]), (1, [1])):
        assert compiled(ones(count))["y"].tolist() == expected


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", ["constant weights", "weights", "segment ids"])
def test_ids_that_a_layer_finds_are_as_many_as_what_stands_beside_them(
    kind: str, backend: str
) -> None:
    builder = uncork.Builder()
    ids = builder.add("Squeeze", 1, found(builder), builder.constant(np.array([0])))[0]
    table, more = builder.constant(TABLE), []
    if kind == "segment ids":
        segments, more = builder.parameter("segments", "i64", [None]), [np.array([0, 0, 1])]
        (y,) = builder.add(
            "EmbeddingSegmentsSum", 3, table, ids, segments, builder.constant(np.array(2))
        )
    else:
        ones_of_three = np.ones(3, np.float32)
        weights = (
            builder.constant(ones_of_three)
            if kind == "constant weights"
            else builder.parameter("weights", "f32", [None])
        )
        more = [] if kind == "constant weights" else [ones_of_three]
        offsets, default = builder.constant(np.array([0, 2])), builder.constant(np.array(-1))
        (y,) = builder.add("EmbeddingBagOffsetsSum", 3, table, ids, offsets, default, weights)
    builder.result(y, "y")
    compiled = compile_model(builder.model(), backend=backend)
    assert compiled(ones(3), *more)["y"].tolist() == [[2, 4], [4, 5]]
    for count in (8, 2):
        with pytest.raises(InputError, match=rf"expected shape \[{count}\]"):
            compiled(ones(count), *more)


def test_one_length_that_a_layer_finds_is_taken_by_the_kernel() -> None:
    """Bags without weights: the kernel reads as many ids as there are, and there is nothing else
    that they could disagree with.
    """
    pytest.importorskip("llvmlite")
    builder = uncork.Builder()
    ids = builder.add("Squeeze", 1, found(builder), builder.constant(np.array([0])))[0]
    offsets = builder.constant(np.array([0, 2]))
    builder.result(
        builder.add("EmbeddingBagOffsetsSum", 3, builder.constant(TABLE), ids, offsets)[0], "y"
    )
    compiled = compile_model(builder.model())
    assert compiled(ones(3))["y"].tolist() == [[2, 4], [4, 5]]
    assert compiled(ones(5))["y"].tolist() == [[2, 4], [18, 21]]
    assert next(
        step.kernel for step in compiled.plan.steps if step.operation.startswith("Embedding")
    ).startswith("bag_")


_BEHIND_A_KERNEL = """
import sys
import numpy as np
import uncork
compiled = uncork.load(sys.argv[1])
for target in ([2, 3], [2, 5], *([1, n] for n in range(1, 12))):
    x = np.ones(6 if target[0] == 2 else target[1], np.float32)
    try:
        shape = compiled(x, np.array(target, sys.argv[2]))[0].shape
    except uncork.InputError as error:
        print(target, "refused:", "as many elements as data" in str(error))
    else:
        print(target, list(shape) == target)
"""


@pytest.mark.parametrize("element_type", ["i64", "f32"])
def test_a_result_that_is_a_reshape_of_what_a_kernel_makes(
    element_type: str, tmp_path: Path
) -> None:
    """Its target is known at the call only, as a number of the caller's or one that the model
    computes. In a process of its own.
    """
    builder = uncork.Builder()
    x, target = (
        builder.parameter("x", "f32", [None]),
        builder.parameter("target", element_type, [2]),
    )
    if element_type == "f32":
        (target,) = builder.add("Convert", 1, target, destination_type="i64")
    (y,) = builder.add("Reshape", 1, builder.add("Abs", 1, x)[0], target, special_zero=False)
    builder.result(y, "y")
    uncork.write_model(builder.model(), tmp_path / "m.xml")
    command = [
        sys.executable,
        "-c",
        _BEHIND_A_KERNEL,
        str(tmp_path / "m.xml"),
        {"i64": "int64", "f32": "float32"}[element_type],
    ]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    wells = [f"[1, {n}] True" for n in range(1, 12)]
    assert done.stdout.splitlines() == ["[2, 3] True", "[2, 5] refused: True", *wells]


def branch(columns: int) -> BodyMap:
    """x [?, ?] times a matrix of ones of so many rows."""
    builder = uncork.Builder("branch")
    x = builder.parameter("x", "f32", [None, None])
    builder.result(
        builder.add("MatMul", 1, x, builder.constant(np.ones((columns, 2), np.float32)))[0], "y"
    )
    return BodyMap(GraphBody(builder.model()), (BodyInput(1, 0),), (BodyOutput(0, 0),))


@pytest.mark.parametrize("backend", BACKENDS)
def test_only_the_branch_that_is_taken_must_fit(backend: str) -> None:
    builder = uncork.Builder()
    x, flag = builder.parameter("x", "f32", [None, None]), builder.parameter("flag", "boolean", [])
    (y,) = builder.add_with_bodies(
        "If", 8, flag, x, bodies={"then_body": branch(3), "else_body": branch(4)}
    )
    builder.result(builder.add("Add", 1, y, builder.constant(np.float32(1)))[0], "y")
    compiled = compile_model(builder.model(), backend=backend)

    def call(columns: int, then: bool) -> Sequence[Sequence[float]]:
        return compiled(np.ones((1, columns), np.float32), np.array(then))["y"].tolist()

    for _ in range(3):
        assert call(3, True) == [[4, 4]]
        assert call(4, False) == [[5, 5]]
        for columns, then in ((3, False), (4, True), (2, True)):
            with pytest.raises(InputError, match=r"If-8.*the inner dimensions differ"):
                call(columns, then)


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_error_names_the_layers_that_were_read(backend: str) -> None:
    """A product, its bias and its activation are one step; what does not fit is told of the
    product.
    """
    builder = uncork.Builder()
    turned = builder.add("Convert", 1, found(builder), destination_type="f32")[0]
    (product,) = builder.add(
        "MatMul", 1, turned, builder.constant(np.ones((3, 2), np.float32)), name="product"
    )
    (biased,) = builder.add("Add", 1, product, builder.constant(np.float32([1, 2])), name="biased")
    builder.result(biased, "y")
    compiled = compile_model(builder.model(), backend=backend)
    assert compiled(ones(3))["y"].tolist() == [[4, 5]]
    with pytest.raises(
        InputError,
        match=r"^layer 'product' \(MatMul-1, id 4\): the inner dimensions differ: 4 of a, 3 of b",
    ):
        compiled(ones(4))


@pytest.mark.parametrize("backend", BACKENDS)
def test_lengths_of_a_split_that_only_the_call_knows_must_add_up(backend: str) -> None:
    """What is split is a number that a shape depends on, and is known when the call is prepared."""
    builder = uncork.Builder()
    number, lengths = (
        builder.parameter("number", "i64", [1]),
        builder.parameter("lengths", "i64", [2]),
    )
    _, second = builder.add("VariadicSplit", 1, number, builder.constant(np.int64(0)), lengths)
    builder.result(second, "y")
    builder.result(
        builder.add("Broadcast", 3, builder.constant(np.float32(7)), number)[0], "sevens"
    )
    compiled = compile_model(builder.model(), backend=backend)
    for count in (3, 2):
        assert compiled(np.array([count]), np.array([0, 1]))["y"].tolist() == [count]
        assert compiled(np.array([count]), np.array([0, -1]))["sevens"].tolist() == [7] * count
        with pytest.raises(InputError, match=r"expected lengths that add up to 1"):
            compiled(np.array([count]), np.array([0, 0]))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_layer_that_gives_nothing_may_still_refuse(backend: str) -> None:
    """An empty part is left out of a Concat, but its layer is not: the lengths may not be those of
    the data.
    """
    builder = uncork.Builder()
    ids = builder.add("Squeeze", 1, found(builder), builder.constant(np.array([0])))[0]
    _, nothing = builder.add(
        "VariadicSplit", 1, ids, builder.constant(np.int64(0)), builder.constant(np.array([3, 0]))
    )
    (joined,) = builder.add("Concat", 1, nothing, builder.parameter("more", "i64", [2]), axis=0)
    builder.result(joined, "y")
    compiled = compile_model(builder.model(), backend=backend)
    assert compiled(ones(3), np.array([5, 6]))["y"].tolist() == [5, 6]
    with pytest.raises(InputError, match=r"expected lengths that add up to 4"):
        compiled(ones(4), np.array([5, 6]))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("start", "stop", "step"), [(7, 3, 1), (-100, 100, -2)])
def test_a_result_without_elements_that_no_step_writes(
    backend: str, start: int, stop: int, step: int
) -> None:
    builder = uncork.Builder()
    bounds = [builder.constant(np.array([number])) for number in (start, stop, step, 0)]
    sliced = builder.add("Slice", 8, builder.parameter("x", "i64", [8]), *bounds)[0]
    builder.result(sliced, "y")
    compiled = compile_model(builder.model(), backend=backend)
    for _ in range(3):
        y = compiled(np.arange(8))["y"]
        assert (y.shape, y.dtype) == ((0,), np.int64)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_guess_of_a_size_that_no_step_finds_is_not_trusted(backend: str) -> None:
    """A slice of one element stretches, though a plan may guess that it is as long as the other
    input.
    """
    builder = uncork.Builder()
    x, start = builder.parameter("x", "f32", [2]), builder.parameter("start", "i32", [1])
    stop, other = (
        builder.parameter("stop", "f32", [1]),
        builder.parameter("other", "f32", [3, 1, 4]),
    )
    first, last = (
        builder.add("Convert", 1, source, destination_type="i64")[0] for source in (start, stop)
    )
    (last,) = builder.add("Convert", 1, last, destination_type="i64")
    bounds = first, last, builder.constant(np.array([2])), builder.constant(np.array([0]))
    (one,) = builder.add("Slice", 8, x, *bounds)
    (turned,) = builder.add("Transpose", 1, other, builder.constant(np.array([2, 1, 0])))
    (sums,) = builder.add("Add", 1, one, other, auto_broadcast="numpy")
    builder.result(turned, "turned")
    builder.result(builder.add("Negative", 1, sums)[0], "y")
    compiled = compile_model(builder.model(), backend=backend)
    given = np.array([1, 2], np.float32), np.array([1], np.int32), np.array([2], np.float32)
    for _ in range(3):
        y = compiled(*given, np.zeros((3, 1, 4), np.float32))["y"]
        assert (y == -2).all()


def test_a_reshape_of_an_open_size_may_not_copy_a_dimension_that_is_not_there() -> None:
    builder = uncork.Builder()
    shape = builder.parameter("shape", "i64", [3])
    x = builder.parameter("x", "f32", [None])
    builder.result(builder.add("Reshape", 1, x, shape, special_zero=True)[0], "y")
    compiled = compile_model(builder.model())
    for _ in range(2):
        assert compiled(np.array([2, 1, 1]), np.ones(2, np.float32))["y"].shape == (2, 1, 1)
        with pytest.raises(InputError, match="position 2 copies a dimension that data"):
            compiled(np.array([2, 1, 0]), np.ones(2, np.float32))


def test_flattened_batches_of_two_inputs_are_added() -> None:
    """Hypotheses of a beam search: one plan, although only the products of sizes are equal."""
    pytest.importorskip("llvmlite")
    builder = uncork.Builder("beams")
    flat = builder.constant(np.array([-1, 8]))
    x, h = (builder.parameter(name, "f32", [None, None, 8]) for name in "xh")
    rows = [builder.add("Reshape", 1, t, flat, special_zero=False)[0] for t in (x, h)]
    builder.result(builder.add("Add", 1, *rows)[0])
    compiled = uncork.compile_model(builder.model(), threads=1)
    generator = np.random.default_rng(0)
    for batch, beams in ((2, 4), (1, 1), (8, 4), (33, 5), (2, 3)):
        given = [generator.standard_normal((batch, beams, 8)).astype(np.float32) for _ in "xh"]
        np.testing.assert_array_equal(
            compiled(*given)[0], (given[0] + given[1]).reshape(batch * beams, 8)
        )
    plan = compiled.plan
    assert plan.made == 1
    assert "planned for every size" in plan.remarks
    stretched = compiled(given[0][:1, :1], given[1])[0]
    np.testing.assert_array_equal(stretched, (given[0][0, 0] + given[1]).reshape(-1, 8))


def _late(element_type: str, factors: int) -> uncork.Model:
    """exp(x) in 2 rows of as many as a number says, or in rows of which the numbers say both, each
    times a matrix of 3 rows: what x is, only a step behind the first one tells.
    """
    builder = uncork.Builder()
    x, numbers = builder.parameter("x", "f32", [None]), builder.parameter("n", "f32", [factors])
    (e,) = builder.add("Exp", 1, x)
    (found,) = builder.add("Convert", 1, numbers, destination_type=element_type)
    two = builder.constant(np.array([2] * (2 - factors), element_type.replace("i", "int")))
    (shape,) = builder.add("Concat", 1, two, found, axis=0)
    (rows,) = builder.add("Reshape", 1, e, shape, special_zero=False)
    (y,) = builder.add("MatMul", 1, rows, builder.constant(np.ones((3, 2), np.float32)))
    builder.result(y, "y")
    return builder.model()


_FENCED = """
import sys
import numpy as np
import uncork
from tests.kernels._fences import Fenced
compiled = uncork.load(sys.argv[1])
factors = int(sys.argv[2])
def call(size, *numbers):
    x = Fenced(4 * size, False, 4).bytes.view(np.float32)
    x[...] = 0
    try:
        return compiled(x, np.array(numbers[-factors:], np.float32))[0].tolist()
    except uncork.InputError as error:
        return str(error)
print(call(6, 2, 3), call(2, 2, 1), call(6, 2, 3), call(2000, 2, 1000), sep="\\n")
"""


@pytest.mark.parametrize("factors", [1, 2])
@pytest.mark.parametrize("element_type", ["i32", "i64"])
def test_what_later_numbers_say_of_an_input_is_looked_at_before_it_is_read(
    tmp_path: Path, element_type: str, factors: int
) -> None:
    """x is read as 6 numbers, as the rows of the matrix and the number of rows say; a call with
    others is refused before, not by reading past the end of x.
    """
    uncork.write_model(_late(element_type, factors), tmp_path / "m.xml")
    done = run_child(_FENCED, tmp_path / "m.xml", factors)
    assert done.returncode == 0, done.stderr
    good, short, again, long = done.stdout.splitlines()
    assert good == again == "[[3.0, 3.0], [3.0, 3.0]]"
    assert "the inner dimensions differ: 1 of a, 3 of b" in short
    assert "the inner dimensions differ: 1000 of a, 3 of b" in long


def test_what_is_demanded_of_sizes_by_later_numbers_is_looked_at_at_once() -> None:
    """The best of x, as many as a number says, which a matrix of 3 rows says too."""
    pytest.importorskip("llvmlite")
    builder = uncork.Builder()
    x, number = builder.parameter("x", "f32", [None]), builder.parameter("n", "f32", [])
    (k,) = builder.add("Convert", 1, number, destination_type="i64")
    (e,) = builder.add("Exp", 1, x)
    best = builder.add("TopK", 11, e, k, axis=0, mode="max", sort="value")[0]
    builder.result(
        builder.add("MatMul", 1, best, builder.constant(np.ones((3, 2), np.float32)))[0], "y"
    )
    compiled = compile_model(builder.model())
    assert compiled(np.zeros(5, np.float32), np.float32(3))["y"].tolist() == [3, 3]
    (call,) = compiled.executor.plans._every.calls
    for size, seen in ((2, 3), (3, 4)):  # 3 is of the call before: the step did not run
        stopped = call.attempt([np.zeros(size, np.float32), np.array(4, np.float32)])
        assert stopped.found[Origin(k.node, 0, 0, True)] == seen


def patches(positions: int) -> uncork.Model:
    """Sums of patches of 2 x 2 of images of any size, behind a 100 that stands for the whole, each
    with its position added: 0, 1, 2, ..
    """
    builder = uncork.Builder()
    image = builder.parameter("image", "f32", [None, 1, None, None])
    spatial = {"strides": [2, 2], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1]}
    ones = builder.constant(np.ones((1, 1, 2, 2), np.float32))
    (sums,) = builder.add("Convolution", 1, image, ones, auto_pad="explicit", **spatial)
    shape = builder.constant(np.array([0, 0, -1]))
    (rows,) = builder.add("Reshape", 1, sums, shape, special_zero=True)
    (columns,) = builder.add("Transpose", 1, rows, builder.constant(np.array([0, 2, 1])))
    (sizes,) = builder.add("ShapeOf", 3, image, output_type="i64")
    zero, one = builder.constant(np.array([0])), builder.constant(np.array(0))
    (batch,) = builder.add("Gather", 8, sizes, zero, one)
    (target,) = builder.add("Concat", 1, batch, builder.constant(np.array([1, 1])), axis=0)
    hundred = builder.constant(np.full((1, 1, 1), 100, np.float32))
    (whole,) = builder.add("Broadcast", 3, hundred, target, mode="numpy")
    (tokens,) = builder.add("Concat", 1, whole, columns, axis=1)
    places = np.arange(positions, dtype=np.float32).reshape(1, positions, 1)
    builder.result(builder.add("Add", 1, tokens, builder.constant(places))[0], "y")
    return builder.model()


def test_as_many_patches_as_positions_have_a_kernel_before_a_call(tmp_path: Path) -> None:
    """Height and width are open, and their product over 4 is 6; the compiled file does the same."""
    pytest.importorskip("llvmlite")
    compiled = compile_model(patches(7))
    assert "reference" not in [step.kernel for step in compiled.plan.steps]
    uncork.compile_to(patches(7), tmp_path / "m.uncork")
    for model in (compiled, uncork.load(tmp_path / "m.uncork")):
        flat = np.arange(24, dtype=np.float32)
        # Of rows of 6 the first patch is 0 + 1 + 6 + 7, and each further one 8 more.
        wide = model(flat.reshape(1, 1, 4, 6))["y"]
        assert wide.reshape(-1).tolist() == [100, 15, 24, 33, 66, 75, 84]
        # Of rows of 4: 0 + 1 + 4 + 5, then 8 more, and 32 more for each two rows.
        high = model(flat.reshape(1, 1, 6, 4))["y"]
        assert high.reshape(-1).tolist() == [100, 11, 20, 45, 54, 79, 88]
        for shape in ((1, 1, 4, 4), (1, 1, 6, 6)):
            with pytest.raises(InputError, match="Add-1"):
                model(np.zeros(shape, np.float32))
        both = model(np.stack([flat.reshape(1, 4, 6), 2 * flat.reshape(1, 4, 6)]))["y"]
        assert both[1].reshape(-1).tolist() == [100, 29, 46, 63, 128, 145, 162]


def patches_in_a_square() -> uncork.Model:
    """Rows of patches, laid out as a square whose side is a root; half of it, twice along each
    axis, is added to it.
    """
    b = uncork.Builder("patches")

    def add(kind: str, opset: int, *inputs: Source, **attributes: Any) -> Source:
        return b.add(kind, opset, *inputs, **attributes)[0]

    def number(*values: int) -> Source:
        return b.constant(np.array(values))

    x = b.parameter("x", "f32", [None, None, 4])
    rows = add("ReLU", 1, add("Reshape", 1, x, number(-1, 4), special_zero=False))
    count = add("Slice", 8, add("ShapeOf", 3, rows, output_type="i64"), *map(number, (0, 1, 1)))
    root = add("Sqrt", 1, add("Convert", 1, count, destination_type="f32"))
    side = add("Convert", 1, root, destination_type="i64")
    sides = add("Concat", 1, side, side, number(4), axis=0)
    square = add("Reshape", 1, rows, sides, special_zero=False)
    half = add("Slice", 8, square, number(0, 0), number(2**40, 2**40), number(2, 2))
    doubled = add("Concat", 1, *[add("Concat", 1, half, half, axis=0)] * 2, axis=1)
    added = add("Add", 1, square, doubled)
    flat = add("Reshape", 1, added, number(-1, 4), special_zero=False)
    b.result(add("Multiply", 1, flat, rows), "y")
    return b.model()


def test_sizes_that_numbers_tell_twice(tmp_path: Path) -> None:
    """One side is a root of how many rows there are, and twice its half."""
    pytest.importorskip("llvmlite")
    model = patches_in_a_square()
    compiled = uncork.compile_model(model)
    uncork.compile_to(model, tmp_path / "patches.uncork")
    loaded = uncork.load(tmp_path / "patches.uncork")
    for shape in ((2, 8), (4, 4), (6, 6), (9, 4)):
        x = np.random.default_rng(1).standard_normal((*shape, 4)).astype(np.float32)
        rows = np.maximum(x.reshape(-1, 4), 0)
        side = int(len(rows) ** 0.5)
        square = rows.reshape(side, side, 4)
        y = (square + np.tile(square[::2, ::2], (2, 2, 1))).reshape(-1, 4) * rows
        for one in (compiled, loaded):
            np.testing.assert_array_equal(one(x)[0], y)
    assert not [step for step in compiled.plan.steps if step.kernel == "reference"]
