"""`write_c`: a compiled model as a folder of C, built and run."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import uncork
from tests.compiler import test_branch_sizes as branches
from tests.compiler import test_grown_outputs as grown
from tests.compiler import test_loop_steps as loops
from tests.compiler.image._c import (
    BUSY,
    COMPILER,
    NO_MEMORY,
    NO_ROOM,
    OK,
    WRONG_ARGUMENTS,
    WRONG_SIZES,
    WRONG_VALUES,
    Array,
    Library,
    Tensor,
    build,
    parts,
    tensor,
)
from tests.compiler.test_growing_state import Net
from tests.compiler.test_state import running_sum
from uncork.compiler.image.c.write import write_c
from uncork.compiler.image.compile import compile_to
from uncork.errors import UnsupportedError, ValidationError
from uncork.ops._body import Slicing

pytestmark = pytest.mark.skipif(
    COMPILER is None or sys.platform != "linux", reason="there is no C compiler of Linux"
)
Made = Callable[..., Path]


@pytest.fixture
def folder(tmp_path: Path) -> Made:
    """Writes a model as C; gives the folder."""

    def made(model: uncork.Model, name: str = "model", **options: Any) -> Path:
        compiled = tmp_path / f"{name}.uncork"
        compile_to(model, compiled, **options)
        write_c(compiled, tmp_path / name, name)
        return tmp_path / name

    return made


def product(rows: int | None = None) -> uncork.Model:
    """a [rows, n] times b [n, 2], and a as it is; n is open."""
    builder = uncork.Builder("product")
    a, b = builder.parameter("a", "f32", [rows, None]), builder.parameter("b", "f32", [None, 2])
    builder.result(builder.add("MatMul", 1, a, b)[0], "product")
    builder.result(a, "a")
    return builder.model()


A = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
B = np.array([[1, 0], [0, 1], [1, -1]], np.float32)
WANTED = [[4, -1], [10, -1]]


def test_results_as_by_hand(folder: Made) -> None:
    model = Library(folder(product())).open()
    for _ in range(2):
        made, same = model.run(A, B)
        assert made.tolist() == WANTED
        assert same.tolist() == A.tolist()
    assert model.run(A[:1], B)[0].tolist() == WANTED[:1]
    large = np.ones((2000, 3), np.float32)
    assert model.run(large, B)[0].tolist() == [[2, 0]] * 2000
    assert model.why == ""
    model.close()


def test_sizes_come_before_values(folder: Made) -> None:
    model = Library(folder(product())).open()
    assert model.call([A, B], function="sizes") == OK
    assert [list(t.sizes[: t.rank]) for t in model.results] == [[2, 2], [2, 3]]
    assert [t.data for t in model.results] == [None, None]
    model.close()


def test_results_go_where_they_are_wanted(folder: Made) -> None:
    model = Library(folder(product())).open()
    made, same = np.zeros((2, 2), np.float32), np.zeros((2, 3), np.float32)
    assert model.call([A, B], (Tensor * 2)(tensor(made), tensor(same))) == OK
    assert (made.tolist(), same.tolist()) == (WANTED, A.tolist())
    for at in (0, 1):
        outputs = (Tensor * 2)(tensor(made), tensor(same))
        outputs[at].bytes -= 1
        assert model.call([A, B], outputs) == NO_ROOM
    assert model.run(A, B)[0].tolist() == WANTED
    model.close()


def test_wrong_arguments_are_codes_with_texts(folder: Made) -> None:
    library = Library(folder(product()))
    model = library.open()

    def code(a: Array | Tensor, b: Array | Tensor) -> tuple[int, str]:
        found = model.call([a, b])
        return found, model.why

    assert code(A, B[:2]) == (
        WRONG_SIZES,
        "expected a_1 == b_0 (layer 'MatMul_2' (MatMul-1, id 2))",
    )
    assert code(A[0], B)[0] == WRONG_ARGUMENTS
    assert code(A[:0], B)[0] == WRONG_ARGUMENTS
    assert "a size is outside" in model.why
    assert code(A.astype(np.float64), B)[0] == WRONG_ARGUMENTS
    assert code(A, np.ones((3, 4), np.float32))[0] == WRONG_ARGUMENTS
    short = tensor(A)
    short.bytes -= 4
    assert code(short, B) == (WRONG_ARGUMENTS, "input 'a' has 20 bytes, its sizes need 24")
    nowhere = tensor(A)
    nowhere.data = None
    assert code(nowhere, B) == (WRONG_ARGUMENTS, "input 'a' has no data")
    for change in ({"rank": 9}, {"rank": -1}, {"type": 0}, {"type": 13}):
        strange = tensor(A)
        for field, value in change.items():
            setattr(strange, field, value)
        assert code(strange, B)[0] == WRONG_ARGUMENTS
    for size in (-1, 1 << 62, (1 << 63) - 1):
        huge = tensor(A)
        huge.sizes[0] = size
        assert code(huge, B)[0] == WRONG_ARGUMENTS
    assert library["run"](None, None, None) == WRONG_ARGUMENTS
    assert library["reset"](None) == WRONG_ARGUMENTS
    assert library["open"](None, ctypes.c_int64(0)) == WRONG_ARGUMENTS
    library["close"](None)
    texts = [library["text"](number) for number in range(-1, 9)]
    assert texts[0] == texts[9] == b"no code of a model"
    assert len(set(texts)) == 9
    assert model.run(A, B)[0].tolist() == WANTED
    model.close()


def test_ports_are_told(folder: Made) -> None:
    library = Library(folder(product(2)))

    class Port(ctypes.Structure):
        _fields_ = [
            *((name, ctypes.c_char_p) for name in ("name", "element_type", "shape")),
            ("type", ctypes.c_int32),
            ("rank", ctypes.c_int32),
            ("sizes", ctypes.c_int64 * 8),
        ]

    for function in ("input", "output"):
        library[function].restype = ctypes.POINTER(Port)
    port = library["input"](0).contents
    assert (port.name, port.element_type, port.shape) == (b"a", b"f32", b"2,?")
    assert (port.rank, list(port.sizes[:2])) == (2, [2, -1])
    assert library["output"](1).contents.name == b"a"
    assert not library["input"](2)
    assert not library["output"](-1)
    assert (library["inputs"](), library["outputs"]()) == (2, 2)


def test_each_shape_has_its_plan_and_others_are_told(folder: Made) -> None:
    shapes = [{"a": [1, None]}, {"a": [2, None]}]
    model = Library(folder(product(), shapes=shapes)).open()
    for rows in (2, 1, 2):
        assert model.run(A[:rows], B)[0].tolist() == WANTED[:rows]
    assert model.call([np.ones((3, 3), np.float32), B]) == WRONG_ARGUMENTS
    model.close()


def test_too_little_memory(folder: Made) -> None:
    """A tensor between two layers that nothing can make one."""
    builder = uncork.Builder("chain")
    x = builder.parameter("x", "f32", [None, 4])
    weights = builder.constant(np.eye(4, dtype=np.float32) * 2)
    (once,) = builder.add("MatMul", 1, x, weights)
    (soft,) = builder.add("CumSum", 4, once, builder.constant(np.int64(0)))
    (twice,) = builder.add("MatMul", 1, soft, weights)
    builder.result(twice, "y")
    library = Library(folder(builder.model()))
    model = library.open(1 << 16)
    wanted = 4 * np.cumsum(np.ones((8, 4), np.float32), axis=0)
    assert model.run(np.ones((8, 4), np.float32))[0].tolist() == wanted.tolist()
    assert model.call([np.ones((1 << 16, 4), np.float32)]) == NO_MEMORY
    assert "the limit is 65536" in model.why
    assert model.run(np.ones((8, 4), np.float32))[0].tolist() == wanted.tolist()
    model.close()


def test_variables_go_on_and_begin_again(folder: Made) -> None:
    """A call that fails changes none; instances have their own."""
    library = Library(folder(running_sum()))
    model, other = library.open(), library.open()
    x, good, bad = np.array([1, 2], np.float32), np.array([0]), np.array([7])
    assert model.run(x, good)[0].tolist() == [1.5, 2.5]
    assert model.call([x, bad]) == WRONG_VALUES
    assert "met a value" in model.why
    assert model.run(x, good)[0].tolist() == [2.5, 4.5]
    assert other.run(x, good)[0].tolist() == [1.5, 2.5]
    assert model.reset() == OK
    assert model.run(x, good)[0].tolist() == [1.5, 2.5]
    model.close()
    other.close()


def test_variables_begin_with_what_layers_compute(folder: Made) -> None:
    """s begins with twice the first x; x is then added: 2x + x."""
    builder = uncork.Builder("computed")
    x = builder.parameter("x", "f32", [None])
    (begin,) = builder.add("Multiply", 1, x, builder.constant(np.float32(2)))
    given = {"variable_type": "f32", "variable_shape": uncork.PartialShape([None])}
    (old,) = builder.add("ReadValue", 6, begin, variable_id="s", **given)
    (new,) = builder.add("Add", 1, old, x)
    builder.add("Assign", 6, new, variable_id="s")
    builder.result(new, "sum")
    model = Library(folder(builder.model())).open()

    def run(*values: float) -> Any:
        return model.run(np.array(values, np.float32))[0].tolist()

    assert run(1, 2) == [3, 6]
    assert run(1, 1) == [4, 7]
    assert model.reset() == OK
    assert run(5) == [15]
    model.close()


def decoder() -> uncork.Model:
    """A cache [rows, n, 4] that grows along n, of whose rows an input picks: its sums, and it."""
    net = Net()
    x, rows = net.input("x", "f32", [None, None, 4]), net.input("rows", "i32", [None])
    old = net.read("k", [None, None, 4], net.constant(np.zeros((2, 0, 4)), np.float32))
    whole = net.grown("k", net.picked(old, rows), x, 1)
    sums = net.add("ReduceSum", 1, whole, net.constant([1]), keep_dims=False)
    return net.model(sums=sums, whole=net.add("Negative", 1, whole))


def test_variables_grow_in_place(folder: Made) -> None:
    """Rows that stay, change places, go twice, become fewer and more; held against NumPy's."""
    library = Library(folder(decoder()))
    model, other = library.open(), library.open()
    numbers = np.random.default_rng(3)
    kept = np.zeros((2, 0, 4), np.float32)
    calls = [(3, [0, 1]), (1, [1, 0]), (1, [0, 1]), (300, [1, 1]), (1, [-1]), (2, [0, 0, 0])]
    for count, picks in [*calls, *[(1, [0, 1, 2])] * 40, (1, [2, 0])]:
        new = numbers.standard_normal((len(picks), count, 4)).astype(np.float32)
        kept = np.concatenate([kept[picks], new], axis=1)
        assert model.call([new, np.array(picks, np.int32)], function="sizes") == OK
        assert list(model.results[1].sizes[:3]) == list(kept.shape)
        sums, whole = model.run(new, np.array(picks, np.int32))
        np.testing.assert_array_equal(whole, -kept)
        np.testing.assert_allclose(sums, kept.sum(axis=1), rtol=1e-4, atol=1e-4)
    new, both = np.ones((2, 1, 4), np.float32), np.array([0, 1], np.int32)
    assert other.run(new, both)[1].shape == (2, 1, 4)
    assert model.reset() == OK
    np.testing.assert_array_equal(model.run(new, both)[1], -new)
    model.close()
    other.close()


