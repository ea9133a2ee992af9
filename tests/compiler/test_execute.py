"""Compiled models: kernels and references together, shapes that change, threads, forks, and no
kernels at all.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import uncork
from uncork.compiler import execute
from uncork.compiler.compile import compile_model
from uncork.errors import InputError

TABLE = np.random.default_rng(0).standard_normal((100, 24)).astype(np.float32)


def bags() -> uncork.Model:
    """Bags with weights, a view of them, and their double: kernels, a view and a reference."""
    builder = uncork.Builder("bags")
    table = builder.constant(TABLE)
    ids, offsets = (
        builder.parameter("ids", "i64", [None]),
        builder.parameter("offsets", "i64", [None]),
    )
    weights = builder.parameter("weights", "f32", [None])
    (sums,) = builder.add(
        "EmbeddingBagOffsetsSum", 3, table, ids, offsets, builder.constant(np.int64(-1)), weights
    )
    (cube,) = builder.add(
        "Reshape", 1, sums, builder.constant(np.array([0, 4, 6])), special_zero=True
    )
    (double,) = builder.add("Add", 1, cube, cube)
    builder.result(sums, "sums")
    builder.result(double, "double")
    builder.result(cube, "cube")
    return builder.model()


def call(generator: np.random.Generator, count: int, size: int) -> dict[str, np.ndarray]:
    return {
        "ids": generator.integers(0, 100, count),
        "offsets": np.sort(generator.integers(0, count + 1, size)),
        "weights": generator.standard_normal(count).astype(np.float32),
    }


def test_both_backends_agree_over_many_shapes() -> None:
    generator = np.random.default_rng(1)
    model = bags()
    fast, slow = compile_model(model), compile_model(model, backend="reference")
    for count in (0, 1, 5, 40, 41, 7):
        for size in (0, 1, 3):
            given = call(generator, count, size)
            for a, b in zip(fast(given), slow(given), strict=True):
                assert a.shape == b.shape
                np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


def test_results_are_the_callers_own() -> None:
    compiled = compile_model(bags())
    given = call(np.random.default_rng(2), 9, 3)
    first = compiled(given)
    kept = [array.copy() for array in first]
    second = compiled(call(np.random.default_rng(3), 9, 3))
    for array, copy in zip(first, kept, strict=True):
        np.testing.assert_array_equal(array, copy)
    for array in second:
        array[...] = np.nan
    for array, copy in zip(compiled(given), kept, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_a_kernel_that_refuses_is_explained_by_the_reference() -> None:
    compiled = compile_model(bags())
    given = call(np.random.default_rng(4), 6, 2)
    given["offsets"][:] = 0
    given["ids"][4] = 2**32 + 1
    with pytest.raises(
        InputError, match=r"EmbeddingBagOffsetsSum-3.*indices\[4\] is 4294967297, expected 0 to 99"
    ):
        compiled(given)
    given["ids"][4] = 1
    assert np.isfinite(compiled(given)["sums"]).all()


def test_lengths_that_disagree_are_refused() -> None:
    compiled = compile_model(bags())
    given = call(np.random.default_rng(5), 6, 2)
    given["weights"] = given["weights"][:5]
    with pytest.raises(
        InputError, match=r"'per_sample_weights': expected shape \[6\], .* got \[5\]"
    ):
        compiled(given)


def test_unsorted_segments_are_summed_all_the_same() -> None:
    builder = uncork.Builder("segments")
    ids, owners = (
        builder.parameter("ids", "i64", [None]),
        builder.parameter("owners", "i64", [None]),
    )
    (sums,) = builder.add(
        "EmbeddingSegmentsSum",
        3,
        builder.constant(TABLE),
        ids,
        owners,
        builder.constant(np.int64(3)),
    )
    builder.result(sums, "sums")
    compiled = compile_model(builder.model())
    got = compiled([4, 5, 6, 7], [2, 0, 2, 0])["sums"]
    np.testing.assert_allclose(
        got, [TABLE[5] + TABLE[7], 0 * TABLE[0], TABLE[4] + TABLE[6]], rtol=1e-6
    )
    with pytest.raises(InputError, match="sorted"):
        compile_model(builder.model(), strict=True)([4, 5, 6, 7], [2, 0, 2, 0])


def test_threads_share_a_model() -> None:
    model = bags()
    compiled, slow = compile_model(model), compile_model(model, backend="reference")
    calls = [call(np.random.default_rng(i), 30 + i % 3, 5 + i % 2) for i in range(16)]
    expected = [slow(given)["double"] for given in calls]
    wrong: list[int] = []

    def work(offset: int) -> None:
        for _ in range(20):
            for i in range(len(calls)):
                j = (i + offset) % len(calls)
                if not np.allclose(compiled(calls[j])["double"], expected[j], rtol=1e-5, atol=1e-5):
                    wrong.append(j)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_process_goes_on(tmp_path: Path) -> None:
    """In a process of its own: forking a test runner that has threads is a warning in itself."""
    uncork.write_model(bags(), tmp_path / "bags.xml")
    program = """
