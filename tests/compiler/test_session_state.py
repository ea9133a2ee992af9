"""What requests keep, cut short, shared, saved and given back."""

from __future__ import annotations

import contextlib
import io
import itertools
import re
import threading
import zipfile
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import uncork
from tests.compiler.test_growing_state import BACKENDS, Net, kept
from uncork.errors import InputError

Array = np.ndarray[Any, Any]


def decoder(backend: str = "cpu") -> uncork.CompiledModel:
    """Rows are appended to what is kept, and the sum of all is added to a total; both are
    results.
    """
    net = Net()
    x = net.input("x", "f32", [1, None, 8])
    old = net.read("keys", [1, None, 8], net.constant(np.zeros((1, 0, 8)), np.float32))
    whole = net.grown("keys", old, x, 1)
    total = net.read("total", [1, 8], net.constant(np.zeros((1, 8)), np.float32))
    now = net.add("Add", 1, total, net.add("ReduceSum", 1, x, net.constant([1]), keep_dims=False))
    net.assign("total", now)
    model = net.model(seen=net.add("Multiply", 1, whole, net.constant(1.0, np.float32)), now=now)
    return uncork.compile_model(model, backend=backend, threads=1)  # type: ignore[arg-type]


def rows(count: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal((1, count, 8)).astype(np.float32)


@pytest.mark.parametrize("backend", BACKENDS)
def test_truncate_forgets_what_came_later(backend: str) -> None:
    compiled, prompt, guess, better = decoder(backend), rows(5), rows(3, 1), rows(2, 2)
    compiled(prompt)
    compiled(guess)
    kept(compiled, "keys").truncate(6)
    got = compiled(better)["seen"]
    np.testing.assert_array_equal(got, np.concatenate([prompt, guess[:, :1], better], 1))
    kept(compiled, "keys").truncate(0)
    np.testing.assert_array_equal(compiled(guess)["seen"], guess)


@pytest.mark.parametrize("backend", BACKENDS)
def test_truncate_before_the_first_call(backend: str) -> None:
    compiled = decoder(backend)
    kept(compiled, "keys").truncate(0)
    np.testing.assert_array_equal(compiled(rows(2))["seen"], rows(2))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("count", [-1, 6, True, 2.0, "3"])
def test_no_number_of_elements(backend: str, count: Any) -> None:
    compiled = decoder(backend)
    compiled(rows(5))
    with pytest.raises(InputError, match=r"variable 'keys'.*: expected a number from 0 to 5"):
        kept(compiled, "keys").truncate(count)
    with pytest.raises(InputError, match=r"variable 'total'.* does not grow along an axis"):
        kept(compiled, "total").truncate(0)
    np.testing.assert_array_equal(kept(compiled, "keys").state, rows(5))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_fork_goes_its_own_way(backend: str) -> None:
    compiled, prompt = decoder(backend), rows(5)
    compiled(prompt)
    others = [compiled.fork() for _ in range(3)]
    for index, request in enumerate([compiled, *others]):
        got = request(rows(2, 10 + index))
        np.testing.assert_array_equal(got["seen"], np.concatenate([prompt, rows(2, 10 + index)], 1))
    for index, request in enumerate([*others, compiled]):
        kept(request, "keys").truncate(3)
        request(rows(1, 20 + index))
    for index, request in enumerate([*others, compiled]):
        np.testing.assert_array_equal(
            kept(request, "keys").state, np.concatenate([prompt[:, :3], rows(1, 20 + index)], 1)
        )


def test_a_fork_shares_until_one_writes() -> None:
    pytest.importorskip("llvmlite")
    compiled = decoder()
    compiled(rows(5))
    other = compiled.fork()
    before = kept(compiled, "keys").storage
    assert before is not None and kept(other, "keys").storage is before
    other(rows(1))
    assert kept(other, "keys").storage is not before
    compiled(rows(1))  # the last one needs no copy
    assert kept(compiled, "keys").storage is before


def test_a_reset_leaves_the_others_theirs() -> None:
    compiled = decoder()
    compiled(rows(5))
    other = compiled.fork()
    compiled.reset_state()
    compiled(rows(4, 1))  # may grow in what was kept for it
    np.testing.assert_array_equal(kept(other, "keys").state, rows(5))
    np.testing.assert_array_equal(other(rows(1, 2))["seen"][:, :5], rows(5))


def test_forks_of_one_variable() -> None:
    compiled = decoder()
    compiled(rows(5))
    other = compiled.create_infer_request()
    kept(compiled, "keys").fork(*(v for v in other.query_state() if v.name == "keys"))
    result = other.infer(rows(1, 1))
    np.testing.assert_array_equal(result["seen"][:, :5], rows(5))
    np.testing.assert_array_equal(result["now"], rows(1, 1).sum(1))
    with pytest.raises(InputError, match="expected a variable of another request, got int"):
        kept(compiled, "keys").fork(3)  # type: ignore[arg-type]
    again = decoder()
    kept(compiled, "keys").fork(kept(again, "keys"))  # of another compiled model: a copy
    np.testing.assert_array_equal(kept(again, "keys").state, rows(5))


def test_any_order_of_everything() -> None:
    """Thousands of steps of many requests, beside a plain list for each."""
    generator = np.random.default_rng(5)
    first = decoder()
    requests: list[tuple[uncork.CompiledModel, Array]] = [(first, rows(0))]
    for step in range(1500):
        index = int(generator.integers(len(requests)))
        request, there = requests[index]
        what = generator.choice(["call", "truncate", "fork", "reset", "save", "drop"])
        if what == "call":
            new = rows(int(generator.integers(1, 4)), step)
            there = np.concatenate([there, new], 1)
            np.testing.assert_array_equal(request(new)["seen"], there)
        elif what == "truncate":
            count = int(generator.integers(there.shape[1] + 1))
            kept(request, "keys").truncate(count)
            there = there[:, :count]
        elif what == "fork" and len(requests) < 12:
            requests.append((request.fork(), there))
        elif what == "reset":
            request.reset_state()
            there = rows(0)
        elif what == "save":
            target = int(generator.integers(len(requests)))
            requests[target][0].load_state(request.save_state())
            requests[target] = requests[target][0], there
        elif what == "drop" and len(requests) > 1:
            del requests[index]
            continue
        requests[index] = request, there
    for request, there in requests:
        state = kept(request, "keys").state
        np.testing.assert_array_equal(state, there)


def test_forks_from_many_threads() -> None:
    compiled, prompt = decoder(), rows(300)
    compiled(prompt)
    wrong: list[int] = []

    def work(seed: int) -> None:
        mine = compiled.fork()
        new = rows(3, seed)
        for _ in range(20):
            if not np.array_equal(mine(new)["seen"], np.concatenate([prompt, new], 1)):
                wrong.append(seed)
            kept(mine, "keys").truncate(300)
            mine = mine.fork()

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    np.testing.assert_array_equal(kept(compiled, "keys").state, prompt)


@pytest.mark.parametrize(("one", "two"), [*itertools.product(BACKENDS, BACKENDS)])
def test_saved_state_goes_on_elsewhere(one: str, two: str) -> None:
    compiled, other = decoder(one), decoder(two)
    compiled(rows(5))
    data = compiled.save_state()
    other(rows(2, 3))
    other.load_state(data)
    for name in ("keys", "total"):
        np.testing.assert_array_equal(kept(other, name).state, kept(compiled, name).state)
    np.testing.assert_array_equal(other(rows(1, 1))["seen"], compiled(rows(1, 1))["seen"])
    kept(other, "keys").load(kept(decoder(one), "keys").save())
    assert kept(other, "keys").state.shape == (1, 0, 8)


def test_types_that_numpy_lacks_are_saved() -> None:
    net = Net()
    x = net.input("x", "bf16", [4])
    start = net.builder.constant(np.zeros(4, np.float32), "bf16")
    read = net.read("last", [4], start, element_type="bf16")
    net.assign("last", x)
    compiled = uncork.compile_model(net.model(y=read), threads=1)
    compiled(np.array([1, 2, 3, 0.5], np.float32))
    other = compiled.new_request()
    other.load_state(compiled.save_state())
    np.testing.assert_array_equal(kept(other, "last").state, [1, 2, 3, 0.5])


def test_bytes_of_something_else() -> None:
    compiled = decoder()
    compiled(rows(5))
    data = compiled.save_state()
    before = kept(compiled, "keys").state
    generator = np.random.default_rng(1)
    for bad in (b"", b"PK", data[:100], data[:-30], b"\x93NUMPY" + data):
        with pytest.raises(InputError, match="saved state"):
            compiled.load_state(bad)
    for _ in range(300):  # a flip of a bit is found, or changes a number only
        mangled = bytearray(data)
        mangled[int(generator.integers(len(data)))] ^= 1 << int(generator.integers(8))
        with contextlib.suppress(InputError):
            compiled.new_request().load_state(bytes(mangled))
    with pytest.raises(InputError, match="expected bytes, got str"):
        compiled.load_state("x")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="expected bytes of one variable, got 2"):
        kept(compiled, "keys").load(data)
    np.testing.assert_array_equal(kept(compiled, "keys").state, before)


