"""Compiled files: the same answers as the model gives, and what they refuse."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import uncork
from tests.compiler.test_growing_state import Net
from tests.compiler.test_kept_rows import decoder, token
from tests.compiler.test_state import BAD, GOOD, X, running_sum
from uncork import cli
from uncork.compiler.image import format, instance, write
from uncork.ir.bodies import GraphBody
from uncork.kernels.runtime import processor
from uncork.kernels.runtime.target import LEVELS, Target, host_target, level_of
from uncork.ops._body import BodyInput, BodyMap, BodyOutput

Array = np.ndarray[Any, Any]


def floats(*shape: int) -> Array:
    """The same numbers for a shape whenever they are asked for."""
    return np.random.default_rng([7, *shape]).random(shape, np.float32)


def recommender() -> uncork.Model:
    """Bags of ids, a GRU over their embeddings and a product: open batch, open numbers of ids."""
    net = Net()
    ids, offsets = net.input("ids", "i64", [None]), net.input("offsets", "i64", [None])
    table = net.constant(floats(50, 16), np.float32)
    bags = net.add("EmbeddingBagOffsetsSum", 3, table, ids, offsets)
    steps = net.add("Unsqueeze", 1, bags, net.constant([0]))
    state = net.constant(np.zeros((1, 1, 8)), np.float32)
    count = net.add("ShapeOf", 3, offsets, output_type="i64")
    gru = net.builder.add(
        "GRUSequence",
        5,
        steps,
        state,
        count,
        net.constant(floats(1, 24, 16), np.float32),
        net.constant(floats(1, 24, 8), np.float32),
        net.constant(floats(1, 24), np.float32),
        hidden_size=8,
        direction="forward",
    )
    last = net.add("Squeeze", 1, gru[1], net.constant([1]))
    return net.model(
        scores=net.add("MatMul", 1, last, net.constant(floats(8, 5), np.float32)), bags=bags
    )


def finds_sizes() -> uncork.Model:
    """The positive numbers of a vector, doubled: their count is known to the call only."""
    net = Net()
    x = net.input("x", "f32", [None])
    positive = net.add("Greater", 1, x, net.constant(0, np.float32))
    places = net.add("NonZero", 3, positive, output_type="i64")
    picked = net.add("GatherND", 8, x, net.add("Transpose", 1, places, net.constant([1, 0])))
    return net.model(doubled=net.add("Add", 1, picked, picked), places=places)


def saved(model: uncork.Model, folder: Path, **options: Any) -> Path:
    path = folder / "model.uncork"
    uncork.compile_to(model, path, threads=1, **options)
    return path


def same(results: uncork.Results, expected: uncork.Results) -> None:
    assert len(results) == len(expected)
    for number in range(len(expected)):
        assert results[number].dtype == expected[number].dtype
        assert results[number].shape == expected[number].shape
        assert results[number].tobytes() == expected[number].tobytes()


CALLS = [
    (np.arange(count, dtype=np.int64) % 50, np.arange(0, count, step, dtype=np.int64))
    for count, step in ((6, 2), (1, 1), (300, 7), (6, 2))
]


def test_a_file_gives_the_answers_of_the_model(tmp_path: Path) -> None:
    model = recommender()
    compiled, whole = uncork.load(saved(model, tmp_path)), uncork.compile_model(model, threads=1)
    for inputs in CALLS:
        same(compiled(*inputs), whole(*inputs))
        same(compiled(ids=inputs[0], offsets=inputs[1]), whole(*inputs))
    assert [str(port) for port in compiled.inputs] == [str(port) for port in whole.inputs]
    assert [str(port) for port in compiled.outputs] == [str(port) for port in whole.outputs]
    # By hand: the first bag is the sum of rows 0 and 1.
    table = floats(50, 16)
    np.testing.assert_allclose(compiled(*CALLS[0])["bags"][0], table[0] + table[1], rtol=1e-6)


def test_sizes_that_are_found_as_it_runs(tmp_path: Path) -> None:
    compiled = uncork.load(saved(finds_sizes(), tmp_path))
    for x in (np.array([1, -1, 2, 0], np.float32), np.array([-1, 3], np.float32), -np.ones(4)):
        x = x.astype(np.float32)
        results = compiled(x)
        np.testing.assert_array_equal(results["doubled"], 2 * x[x > 0])
        np.testing.assert_array_equal(results["places"], np.array(np.nonzero(x > 0)))
    # Later calls go the short way, too, and take no more there than other calls do.
    assert compiled.executor.last is not None
    np.testing.assert_array_equal(compiled(np.array([5.0, -1.0], np.float32))["doubled"], [10])
    with pytest.raises(uncork.InputError, match="expected f32"):
        compiled(np.array(["a"]))
    with pytest.raises(uncork.InputError):
        compiled(np.ones((2, 2), np.float32))
    assert compiled([4.0])["doubled"].tolist() == [8]


def test_variables_keep_their_values(tmp_path: Path) -> None:
    model = running_sum()
    compiled, whole = uncork.load(saved(model, tmp_path)), uncork.compile_model(model, threads=1)
    np.testing.assert_array_equal(compiled.query_state()[0].state, [0.5, 0.5])
    for _ in range(3):
        same(compiled(X, GOOD), whole(X, GOOD))
    with pytest.raises(uncork.InputError):
        compiled(X, BAD)
    same(compiled(X, GOOD), whole(X, GOOD))
    other = compiled.new_request()
    np.testing.assert_array_equal(other(X, GOOD)["sum"], X + 0.5)
    compiled.reset_state()
    np.testing.assert_array_equal(compiled(X, GOOD)["sum"], X + 0.5)
    kept = compiled.save_state()
    compiled(X, GOOD)
    compiled.load_state(kept)
    np.testing.assert_array_equal(compiled(X, GOOD)["sum"], 2 * X + 0.5)


def test_a_variable_that_grows_does_so_in_place(tmp_path: Path) -> None:
    net = Net()
    x, rows = net.input("x", "f32", [None, None, 4]), net.input("rows", "i32", [None])
    old = net.read("k", [None, None, 4], net.constant(np.zeros((2, 0, 4)), np.float32))
    whole = net.grown("k", net.picked(old, rows), x, 1)
    model = net.model(s=net.add("ReduceSum", 1, whole, net.constant([1]), keep_dims=False))
    compiled = uncork.load(saved(model, tmp_path))
    kept = np.zeros((2, 0, 4), np.float32)
    for count, picks in ((3, [0, 1]), (1, [1, 0]), (1, [0, 1]), (300, [1, 1]), (1, [0, 1])):
        new = floats(2, count, 4)
        kept = np.concatenate([kept[picks], new], axis=1)
        got = compiled(new, np.array(picks, np.int32))["s"]
        np.testing.assert_allclose(got, kept.sum(axis=1), rtol=1e-5)
    (variable,) = compiled.query_state()
    np.testing.assert_array_equal(variable.state, kept)
    assert variable.storage is not None
    assert variable.storage.shape[1] > kept.shape[1]


def test_a_variable_that_grows_is_cut_short(tmp_path: Path) -> None:
    net = Net()
    x = net.input("x", "f32", [1, None, 4])
    old = net.read("k", [1, None, 4], net.constant(np.zeros((1, 0, 4)), np.float32))
    whole = net.grown("k", old, x, 1)
    total = net.read("total", [1, 4], net.constant(np.zeros((1, 4)), np.float32))
    sums = net.add("ReduceSum", 1, x, net.constant([1]), keep_dims=False)
    net.assign("total", net.add("Add", 1, total, sums))
    model = net.model(s=net.add("Multiply", 1, whole, net.constant(1.0, np.float32)))
    compiled = uncork.load(saved(model, tmp_path))
    variables = {variable.name: variable for variable in compiled.query_state()}
    variables["k"].truncate(0)  # before any call
    first, guess, better = floats(1, 5, 4), floats(1, 3, 4), floats(1, 2, 4) * 2
    compiled(first)
    compiled(guess)
    variables["k"].truncate(6)
    expected = np.concatenate([first, guess[:, :1], better], axis=1)
    np.testing.assert_array_equal(compiled(better)["s"], expected)
    with pytest.raises(uncork.InputError, match="expected a number from 0 to 8"):
        variables["k"].truncate(9)
    with pytest.raises(uncork.InputError, match=r"'total'.* does not grow along an axis"):
        variables["total"].truncate(0)


def test_calls_of_variables_that_only_the_references_make(tmp_path: Path) -> None:
    """The error says what is wrong with the call; with the source it goes well."""
    model = decoder()
    path = saved(model, tmp_path)
    compiled = uncork.load(path)
    compiled(token(2, 3), np.array([0, 1], np.int32))
    before = compiled.query_state()[0].state.copy()
    for beam, why in (
        ([1], "'beam' picks 1 rows of variable 'keys', expected 2, as many as it has"),
        ([0, 2], "'beam' picks row 2 of variable 'keys', expected -2 to 1"),
    ):
        with pytest.raises(uncork.InputError, match=re.escape(why)) as caught:
            compiled(token(len(beam), 1), np.array(beam, np.int32))
        assert caught.value.where == "model 'net'"
        assert "compile the model with its source (--with-source)" in caught.value.message
    np.testing.assert_array_equal(compiled.query_state()[0].state, before)
    with pytest.raises(uncork.InputError, match="inputs without elements have plans of their own"):
        uncork.load(path)(token(2, 0), np.array([0, 1], np.int32))
    with pytest.raises(uncork.InputError, match="with_source: expected the path of a model"):
        saved(model, tmp_path, with_source=True)
    uncork.write_model(model, tmp_path / "model.xml")
    uncork.compile_to(tmp_path / "model.xml", path, threads=1, with_source=True)
    whole, live = uncork.load(path), uncork.compile_model(model)
    for count, beam in ((3, [0, 1]), (1, [1]), (0, [0]), (2, [0, 0])):
        call = token(len(beam), count), np.array(beam, np.int32)
        np.testing.assert_allclose(whole(*call)["seen"], live(*call)["seen"], rtol=1e-5, atol=1e-6)


def test_calls_of_a_kept_value_that_only_the_references_make(tmp_path: Path) -> None:
    net = Net()
    x = net.input("x", "f32", [None, 4])
    total = net.read("total", [1, 4], net.constant(np.ones((1, 4)), np.float32))
    sums = net.add("ReduceSum", 1, x, net.constant([0]), keep_dims=True)
    now = net.add("Add", 1, total, sums)
    net.assign("total", now)
    uncork.write_model(net.model(now=now), tmp_path / "model.xml")
    path = tmp_path / "model.uncork"
    uncork.compile_to(tmp_path / "model.xml", path, threads=1, with_source=True)
    compiled, kept = uncork.load(path), np.ones((1, 4), np.float32)
    for count in (0, 2, 0, 3):  # no plan is for rows of none
        rows = floats(count, 4)
        kept = kept + rows.sum(axis=0, keepdims=True)
        np.testing.assert_allclose(compiled(rows)["now"], kept, rtol=1e-6)
    np.testing.assert_allclose(compiled.query_state()[0].state, kept, rtol=1e-6)


def test_several_threads_and_a_forked_process(tmp_path: Path) -> None:
    compiled = uncork.load(saved(recommender(), tmp_path))
    expected = [list(compiled(*inputs)) for inputs in CALLS]
    wrong: list[str] = []

    def work() -> None:
        for _ in range(50):
            for inputs, wanted in zip(CALLS, expected, strict=True):
                for got, want in zip(compiled(*inputs), wanted, strict=True):
                    if got.tobytes() != want.tobytes():
                        wrong.append("differs")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    if not hasattr(os, "fork"):
        return
    child = os.fork()
    if child == 0:
        work()
        os._exit(1 if wrong else 0)
    assert os.waitpid(child, 0)[1] == 0


def test_steps_that_threads_share(tmp_path: Path) -> None:
    net = Net()
    x = net.input("x", "f32", [None, 256])
    y = net.add("MatMul", 1, x, net.constant(floats(256, 512), np.float32))
    model = net.model(y=net.add("ReLU", 1, y))
    path = tmp_path / "model.uncork"
    uncork.compile_to(model, path, threads=2)
    x_given = floats(300, 256)
    same(uncork.load(path)(x_given), uncork.compile_model(model, threads=2)(x_given))


def test_calls_without_the_native_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interpreters whose objects lie otherwise in memory: free-threaded ones, and those to come."""
    path, model = saved(recommender(), tmp_path), recommender()
    monkeypatch.setattr(instance, "lays_out_as_expected", lambda: False)
    monkeypatch.setattr("uncork.compiler.image.load._loaded_code", {})
    found = uncork.load(saved(finds_sizes(), tmp_path))
    x = np.array([1, -1, 2, 0], np.float32)
    np.testing.assert_array_equal(found(x)["doubled"], [2, 4])
    compiled = uncork.load(saved(model, tmp_path))
    assert "run_by_ctypes" in repr(compiled.executor.image.calls[0].run)  # type: ignore[attr-defined]
    whole = uncork.compile_model(model, threads=1)
    for inputs in CALLS:
        same(compiled(*inputs), whole(*inputs))
    assert path.exists()