def test_a_call_that_fails_leaves_variables_that_grow(folder: Made) -> None:
    model = Library(folder(decoder())).open(1 << 16)
    new, both = np.ones((2, 1, 4), np.float32), np.array([0, 1], np.int32)
    model.run(new, both)
    turned = np.array([1, 0], np.int32)
    model.run(new * np.array([[[1]], [[2]]], np.float32), both)
    assert model.call([new, np.array([0, 2], np.int32)]) == WRONG_VALUES
    assert "input 'rows' picks rows that variable 'k' has not" in model.why
    assert model.call([new[:1], turned]) in (WRONG_SIZES, WRONG_ARGUMENTS)
    assert model.call([new[..., :3], turned]) in (WRONG_SIZES, WRONG_ARGUMENTS)
    assert model.call([np.ones((2, 1 << 16, 4), np.float32), turned]) == NO_MEMORY
    assert "variable 'k' takes more, the limit is 65536" in model.why
    short = (Tensor * 2)()
    short[0].data, short[0].bytes = new.ctypes.data, 4
    assert model.call([new, turned], short) == NO_ROOM
    made = model.run(new, turned)[1]
    np.testing.assert_array_equal(-made[..., 0], [[1, 2, 1], [1, 1, 1]])
    model.close()


def test_variables_that_grow_begin_with_what_layers_compute(folder: Made) -> None:
    """Two caches without picks, along the last axis and the first; one begins with twice x."""
    net = Net()
    x = net.input("x", "f32", [2, None])
    begin = net.add("Multiply", 1, x, net.constant(2, np.float32))
    wide = net.grown("wide", net.read("wide", [2, None], begin), x, 1)
    column = net.add("ReduceSum", 1, x, net.constant([1]), keep_dims=False)
    row = net.add("Unsqueeze", 1, column, net.constant([0]))
    first = net.constant([[5.0, 6.0]], np.float32)
    high = net.grown("high", net.read("high", [None, 2], first), row, 0)
    twice = (net.add("Negative", 1, wide), net.add("Negative", 1, high))
    model = Library(folder(net.model(wide=twice[0], high=twice[1]))).open()
    for _ in range(2):
        begun = np.array([[1, 2], [3, 4]], np.float32)
        wide_now, high_now = 2 * begun, np.array([[5, 6]], np.float32)
        for call in range(20):
            new = begun + call
            wide_now = np.concatenate([wide_now, new], 1)
            high_now = np.concatenate([high_now, new.sum(1)[None]])
            made = model.run(new)
            np.testing.assert_array_equal(made[0], -wide_now)
            np.testing.assert_array_equal(made[1], -high_now)
        assert model.reset() == OK
    model.close()