def test_few_bytes_that_would_be_many() -> None:
    """Compressed zeros, and an array that its header says is larger than any memory."""
    compiled = decoder()
    compiled(rows(5))
    data = compiled.save_state()
    with np.load(io.BytesIO(data)) as file:
        arrays = dict(file)
    arrays["0"] = np.zeros(1 << 20, np.float32)
    packed = io.BytesIO()
    np.savez_compressed(packed, **arrays)
    with pytest.raises(InputError, match=r"saved state: [\d,]+ bytes cannot hold the 4,"):
        compiled.load_state(packed.getvalue())
    header = io.BytesIO()
    about = {"descr": "<f4", "fortran_order": False, "shape": (1 << 50,)}
    np.lib.format.write_array_header_1_0(header, about)
    claims = io.BytesIO()
    with zipfile.ZipFile(claims, "w") as archive:
        for name, content in ((n, m) for n, m in _members(data) if n != "0.npy"):
            archive.writestr(name, content)
        archive.writestr("0.npy", header.getvalue())
    with pytest.raises(InputError, match="saved state: these are no bytes that"):
        compiled.load_state(claims.getvalue())


def test_content_that_is_said_to_be_compressed() -> None:
    compiled = decoder()
    compiled(rows(5))
    data = bytearray(compiled.save_state())
    for mark, method in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        for found in re.finditer(re.escape(mark), bytes(data)):
            data[found.start() + method] = zipfile.ZIP_DEFLATED
    with pytest.raises(InputError, match="saved state: these are no bytes that"):
        compiled.load_state(bytes(data))


def _members(data: bytes) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for name in archive.namelist():
            yield name, archive.read(name)


def test_saved_state_of_another_model() -> None:
    net = Net()
    x = net.input("x", "f32", [1, None, 8])
    old = net.read("rows", [1, None, 8], net.constant(np.zeros((1, 0, 8)), np.float32))
    other = uncork.compile_model(net.model(y=net.grown("rows", old, x, 1)))
    other(rows(2))
    compiled = decoder()
    with pytest.raises(InputError, match="has a variable 'rows', which the model has not"):
        compiled.load_state(other.save_state())
    net = Net()
    x = net.input("x", "f32", [1, None, 4])
    old = net.read("keys", [1, None, 4], net.constant(np.zeros((1, 0, 4)), np.float32))
    narrow = uncork.compile_model(net.model(y=net.grown("keys", old, x, 1)))
    narrow(rows(2)[:, :, :4])
    compiled(rows(3))
    with pytest.raises(InputError, match="variable 'keys'"):
        compiled.load_state(narrow.save_state())
    np.testing.assert_array_equal(kept(compiled, "keys").state, rows(3))