import os, sys
import numpy as np
import uncork
compiled = uncork.load(sys.argv[1])
given = (np.arange(6), np.array([0, 2]), np.ones(6, np.float32))
before = compiled(*given)["double"]
child = os.fork()
after = compiled(*given)["double"]
fresh = uncork.load(sys.argv[1])(*given)["double"]
same = bool((after == before).all() and (fresh == before).all())
if not child:
    os._exit(0 if same else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) or (0 if same else 2))
"""
    assert (
        subprocess.run(
            [sys.executable, "-c", program, str(tmp_path / "bags.xml")], timeout=120, check=False
        ).returncode
        == 0
    )


def test_without_llvmlite_everything_is_a_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execute, "kernels_available", lambda: False)
    compiled = compile_model(bags())
    assert {step.kernel for step in compiled.plan.steps} == {"reference"}
    assert compiled(call(np.random.default_rng(6), 6, 2))["cube"].shape == (2, 4, 6)


def test_many_shapes_need_one_plan() -> None:
    pytest.importorskip("llvmlite")
    model = bags()
    compiled = compile_model(model)
    for size in range(1, 80):
        compiled(np.zeros(80, np.int64), np.arange(size), np.ones(80, np.float32))
    assert compiled.plan.made == 1


def test_inputs_of_any_number_share_a_plan() -> None:
    pytest.importorskip("llvmlite")
    compiled = compile_model(bags())
    for count in range(5, 30):
        compiled(np.zeros(count, np.int64), np.array([0, 1]), np.ones(count, np.float32))
    assert compiled.plan.made == 1


def test_a_scalar_result_of_a_reference_keeps_its_shape() -> None:
    builder = uncork.Builder("scalar")
    x = builder.parameter("x", "f32", [])
    (y,) = builder.add("Add", 1, x, x)
    builder.result(y, "y")
    assert compile_model(builder.model())(np.float32(2))["y"].shape == ()


@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_ids_that_are_converted_first_wrap_as_the_conversion_says(reduction: str) -> None:
    """With ids="as-written". As the PyTorch frontend writes bags: i64 ids and offsets go through a
    Convert to i32.
    """
    builder = uncork.Builder("converted")
    ids, offsets = (
        builder.parameter("ids", "i64", [None]),
        builder.parameter("offsets", "i64", [None]),
    )
    narrow = [
        builder.add("Convert", 1, source, destination_type="i32")[0] for source in (ids, offsets)
    ]
    (bags_,) = builder.add(
        "EmbeddingBagOffsets", 15, builder.constant(TABLE), *narrow, reduction=reduction
    )
    builder.result(bags_, "bags")
    compiled = compile_model(builder.model(), ids="as-written")
    given = (np.array([2**32 + 1, 2, 3]), np.array([0, 1]))
    count = 2 if reduction == "mean" else 1
    expected = [TABLE[1], (TABLE[2] + TABLE[3]) / count]
    np.testing.assert_allclose(compiled(*given)["bags"], expected, rtol=1e-6)
    reference = compile_model(builder.model(), backend="reference", ids="as-written")
    np.testing.assert_allclose(reference(*given)["bags"], expected, rtol=1e-6)
    if execute.kernels_available():
        assert [step.operation for step in compiled.plan.steps] == ["NarrowedBag-0"]
    with pytest.raises(InputError, match=r"indices\[0\] is 100"):
        compiled(np.array([100]), np.array([0]))