@pytest.mark.parametrize("turns", [1, 65, 5000])
def test_loops_find_how_large_results_are(folder: Made, turns: int) -> None:
    model = Library(folder(grown.counting(64))).open()
    for count in (turns, 2, turns):
        rows, columns = model.run(np.zeros((1, 64), np.float32), np.float32(count))
        wanted = np.repeat(-np.arange(1, max(count, 1) + 1, dtype=np.float32)[:, None], 64, 1)
        np.testing.assert_array_equal(rows, wanted)
        np.testing.assert_array_equal(columns, wanted.reshape(1, -1))
    assert model.call([np.zeros((1, 64), np.float32), np.float32(9)], function="sizes") == OK
    assert model.results[0].sizes[0] in (9, -1)
    model.close()


def test_an_endless_loop_ends_at_the_memory_that_it_may_have(folder: Made) -> None:
    model = Library(folder(grown.counting(64))).open(1 << 22)
    start = np.zeros((1, 64), np.float32)
    assert model.call([start, np.float32(np.inf)]) not in (OK, BUSY)
    assert model.run(start, np.float32(3))[0].shape == (3, 64)
    model.close()


def test_branches_and_their_sizes(folder: Made) -> None:
    model = Library(folder(branches.model())).open()
    for rows, columns in ((2, 3), (1, 1), (300, 70), (5, 4)):
        for condition, repeats in ((True, 3), (False, 1)):
            x = branches.draw(rows, columns)
            branches.holds(lambda c, x: model.run(c, x), np.array(condition), x, repeats)
    model.close()