def test_memory_is_limited_and_given_back(tmp_path: Path) -> None:
    net = Net()
    x = net.input("x", "f32", [None, 64])
    y = net.add("MatMul", 1, x, net.constant(floats(64, 64), np.float32))
    y = net.add(
        "MatMul", 1, net.add("SoftMax", 1, y, axis=0), net.constant(floats(64, 8), np.float32)
    )
    path = saved(net.model(y=y), tmp_path)
    compiled = uncork.load(path)
    compiled(floats(1000, 64))
    assert compiled.executor.image.working_bytes > 100_000  # type: ignore[attr-defined]
    compiled.release_memory()
    assert compiled.executor.image.working_bytes == 0  # type: ignore[attr-defined]
    limited = uncork.load(path, memory_limit=10_000)
    limited(floats(2, 64))
    with pytest.raises(uncork.InputError, match=r"not enough memory .* memory_limit \(10,000"):
        limited(floats(1000, 64))


# ---- what is refused


def test_a_layer_without_a_kernel_is_named_when_it_is_compiled(tmp_path: Path) -> None:
    net = Net()
    x = net.input("x", "f32", [2, 2])
    model = net.model(y=net.add("Inverse", 14, x, adjoint=False))
    with pytest.raises(uncork.UnsupportedError, match=r"layer '.*Inverse.*has no kernel"):
        saved(model, tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_branch_whose_layers_python_runs_is_named(tmp_path: Path) -> None:
    bodies = {}
    for body, kind, opset, more in (
        ("then_body", "Inverse", 14, {"adjoint": False}),
        ("else_body", "Negative", 1, {}),
    ):
        inner = uncork.Builder(body)
        x = inner.parameter("x", "f32", [2, 2])
        inner.result(inner.add(kind, opset, x, **more)[0], "y")
        bodies[body] = BodyMap(GraphBody(inner.model()), (BodyInput(1, 0),), (BodyOutput(0, 0),))
    builder = uncork.Builder("either")
    condition, x = builder.parameter("c", "boolean", []), builder.parameter("x", "f32", [2, 2])
    builder.result(builder.add_with_bodies("If", 8, condition, x, bodies=bodies)[0], "y")
    why = r"If.*runs its bodies between native.*in 'then_body' layer 'Inverse.*has no kernel"
    with pytest.raises(uncork.UnsupportedError, match=why):
        saved(builder.model(), tmp_path)


def test_a_branch_finds_a_size_and_more(tmp_path: Path) -> None:
    """How many numbers of x are not 0 only the call tells."""

    def either(name: str, then: Any, shape: list[int | None]) -> uncork.Builder:
        bodies = {}
        for body, make in (("then_body", then), ("else_body", lambda b, x: x)):
            inner = uncork.Builder(body)
            inner.result(make(inner, inner.parameter("x", "f32", shape)), "y")
            entries = (BodyInput(1, 0),), (BodyOutput(0, 0),)
            bodies[body] = BodyMap(GraphBody(inner.model()), *entries)
        builder = uncork.Builder(name)
        condition, x = builder.parameter("c", "boolean", []), builder.parameter("x", "f32", shape)
        builder.result(builder.add_with_bodies("If", 8, condition, x, bodies=bodies)[0], "y")
        return builder

    def places(builder: uncork.Builder, x: Any) -> Any:
        found = builder.add("NonZero", 3, x, output_type="i64")[0]
        return builder.add("Convert", 1, found, destination_type="f32")[0]

    branches = either("places", places, [None, None]).model()
    compiled, written = uncork.compile_model(branches), uncork.load(saved(branches, tmp_path))
    for rows, columns in ((2, 3), (1, 1), (40, 30), (3, 2)):
        x = (np.arange(rows * columns) % 3).reshape(rows, columns).astype(np.float32)
        for model in (compiled, written):
            np.testing.assert_array_equal(model(np.array(True), x)[0], np.nonzero(x))
            np.testing.assert_array_equal(model(np.array(False), x)[0], x)


def test_sizes_that_the_plan_does_not_take_are_named(tmp_path: Path) -> None:
    """Sizes that the call finds, which no other plan is made for."""
    net = Net()
    x, y = net.input("x", "f32", [None]), net.input("y", "f32", [None])
    places = net.add("NonZero", 3, x, output_type="i64")
    row = net.add("Reshape", 1, places, net.constant([-1]), special_zero=False)
    row = net.add("Convert", 1, row, destination_type="f32")
    model = net.model(z=net.add("Add", 1, row, y))
    written = tmp_path / "model.xml"
    uncork.write_model(model, written)
    path = tmp_path / "model.uncork"
    uncork.compile_to(written, path)
    compiled = uncork.load(path)
    three, y1, y2 = np.array([2, 0, 3], np.float32), floats(1), floats(2)
    np.testing.assert_array_equal(compiled(three, y2)["z"], np.array([0, 2], np.float32) + y2)
    with pytest.raises(uncork.InputError, match=r"the plan is for calls in which .*--with-source"):
        compiled(three, y1)
    uncork.compile_to(written, path, with_source=True)
    compiled = uncork.load(path)
    np.testing.assert_array_equal(compiled(three, y1)["z"], np.array([0, 2], np.float32) + y1)
    np.testing.assert_array_equal(compiled(three, y2)["z"], np.array([0, 2], np.float32) + y2)


def test_plans_for_certain_sizes(tmp_path: Path) -> None:
    net = Net()
    x, y = net.input("x", "f32", [None]), net.input("y", "f32", [None])
    shapes = [{"x": [3], "y": [3]}, {"x": [1], "y": [3]}]
    compiled = uncork.load(saved(net.model(z=net.add("Add", 1, x, y)), tmp_path, shapes=shapes))
    for n in (1, 3):
        np.testing.assert_array_equal(compiled(floats(n), floats(3))["z"], floats(n) + floats(3))
    with pytest.raises(uncork.InputError):
        compiled(floats(2), floats(2))


def test_values_that_kernels_do_not_compute_with(tmp_path: Path) -> None:
    compiled = uncork.load(saved(recommender(), tmp_path))
    with pytest.raises(uncork.InputError, match=r"EmbeddingBag.* met a value that kernels do not"):
        compiled(np.array([77]), np.array([0]))
    same(compiled(*CALLS[0]), uncork.load(tmp_path / "model.uncork")(*CALLS[0]))
    with pytest.raises(uncork.InputError, match="expected i64"):
        compiled(np.array([1.5]), np.array([0]))


def test_other_processors(tmp_path: Path) -> None:
    own = level_of(host_target())
    assert own is not None
    others = [level for level in ("aarch64", "x86-64-v4-amx") if level != own][:2]
    path = saved(recommender(), tmp_path, targets=[own, *others])
    description, _ = format.read(path)
    assert [image.level for image in description.images] == [own, *others]
    same(uncork.load(path)(*CALLS[0]), uncork.compile_model(recommender())(*CALLS[0]))
    with pytest.raises(uncork.UnsupportedError, match=r"has no plan for 'x86-64-v2'"):
        uncork.load(path, target="x86-64-v2")
    path = saved(recommender(), tmp_path, targets=["aarch64-dotprod-windows"])
    with pytest.raises(uncork.UnsupportedError, match="is compiled for other processors"):
        uncork.load(path)
    with pytest.raises(uncork.ValidationError, match="target: expected one of"):
        saved(recommender(), tmp_path, targets=["pentium"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data[:-1], "is not whole"),
        (lambda data: data[:20], "is no compiled model"),
        (lambda data: data + b"x", "is not whole"),
        (lambda data: data[:8] + b"\x09" + data[9:], "has version 9 of the format"),
        (lambda data: data[:-40] + b"\0" + data[-39:], "is damaged"),
        (lambda data: data[:1000] + data[1000:].replace(b"segment_entry", b"segment_enter"), "dam"),
    ],
)
def test_files_that_are_damaged(tmp_path: Path, change: Any, message: str) -> None:
    path = saved(recommender(), tmp_path)
    path.write_bytes(change(path.read_bytes()))
    assert b"<net" not in path.read_bytes()
    with pytest.raises(uncork.ReadError, match=message):
        format.read(path)
    with pytest.raises(uncork.ReadError):
        uncork.load(path)


