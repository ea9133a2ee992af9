"""The text of kernels: what variables hold where, and that LLVM takes every instruction that the
language has.
"""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from uncork.kernels.codegen import llvm_ir as ir
from uncork.kernels.codegen.emit import BF16, F16, F32, F64, I64, Kernel, Value
from uncork.kernels.runtime.kernel_cache import ObjectStore


def run(kernel: Kernel, folder: Path, *words: int) -> int:
    address = ObjectStore(folder).function(kernel.name, kernel.name, kernel.text)
    given = np.array([*words, 0], np.int64)
    return int(ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(address)(given.ctypes.data))


@pytest.mark.parametrize("number", [0, 1, 2, 3, 7])
def test_a_variable_changes_in_branches_and_loops(number: int, tmp_path: Path) -> None:
    """Set before a branch, in one, in both and in none; read where ways meet."""
    k = Kernel("branches", ["number"])
    (given,) = k.arguments
    total, other = k.variable(k.integer(5)), k.variable(given)
    with k.if_(given > 1):
        total.set(total.get() + 10)
        with k.if_(given > 2):
            total.set(total.get() * 3)
    with k.if_else(given.equals(7)) as (then, otherwise):
        with then:
            other.set(k.integer(100))
        with otherwise:
            other.set(other.get() + total.get())
    with k.loop(0, given) as i:
        total.set(total.get() + i)
        with k.if_(i.equals(4)):
            other.set(other.get() + 1000)
        total.set(total.get() + other.get())
    k.finish(total.get())

    expected, also = 5, number
    if number > 1:
        expected += 10
        if number > 2:
            expected *= 3
    also = 100 if number == 7 else also + expected
    for i in range(number):
        expected += i
        also += 1000 * (i == 4)
        expected += also
    assert run(k, tmp_path, number) == expected


def test_a_loop_that_is_left_early_leaves_its_variables(tmp_path: Path) -> None:
    k = Kernel("early", ["stop"])
    (stop,) = k.arguments
    count = k.variable(k.integer(0))
    with k.while_(lambda: count.get() < 100):
        count.set(count.get() + 1)
        with k.if_(count.get().equals(stop)):
            k.return_(count.get() * 10)
        k.stop_unless(count.get() < 50, k.integer(-1))
    k.finish()
    assert [run(k, tmp_path, stop) for stop in (7, 49, 60)] == [70, 490, -1]


def test_a_variable_needs_no_memory_inside_a_block() -> None:
    k = Kernel("sums", ["number"])
    total = k.variable(k.arguments[0])
    for _ in range(10):
        total.set(total.get() + 1)
    k.finish(total.get())
    body = k.text().partition("body")[2]
    assert "store" not in body and body.count("load") == 1, "the one load is that of the argument"


@pytest.mark.parametrize("count", range(1, 9))
def test_vectors_lie_side_by_side(count: int, tmp_path: Path) -> None:
    """Any number of them, each lane once and in order."""
    k = Kernel("together", ["source", "target"])
    source, target = k.arguments
    vectors = [k.load(source + n * 16, F32, 4) for n in range(count)]
    together = k.side_by_side(vectors)
    assert together.lanes == 4 * count
    k.store(together + together, target)
    k.finish()
    given, found = np.arange(4 * count, dtype=np.float32), np.zeros(4 * count, np.float32)
    run(k, tmp_path, given.ctypes.data, found.ctypes.data)
    np.testing.assert_array_equal(found, 2 * given)


@pytest.mark.parametrize("type_", [F16, F32, F64], ids=str)
@pytest.mark.parametrize("number", [0.0, -0.0, 1 / 3, -2.5, 1e-7, float("inf")])
def test_constants_are_exact(type_: object, number: float, tmp_path: Path) -> None:
    """Each number, alone and in a vector, is NumPy's of the type; -0.0 is not 0.0."""
    dtype = {F16: np.float16, F32: np.float32, F64: np.float64}[type_]
    k = Kernel("constants", ["target"])
    k.store(k.constant(number, type_, 4), k.arguments[0])
    k.store(k.constant(number, type_), k.arguments[0] + 4 * type_.bytes)
    k.finish()
    found, expected = np.empty(5, dtype), np.full(5, number, dtype)
    run(k, tmp_path, found.ctypes.data)
    assert found.tobytes() == expected.tobytes()


def test_bfloat_has_a_name() -> None:
    assert str(ir.VectorType(BF16.llvm, 2)) == "<2 x bfloat>"


def test_types_are_one_object() -> None:
    """Types are compared by identity."""
    assert ir.VectorType(F32.llvm, 16) is ir.VectorType(F32.llvm, 16)
    assert I64.llvm is ir.IntType(64)
    assert I64.llvm.as_pointer() is ir.IntType(64).as_pointer()


def test_a_block_ends_once() -> None:
    k = Kernel("twice", [])
    k.finish()
    with pytest.raises(AssertionError, match="the block has ended"):
        k.finish()


def test_overflow_is_told(tmp_path: Path) -> None:
    k = Kernel("overflow", ["a", "b"])
    pair = k.builder.with_overflow("smul", *(argument.llvm for argument in k.arguments))
    k.finish(Value(k, k.builder.zext(k.builder.extract_value(pair, 1), I64.llvm), I64))
    assert run(k, tmp_path, 1 << 40, 1 << 22) == 0
    assert run(k, tmp_path, 1 << 40, 1 << 23) == 1