def test_bodies_grow_with_their_inputs(folder: Made) -> None:
    """Its results and those of the kernels are the recurrence's in f64, but for what each turn
    rounds.
    """
    model = loops.recurrence(Slicing(0), Slicing(0, -1, 0, -1))
    opened, compiled = Library(folder(model)).open(), uncork.compile_model(model, threads=1)
    for turns, other in ((3, 2), (70, 200), (2, 1)):
        given = [loops.draw(turns, other, 4), loops.draw(1, other, 4)]
        states, bounds = recurred(*given)
        outputs = (states[-1:], 2 * states[::-1], states[:, np.newaxis], 2 * states[-1:])
        errors = (bounds[-1:], 2 * bounds[::-1], bounds[:, np.newaxis], 2 * bounds[-1:])
        for results in (opened.run(*given), compiled(*given)):
            for got, want, most in zip(results, outputs, errors, strict=True):
                assert got.shape == want.shape
                assert (abs(got + want) <= most).all(), (abs(got + want) / most).max()
    opened.close()


def recurred(data: np.ndarray, start: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The states of `loops.recurrence` in f64, and what each may be off where every sum of f32 is
    rounded once and tanh is right to two units in the last place.
    """
    half, shift = 2.0**-24, start.astype(np.float64).sum((0, 1))
    off_shift = half * start.shape[1] * abs(start.astype(np.float64)).sum((0, 1))
    state, off = start[0].astype(np.float64), np.zeros(start.shape[1:])
    states, bounds = [], []
    for x in data.astype(np.float64):
        # A sum of three is rounded twice.
        off = off + off_shift + half * (abs(x + state) + abs(x + state + shift))
        state = np.tanh(x + state + shift)
        # The steepest that tanh is within what its argument may be off.
        least = np.maximum(abs(np.arctanh(state)) - off, 0)
        off = off * (1 - np.tanh(least) ** 2) + 4 * half * abs(state)
        states.append(state)
        bounds.append(off)
    return np.array(states), np.array(bounds)


def test_threads_have_an_instance_each(folder: Made) -> None:
    """Steps are shared by threads, too."""
    library = Library(folder(product(), threads=2))
    weights = np.arange(1 << 9, dtype=np.float32).reshape(-1, 2)
    wrong: list[int] = []

    def calls(number: int) -> None:
        model = library.open()
        for rows in range(1, 60):
            a = np.full((rows, len(weights)), number, np.float32)
            if model.run(a, weights)[0].tolist() != [list(number * weights.sum(0))] * rows:
                wrong.append(rows)
        model.close()

    threads = [threading.Thread(target=calls, args=(number,)) for number in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_two_models_in_one_program(folder: Made, tmp_path: Path) -> None:
    """Each with its own names."""
    first, second = folder(product(), "first"), folder(running_sum(), "second")
    (tmp_path / "both.c").write_text(
        '#include <stdio.h>\n#include "first/first.h"\n#include "second/second.h"\n'
        "int main(void) {\n  first_instance *f; second_instance *s;\n"
        "  if (first_open(&f, 0) || second_open(&s, 0)) return 1;\n"
        '  printf("%d %d %d\\n", first_outputs(), second_inputs(), FIRST_BUSY);\n'
        "  first_close(f); second_close(s);\n  return 0;\n}\n"
    )
    objects = []
    for folder_ in (first, second):
        for number, part in enumerate(parts(folder_)):
            objects.append(f"{folder_}/{number}.o")
            build(folder_, "-c", "-o", objects[-1], part)
    build(tmp_path, "-o", "both", "both.c", *objects, "-lpthread")
    done = subprocess.run([tmp_path / "both"], capture_output=True, text=True, check=True)
    assert done.stdout == "2 2 7\n"


@pytest.mark.parametrize(
    ("compiler", "emulator", "targets"),
    [
        ("cc", (), ()),
        ("musl-gcc", (), ()),
        ("aarch64-linux-gnu-gcc", ("qemu-aarch64",), ("aarch64", "aarch64-dotprod")),
        ("x86_64-w64-mingw32-gcc", ("wine",), ("x86-64-v3-windows",)),
    ],
)
def test_the_program_runs(
    folder: Made, compiler: str, emulator: tuple[str, ...], targets: tuple[str, ...]
) -> None:
    """Here, with another C library, and for another processor and system, which emulators stand
    for.
    """
    for program in (compiler, *emulator):
        if shutil.which(program) is None:
            pytest.skip(f"there is no {program}")
    where = folder(product(), targets=targets, threads=1 if "wine" in emulator else 2)
    environment = {**os.environ, "WINEPREFIX": str(where / "wine"), "WINEDEBUG": "-all"}
    if "wine" in emulator:
        subprocess.run(["wine", "wineboot", "-i"], env=environment, capture_output=True, check=True)
    A.tofile(where / "a.bin")
    B.tofile(where / "b.bin")
    build(where, "-static", "-o", "main", "main.c", *parts(where), "-lpthread", compiler=compiler)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        program = next(path for path in (where / "main.exe", where / "main") if path.exists())
        return subprocess.run(
            [*emulator, program, *arguments],
            cwd=where,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    done = run("-n", "3", "-o", "out", "2,3:a.bin", "3,2:b.bin")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "product: f32 [2, 2] 4 -1 10 -1\na: f32 [2, 3] 1 2 3 4\n"
    assert np.fromfile(where / "out0.bin", np.float32).tolist() == [4, -1, 10, -1]
    assert run("2,3:a.bin").returncode == 2
    assert "expected SIZES" in run("2,x:a.bin", "3,2").stderr
    assert "a file of 32 bytes" in run("2,4:a.bin", "3,2:b.bin").stderr
    assert "sizes contradict each other: expected a_1 == b_0" in run("2,4", "3,2").stderr


@pytest.mark.skipif(shutil.which("cmake") is None, reason="there is no cmake")
def test_cmake_makes_libraries_and_the_program(folder: Made) -> None:
    where = folder(product(), threads=2)
    for command in (["cmake", "-S", ".", "-B", "out"], ["cmake", "--build", "out"]):
        subprocess.run(command, cwd=where, capture_output=True, check=True)
    done = subprocess.run([where / "out/main", "2,3", "3,2"], capture_output=True, check=True)
    assert done.stdout.startswith(b"product: f32 [2, 2] 0 0 0 0\n")
    assert {path.name for path in (where / "out").glob("libmodel.*")} == {
        "libmodel.a",
        "libmodel.so",
    }


_RUST = """
#[repr(C)]
struct Tensor { data: *mut f32, bytes: i64, kind: i32, rank: i32, sizes: [i64; 8] }
extern "C" {
    fn model_open(opened: *mut *mut u8, limit: i64) -> i32;
    fn model_run(instance: *mut u8, inputs: *const Tensor, outputs: *mut Tensor) -> i32;
    fn model_close(instance: *mut u8);
}
fn tensor(values: &mut [f32], rows: i64, columns: i64) -> Tensor {
    let sizes = [rows, columns, 0, 0, 0, 0, 0, 0];
    Tensor { data: values.as_mut_ptr(), bytes: 4 * values.len() as i64, kind: 11, rank: 2, sizes }
}
fn main() {
    let (mut a, mut b) = ([1f32, 2., 3., 4., 5., 6.], [1f32, 0., 0., 1., 1., -1.]);
    let (mut made, mut same) = ([0f32; 4], [0f32; 6]);
    let inputs = [tensor(&mut a, 2, 3), tensor(&mut b, 3, 2)];
    let mut outputs = [tensor(&mut made, 0, 0), tensor(&mut same, 0, 0)];
    unsafe {
        let mut model = std::ptr::null_mut();
        assert_eq!(model_open(&mut model, 0), 0);
        assert_eq!(model_run(model, inputs.as_ptr(), outputs.as_mut_ptr()), 0);
        model_close(model);
    }
    println!("{:?} {:?}", made, &outputs[0].sizes[..2]);
}
"""


@pytest.mark.skipif(shutil.which("rustc") is None, reason="there is no rustc")
def test_from_rust(folder: Made) -> None:
    where = folder(product())
    Library(where)
    (where / "main.rs").write_text(_RUST)
    command = ["rustc", "-L", ".", "-l", "dylib=model", "-C", "link-arg=-Wl,-rpath,.", "main.rs"]
    subprocess.run(command, cwd=where, capture_output=True, check=True)
    done = subprocess.run(["./main"], cwd=where, capture_output=True, text=True, check=True)
    assert done.stdout == "[4.0, -1.0, 10.0, -1.0] [2, 2]\n"


def test_targets_are_chosen_by_the_processor(folder: Made, tmp_path: Path) -> None:
    """Of several levels the largest that runs; of none the code says so. What is of another
    architecture is left out by the preprocessor.
    """
    where = folder(product(), targets=["x86-64-v3", "aarch64", "x86-64-v4"])
    text = (where / "image.c").read_text()
    assert text.index('{"x86-64-v4"') < text.index('{"x86-64-v3"') < text.index('{"aarch64"')
    assert Library(where).open().run(A, B)[0].tolist() == WANTED
    compile_to(product(), tmp_path / "arm.uncork", targets=["aarch64"])
    write_c(tmp_path / "arm.uncork", tmp_path / "arm")
    library, instance = Library.__new__(Library), ctypes.c_void_p()
    library.__init__(tmp_path / "arm")  # type: ignore[misc]
    assert library["open"](ctypes.byref(instance), ctypes.c_int64(0)) == 2
    assert not instance


def test_the_runtime_is_small(folder: Made) -> None:
    """The goals: under 500 lines, under 50 kB."""
    where = folder(product(), threads=2)
    assert len((where / "runtime.c").read_text().splitlines()) < 500
    build(where, "-c", "runtime.c")
    assert (where / "runtime.o").stat().st_size < 50_000


def test_what_c_does_not_get_is_refused(folder: Made, tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="an identifier of C, got '2nd'"):
        write_c(tmp_path / "none.uncork", tmp_path / "out", "2nd")
    compile_to(product(), tmp_path / "amx.uncork", targets=["x86-64-v4-amx"])
    with pytest.raises(UnsupportedError, match="C does not get, 'x86-64-v4-amx'"):
        write_c(tmp_path / "amx.uncork", tmp_path / "out")
    shared = {"targets": ["x86-64-v3-windows"], "threads": 2}
    with pytest.raises(UnsupportedError, match=r"several threads.*'x86-64-v3-windows'.*--threads"):
        folder(product(), **shared)
    builder = uncork.Builder("deep")
    x = builder.parameter("x", "f32", [1] * 8 + [None])
    builder.result(builder.add("Negative", 1, x)[0], "y")
    with pytest.raises(UnsupportedError, match="9 dimensions, C takes 8"):
        folder(builder.model())
    assert not (tmp_path / "out").exists()


def test_the_command(tmp_path: Path) -> None:
    """Writes, keeps what is there, and replaces what it wrote, parts of other targets too."""
    uncork.write_model(product(), tmp_path / "product.xml")
    out = tmp_path / "c"

    def command(*options: str) -> str:
        given = ["compile", os.fspath(tmp_path / "product.xml"), "--c", "-o", os.fspath(out)]
        done = subprocess.run(
            [sys.executable, "-m", "uncork", *given, *options],
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout if done.returncode == 0 else done.stderr

    assert "1 plan for aarch64, x86-64-v4" in command(
        "--target", "aarch64", "--target", "x86-64-v4"
    )
    assert "is there already" in command()
    assert "saved" in command("--overwrite")
    assert not (out / "parts/aarch64.S").exists()
    assert Library(out).open().run(A, B)[0].tolist() == WANTED
    (out / "model.uncork").write_text("something else")
    assert "it is no folder of a compiled model" in command("--overwrite")
    assert "an identifier of C, got 'a-b'" in command("--name", "a-b")