def test_damaged_constants_are_found_by_check(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = saved(recommender(), tmp_path)
    assert cli.main(["check", str(path)]) == 0
    data = bytearray(path.read_bytes())
    constants = format.read(path)[0].constants
    data[constants.offset] ^= 1
    path.write_bytes(data)
    assert cli.main(["check", str(path)]) == 1
    assert "the digest of its constants" in capsys.readouterr().out


@pytest.mark.skipif(os.name != "posix", reason="modes of POSIX")
def test_a_file_that_others_can_write_to_is_refused(tmp_path: Path) -> None:
    path = saved(recommender(), tmp_path)
    path.chmod(0o666)
    with pytest.raises(uncork.ReadError, match=r"others can write to it.*chmod go-w"):
        uncork.load(path)


def test_what_a_compiled_model_cannot(tmp_path: Path) -> None:
    path = saved(recommender(), tmp_path)
    compiled = uncork.load(path)
    with pytest.raises(uncork.ReadError, match=r"has no layers: give the \.xml"):
        uncork.read_model(path)
    with pytest.raises(uncork.InputError, match="no constant or layer is called 'x'"):
        compiled.exchange(tables={"x": floats(2)})
    with pytest.raises(uncork.UnsupportedError, match=r"profile the \.xml"):
        compiled.profile(*CALLS[0])


def test_options_that_were_settled_are_refused(tmp_path: Path) -> None:
    path = saved(recommender(), tmp_path)
    with pytest.raises(uncork.ValidationError, match=r"precision.* when it was compiled"):
        uncork.load(path, precision="bf16")


# ---- without a compiler


def test_a_file_runs_without_llvmlite_and_without_a_cache(tmp_path: Path) -> None:
    path = saved(recommender(), tmp_path)
    expected = uncork.load(path)(*CALLS[2])["scores"]
    np.save(tmp_path / "expected.npy", expected)
    program = f"""
import sys
sys.modules["llvmlite"] = None
import numpy as np, uncork
ids = np.arange(300, dtype=np.int64) % 50
compiled = uncork.load({str(path)!r})
scores = compiled(ids, np.arange(0, 300, 7, dtype=np.int64))["scores"]
assert scores.tobytes() == np.load({str(tmp_path / "expected.npy")!r}).tobytes()
loaded = [name for name in sys.modules if name.startswith("uncork.")]
for room in ("uncork.ir.read", "uncork.compiler.planner", "uncork.passes.pipeline"):
    assert room not in loaded, room
"""
    environment = {**os.environ, "HOME": str(tmp_path / "nowhere"), "XDG_CACHE_HOME": "/proc/none"}
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True, env=environment)


