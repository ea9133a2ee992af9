"""Decoders that keep keys and values in f16, bf16 or bytes: what is rounded, how attention reads
it, and everything that is done with variables.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import uncork
from tests.compiler.test_growing_state import Net
from uncork import cli
from uncork.internal_ops.coded_rows import RowCoding
from uncork.types import ElementType

Array = np.ndarray[Any, Any]
F32 = np.float32
HEADS, SHARED = 4, 2
CODINGS = ("f16", "bf16", "u8")


def decoder(head: int = 64, causal: bool = False, **information: str) -> uncork.Model:
    """Attention of 4 heads that share 2 heads of keys and values, which beams pick. How many
    positions came before is asked of the keys as they are read.
    """
    net = Net()
    x = net.input("x", "f32", [None, None, HEADS * head])
    beam = net.input("beam", "i32", [None])
    shapes = [net.constant([0, 0, count, head]) for count in (HEADS, 2 * SHARED)]
    order = net.constant([0, 2, 1, 3])
    table = net.constant(weights_of(head), F32)
    many = net.add("Reshape", 1, x, shapes[0], special_zero=True)
    queries = net.add("Transpose", 1, many, order)
    both = net.add("Reshape", 1, net.add("MatMul", 1, x, table), shapes[1], special_zero=True)
    rows = net.add("Transpose", 1, both, order)
    batch = net.add("Gather", 8, net.add("ShapeOf", 3, x), net.constant([0]), net.constant(0))
    begin = net.add("Concat", 1, batch, net.constant([SHARED, 0, head]), axis=0)
    empty = net.add("Broadcast", 3, net.constant(0, F32), begin, mode="numpy")
    kept = []
    for number, name in enumerate(("keys", "values")):
        part = net.constant([number * SHARED]), net.constant([(number + 1) * SHARED])
        new = net.add("Slice", 8, rows, *part, net.constant([1]), net.constant([1]))
        old = net.read(name, [None, SHARED, None, head], empty)
        if not number:
            sizes = net.add("ShapeOf", 3, old)
        whole = net.grown(name, net.picked(old, beam), new, 2)
        apart = net.add("Unsqueeze", 1, whole, net.constant([2]))
        ones = net.constant([1, 1, HEADS // SHARED, 1, 1])
        wide = net.add("Broadcast", 3, apart, ones, mode="bidirectional")
        shape = net.constant([0, HEADS, -1, head])
        kept.append(net.add("Reshape", 1, wide, shape, special_zero=True))
    seen = net.add("ScaledDotProductAttention", 13, queries, *kept, causal=causal)
    for name, value in information.items():
        net.builder.info(f"runtime_options/{name}", value)
    return net.model(seen=seen, sizes=sizes)


def weights_of(head: int) -> Array:
    """Numbers of a few bits, whose products with tokens are exact, whatever they are added up
    in.
    """
    shape = HEADS * head, 2 * SHARED * head
    return (np.rint(np.random.default_rng(3).standard_normal(shape) * 4) / 64).astype(F32)


def token(rows: int, count: int, head: int = 64, seed: int = 0) -> Array:
    numbers = np.random.default_rng(seed).standard_normal((rows, count, HEADS * head))
    return (np.rint(numbers * 16) / 16).astype(F32)


def order(rows: int) -> Array:
    return np.arange(rows, dtype=np.int32)


def rounded(rows: Array, name: str) -> Array:
    """Rows in a type and back, in f64 by hand."""
    if name == "f16":
        return rows.astype(np.float16).astype(np.float64)
    if name == "bf16":  # eight bits of each number, the nearest of them
        _, power = np.frexp(rows.astype(np.float64))
        return np.ldexp(np.rint(np.ldexp(rows.astype(np.float64), 8 - power)), power - 8)
    least, most = (f(rows.astype(np.float64), -1, keepdims=True) for f in (np.min, np.max))
    step = (most - least) / 255
    return least + np.rint((rows - least) / step) * step


def attention(x: Array, keys: Array, values: Array, head: int) -> Array:
    """Softmax(q k^T / sqrt(head)) v in f64."""
    queries = x.astype(np.float64).reshape(*x.shape[:2], HEADS, head).transpose(0, 2, 1, 3)
    keys, values = (np.repeat(part, HEADS // SHARED, 1) for part in (keys, values))
    scores = queries @ keys.transpose(0, 1, 3, 2) / np.sqrt(head)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return np.asarray(weights / weights.sum(-1, keepdims=True) @ values)


def keys_and_values(x: Array, head: int) -> tuple[Array, Array]:
    """The rows of keys and values, which the model makes of its input."""
    made = (x @ weights_of(head)).reshape(*x.shape[:2], 2 * SHARED, head).transpose(0, 2, 1, 3)
    return made[:, :SHARED], made[:, SHARED:]


# A head of 20 ends in part of a vector; one of 5 is shorter than any.
@pytest.mark.parametrize("head", [64, 20, 5])
@pytest.mark.parametrize("name", CODINGS)
@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_attention_is_over_what_was_rounded(backend: Any, name: Any, head: int) -> None:
    compiled = uncork.compile_model(
        decoder(head), threads=1, backend=backend, kv_cache_precision=name
    )
    seen_so_far = []
    for count in (30, 1, 3, 40):
        x = token(2, count, head, count)
        seen_so_far.append(x)
        made = keys_and_values(np.concatenate(seen_so_far, 1), head)
        results = compiled(x, order(2))
        states = [variable.state for variable in compiled.query_state()]
        for state, rows in zip(states, made, strict=True):
            wanted = rounded(rows, name)
            step = np.ptp(rows, -1, keepdims=True) / 255 if name == "u8" else 0
            # A number between two codes of a byte may fall to either.
            assert (np.abs(state - wanted) <= 1e-5 + step).all()
            assert np.isclose(state, wanted, 1e-6, 1e-5).mean() > 0.99
        expected = attention(x, *states, head)
        np.testing.assert_allclose(results["seen"], expected, 0, 1e-5 * np.abs(expected).max())
        before = sum(part.shape[1] for part in seen_so_far[:-1])
        np.testing.assert_array_equal(results["sizes"], [2, SHARED, before, head])


@pytest.mark.parametrize("name", CODINGS)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("head", [64, 12])
def test_kernels_compute_as_the_references(name: Any, causal: bool, head: int) -> None:
    pytest.importorskip("llvmlite")
    model = decoder(head, causal)
    fast, exact = (
        uncork.compile_model(model, threads=2, backend=backend, kv_cache_precision=name)
        for backend in ("cpu", "reference")
    )
    for count in (1, 50, 2, 7):
        x = token(3, count, head, count)
        got, wanted = (compiled(x, order(3))["seen"] for compiled in (fast, exact))
        np.testing.assert_allclose(got, wanted, 1e-4, 1e-5)
    assert "reference" not in {step.kernel for step in fast.plan.steps}


def test_attention_reads_codes_as_they_lie() -> None:
    pytest.importorskip("llvmlite")
    compiled = uncork.compile_model(decoder(), threads=1, kv_cache_precision="u8")
    compiled(token(1, 9), order(1))
    kernels = {step.operation: step.kernel for step in compiled.plan.steps}
    assert "_u8" in kernels["FusedAttention-0"]
    assert "DecodedRows-0" not in kernels and "StateValue-0" not in kernels


@pytest.mark.parametrize(("name", "share"), [("f16", 1 / 2), ("bf16", 1 / 2), ("u8", 72 / 256)])
def test_storages_are_smaller(name: Any, share: float) -> None:
    pytest.importorskip("llvmlite")
    sizes = []
    for kept in ("f32", name):
        compiled = uncork.compile_model(decoder(), threads=1, kv_cache_precision=kept)
        compiled(token(1, 300), order(1))
        storages = [variable.storage for variable in compiled.query_state()]
        sizes.append(sum(one.nbytes // one.shape[2] for one in storages if one is not None))
    assert sizes[1] == sizes[0] * share


# ---- rows of bytes


def test_rows_of_bytes_by_hand() -> None:
    coding = RowCoding(ElementType.u8)
    rows = np.array([[0, 255, 100, 3], [-2, -2, -2, -2], [-1, 0.5, 0.25, 1]], F32)
    kept = coding.encode(rows)
    assert kept.shape == (3, 12)
    np.testing.assert_array_equal(kept[0, :4], [0, 255, 100, 3])
    np.testing.assert_array_equal(kept[1, :4], 0)  # all are the least number
    np.testing.assert_array_equal(kept[2, :4], [0, 191, 159, 255])  # 191.25 and 159.375
    grids = np.ascontiguousarray(kept[:, 4:]).view(F32)
    np.testing.assert_array_equal(grids[:2], [[1, 0], [0, -2]])
    np.testing.assert_allclose(grids[2], [2 / 255, -1], 1e-6)
    np.testing.assert_array_equal(coding.decode(kept)[:2], rows[:2])
    assert np.abs(coding.decode(kept)[2] - rows[2]).max() <= 1 / 255 * 1.0001


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_odd_rows_of_bytes(backend: Any) -> None:
    """A row that is not finite is NaN as a whole; those beside it and very large and very small
    ones are what they are.
    """
    compiled = uncork.compile_model(plain(), threads=1, backend=backend, kv_cache_precision="u8")
    rows = np.zeros((1, 1, 6, 10), F32)
    rows[0, 0, 0, 3], rows[0, 0, 1, 0], rows[0, 0, 2, 9] = np.nan, np.inf, -np.inf
    rows[0, 0, 3] = np.linspace(-3e38, 3e37, 10)
    rows[0, 0, 4] = np.linspace(0, 1e-40, 10)
    rows[0, 0, 5] = np.arange(10)
    compiled(rows)
    (state,) = (variable.state for variable in compiled.query_state())
    assert np.isnan(state[0, 0, :3]).all()
    np.testing.assert_allclose(state[0, 0, 3], rows[0, 0, 3], 0, 6.5e35)
    np.testing.assert_allclose(state[0, 0, 4], 0, 0, 1e-40)
    np.testing.assert_allclose(state[0, 0, 5], rows[0, 0, 5], 0, 9 / 255 / 1.99)


@pytest.mark.parametrize("length", [1, 7, 8, 9, 33])
def test_kernels_make_the_codes_of_the_references(length: int) -> None:
    pytest.importorskip("llvmlite")
    model, states = plain(length), []
    rows = np.random.default_rng(0).standard_normal((1, 1, 50, length)).astype(F32)
    rows[0, 0, 7] = 3
    for backend in ("cpu", "reference"):
        compiled = uncork.compile_model(model, threads=1, backend=backend, kv_cache_precision="u8")
        compiled(rows)
        states.append(compiled.query_state()[0].save())
        (storage,) = (variable.state for variable in compiled.query_state())
        assert storage.shape == rows.shape
    coding = RowCoding(ElementType.u8)
    fast = uncork.compile_model(model, threads=1, kv_cache_precision="u8")
    fast.query_state()[0].load(states[0])
    np.testing.assert_array_equal(fast.query_state()[0].state, coding.decode(coding.encode(rows)))


def plain(length: int = 10) -> uncork.Model:
    """A variable that is multiplied, and the product is read."""
    net = Net()
    x = net.input("x", "f32", [1, 1, None, length])
    old = net.read("kept", [1, 1, None, length], net.constant(np.zeros((1, 1, 0, length)), F32))
    whole = net.grown("kept", old, x, 2)
    return net.model(y=net.add("MatMul", 1, x, whole, transpose_b=True))


# ---- what is done with variables


@pytest.mark.parametrize("name", CODINGS)
@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_state_is_f32_for_whoever_asks(backend: Any, name: Any) -> None:
    compiled = uncork.compile_model(decoder(), backend=backend, kv_cache_precision=name)
    x = token(1, 6)
    compiled(x, order(1))
    keys, values = keys_and_values(x, 64)
    states = {variable.name: variable.state for variable in compiled.query_state()}
    for got, rows in ((states["keys"], keys), (states["values"], values)):
        assert got.dtype == F32
        assert np.isclose(got, rounded(rows, name), 1e-5, 1e-5).mean() > 0.99
    other = compiled.new_request()
    for variable in other.query_state():
        variable.state = states[variable.name]
    new = token(1, 1, seed=5)
    got, wanted = (one(new, order(1))["seen"] for one in (other, compiled))
    np.testing.assert_allclose(got, wanted, 1e-3, 1e-4)
    with pytest.raises(uncork.InputError, match="expected f32"):
        other.query_state()[0].state = states["keys"].astype(np.float64) * 1.1
    with pytest.raises(uncork.InputError, match="shape"):
        other.query_state()[0].state = states["keys"][..., :9]


@pytest.mark.parametrize("name", CODINGS)
@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_sessions_are_cut_forked_and_saved(backend: Any, name: Any) -> None:
    model = decoder()
    compiled = uncork.compile_model(model, backend=backend, kv_cache_precision=name)
    x, new = token(1, 6), token(1, 1, seed=1)
    compiled(x, order(1))
    fork, data = compiled.fork(), compiled.save_state()
    wanted = compiled(new, order(1))["seen"]
    np.testing.assert_array_equal(fork(new, order(1))["seen"], wanted)
    for variable in compiled.query_state():
        variable.truncate(6)
    np.testing.assert_array_equal(compiled(new, order(1))["seen"], wanted)
    other = uncork.compile_model(model, backend=backend, kv_cache_precision=name)
    other.load_state(data)
    np.testing.assert_array_equal(other(new, order(1))["seen"], wanted)
    plain = uncork.compile_model(model, backend=backend)
    with pytest.raises(uncork.InputError, match=f"expected f32, got {name}"):
        plain.load_state(data)


@pytest.mark.parametrize("name", CODINGS)
def test_beams_are_picked(name: Any) -> None:
    compiled = uncork.compile_model(decoder(), threads=1, kv_cache_precision=name)
    alone = uncork.compile_model(decoder(), threads=1, kv_cache_precision=name)
    x, new = token(3, 5), token(3, 1, seed=1)
    compiled(x, order(3))
    got = compiled(new, np.array([2, 0, 0], np.int32))["seen"]
    for row, source in enumerate((2, 0, 0)):
        alone.reset_state()
        alone(x[source : source + 1], order(1))
        wanted = alone(new[row : row + 1], order(1))["seen"]
        np.testing.assert_allclose(got[row : row + 1], wanted, 1e-3, 1e-4)


def test_a_model_that_keeps_otherwise_takes_no_place() -> None:
    model = decoder()
    compiled = uncork.compile_model(model, threads=1)
    with pytest.raises(uncork.InputError, match=r"variables: expected.*f32.*got.*u8"):
        compiled.exchange(uncork.compile_model(model, threads=1, kv_cache_precision="u8"))


def test_compiled_files_keep_them_so(tmp_path: Path) -> None:
    pytest.importorskip("llvmlite")
    model, path = decoder(), tmp_path / "decoder.uncork"
    compiled = uncork.compile_model(model, threads=1, kv_cache_precision="u8")
    uncork.compile_to(model, path, threads=1, kv_cache_precision="u8")
    loaded = uncork.load(path)
    x, new = token(1, 6), token(1, 1, seed=1)
    for one in (compiled, loaded):
        one(x, order(1))
    ours, theirs = ([v.state for v in one.query_state()] for one in (compiled, loaded))
    assert all(state.dtype == F32 and state.shape == (1, SHARED, 6, 64) for state in theirs)
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(*(one(new, order(1))["seen"] for one in (compiled, loaded)))
    loaded.load_state(compiled.save_state())
    np.testing.assert_array_equal(*(one(new, order(1))["seen"] for one in (compiled, loaded)))


# ---- who asks for it


@pytest.mark.parametrize(
    ("asked", "given", "kept"),
    [("f16", None, "f16"), ("u8", None, "u8"), ("u8", "f32", "f32"), ("f16", "u8", "u8"),
     ("u4", None, "f32"), ("anything", None, "f32"), ("", None, "f32")],
)  # fmt: skip
def test_files_ask_and_the_user_decides(tmp_path: Path, asked: str, given: Any, kept: str) -> None:
    uncork.write_model(decoder(KV_CACHE_PRECISION=asked), tmp_path / "model.xml")
    options = {} if given is None else {"kv_cache_precision": given}
    compiled = uncork.load(tmp_path / "model.xml", threads=1, backend="reference", **options)
    compiled(token(1, 2), order(1))
    saved = np.load(io.BytesIO(compiled.query_state()[0].save()), allow_pickle=False)
    assert f'"{kept}"' in str(saved["about"])


def test_words_that_it_does_not_take() -> None:
    message = "kv_cache_precision: expected 'as-written', 'f32', 'f16', 'bf16' or 'u8', got 'u4'"
    with pytest.raises(uncork.ValidationError, match=message):
        uncork.compile_model(decoder(), kv_cache_precision="u4")  # type: ignore[arg-type]


def test_at_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "model.xml"
    uncork.write_model(decoder(), path)
    np.save(tmp_path / "x.npy", token(1, 2))
    np.save(tmp_path / "beam.npy", order(1))
    given = ["-i", f"x={tmp_path}/x.npy", "-i", f"beam={tmp_path}/beam.npy"]
    arguments = ["run", str(path), *given, "--kv-cache-precision", "u8", "--backend", "reference"]
    assert cli.main(arguments) == 0
    assert "seen" in capsys.readouterr().out


def test_other_variables_stay_as_they_are() -> None:
    """What grows and meets no attention, what grows along rows, and what does not grow."""
    net = Net()
    x = net.input("x", "f32", [1, 1, None, 4])
    sums = net.grown("summed", net.read("summed", [1, 1, None, 4]), x, 2)
    turned = net.add("Transpose", 1, x, net.constant([0, 1, 3, 2]))
    lying = net.grown("lying", net.read("lying", [1, 1, 4, None]), turned, 3)
    total = net.add("Add", 1, net.read("total", [1]), net.constant([1], F32))
    net.assign("total", total)
    y = net.add("MatMul", 1, x, lying)
    model = net.model(y=y, z=net.add("ReduceSum", 1, sums, net.constant([2])), total=total)
    one, other = (
        uncork.compile_model(model, threads=1, kv_cache_precision=name) for name in ("f32", "u8")
    )
    rows = np.random.default_rng(0).standard_normal((1, 1, 5, 4)).astype(F32)
    for name in ("y", "z", "total"):
        one.reset_state(), other.reset_state()
        np.testing.assert_array_equal(one(rows)[name], other(rows)[name])
    assert one.save_state() == other.save_state()


def test_a_profile_says_how_little_is_read() -> None:
    pytest.importorskip("llvmlite")
    moved = {}
    for name in ("f32", "u8"):
        compiled = uncork.compile_model(decoder(), threads=1, kv_cache_precision=name)
        compiled(token(1, 200), order(1))
        steps = compiled.profile(token(1, 1), order(1)).steps
        (moved[name],) = [s.bytes for s in steps if s.operation == "FusedAttention-0"]
    # Keys and values of 201 positions in two heads of 64; queries and results are 512 bytes each.
    assert moved["f32"] >= 2 * 2 * 201 * 64 * 4
    assert moved["u8"] < 2 * 2 * 201 * 72 + 4096


@pytest.mark.oracle
@pytest.mark.parametrize("name", ["f16", "u8"])
def test_a_token_is_that_of_openvino(tmp_path: Path, name: Any) -> None:
    """It keeps keys and values so, too, with a grid for each row; only its prompt is computed with
    what is not rounded yet.
    """
    openvino = pytest.importorskip("openvino")
    path = tmp_path / "model.xml"
    uncork.write_model(decoder(), path)
    settings = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1}
    exact, ours = (
        uncork.load(path, threads=1, backend="reference", kv_cache_precision=kept)
        for kept in ("f32", name)
    )
    theirs = openvino.Core().compile_model(path, "CPU", {**settings, "KV_CACHE_PRECISION": name})
    request = theirs.create_infer_request()
    for count in (40, 1, 1):
        x = token(1, count, seed=count)
        wanted, got, other = (
            np.asarray(call(x, order(1))["seen"])
            for call in (exact, ours, lambda *given: request.infer(given))
        )
    largest = np.abs(wanted).max()
    rounding = np.abs(got - wanted).max()
    assert rounding > 1e-4 * largest
    assert np.abs(got - other).max() < 0.1 * rounding