def test_names_of_classes_go_along(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The model of the README's first example says what its columns are called."""
    example = Path(__file__).resolve().parents[3] / "examples" / "word_language"
    words = tmp_path / "words.uncork"
    uncork.compile_to(example / "model.xml", words)
    given = ["--input", str(example / "words.npz"), "--beside", str(example / "words.txt")]
    said = []
    for model in (example / "model.xml", words):
        assert cli.main(["run", str(model), *given]) == 0
        said.append(capsys.readouterr().out)
    assert "butterfly English      English 100.0%" in said[0]
    assert said[1] == said[0]


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, path = tmp_path / "model.xml", tmp_path / "model.uncork"
    uncork.write_model(recommender(), model)
    assert cli.main(["compile", str(model), "-o", str(path), "--threads", "1"]) == 0
    assert f"saved {path}: 1 plan for" in capsys.readouterr().out
    assert cli.main(["compile", str(model), "-o", str(path)]) == 1
    assert "is there already" in capsys.readouterr().err
    assert cli.main(["compile", str(model), "-o", str(model), "--overwrite"]) == 1
    capsys.readouterr()
    assert cli.main(["show", str(path)]) == 0
    shown = capsys.readouterr().out
    assert "ids  i64[?]" in shown
    assert "1 plan" in shown
    run = ["run", str(path), "-i", "ids=[1,2,3]", "-i", "offsets=[0,2]"]
    assert cli.main(run) == 0
    assert "scores" in capsys.readouterr().out
    shape = ["--shape", "ids=4", "--shape", "offsets=2", "--shape", "ids=8", "--overwrite"]
    assert cli.main(["compile", str(model), "-o", str(path), *shape]) == 0
    assert "2 plans" in capsys.readouterr().out
    assert set(LEVELS) >= {image.level for image in format.read(path)[0].images}


def test_each_way_in_which_sizes_fail_a_guard_has_a_plan(tmp_path: Path) -> None:
    """Sizes that are equal, or one of them 1, as sums of open sizes stretch."""
    net = Net()
    x, y = net.input("x", "f32", [None, 4]), net.input("y", "f32", [None, 4])
    model = net.model(z=net.add("ReLU", 1, net.add("Add", 1, x, y)))
    found = uncork.load(saved(model, tmp_path))
    for rows, others in ((3, 3), (1, 5), (6, 1), (1, 1)):
        a, b = floats(rows, 4), floats(others, 4)
        np.testing.assert_array_equal(found(a, b)["z"], np.maximum(a + b, 0))
    with pytest.raises(uncork.InputError, match="expected"):
        found(floats(3, 4), floats(2, 4))


def test_a_further_plan_that_cannot_be_written_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is the one that has the first plan alone."""
    net = Net()
    x, y = net.input("x", "f32", [None, 4]), net.input("y", "f32", [None, 4])
    weights = net.constant(floats(4, 32), np.float32)
    model = net.model(z=net.add("MatMul", 1, net.add("Add", 1, x, y), weights))
    seen: list[object] = []
    first_segment = write.first_segment

    def only_the_first(plan: Any) -> Any:
        seen.append(plan)
        segment = first_segment(plan)
        if len(seen) > 1:
            raise uncork.UnsupportedError("has no kernel", "z")
        return segment

    monkeypatch.setattr(write, "first_segment", only_the_first)
    path = saved(model, tmp_path)
    sizes = path.stat().st_size, format.read(path)[0].constants.bytes
    assert len(seen) > 1
    assert len(format.read(path)[0].images[0].plans) == 1
    monkeypatch.setattr(write, "first_segment", first_segment)
    monkeypatch.setattr(write, "MOST_SAVED_PLANS", 1)
    path = saved(model, tmp_path)
    assert (path.stat().st_size, format.read(path)[0].constants.bytes) == sizes


@pytest.mark.parametrize("codes", [True, False])
def test_the_target_of_a_file_is_that_of_its_plans(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, codes: bool
) -> None:
    """A model of codes takes AMX in every precision: its kernels are compiled for that, too."""
    written: dict[str, Target] = {}
    monkeypatch.setattr(processor, "may_use_tiles", lambda: True)
    monkeypatch.setattr(
        "uncork.compiler.image.compile.write_compiled",
        lambda to, model, executors, targets, *rest: written.update(targets),
    )
    builder = uncork.Builder("model")
    x = builder.parameter("x", "f32", [2, 64])
    matrix = np.ones((64, 64), np.int8 if codes else np.float32)
    (weights,) = builder.add("Convert", 1, builder.constant(matrix), destination_type="f32")
    builder.result(builder.add("MatMul", 1, x, weights)[0])
    uncork.compile_to(builder.model(), tmp_path / "model.uncork", targets=["native"])
    assert written["native"].tiles is codes
