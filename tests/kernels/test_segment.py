"""Segments: runs of kernel calls that one native call makes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from tests.processes._children import ROOT, run_child
from uncork.kernels.codegen.emit import F32, Kernel
from uncork.kernels.runtime import entry_method
from uncork.kernels.runtime.context import Context
from uncork.kernels.runtime.entries import native_entry
from uncork.kernels.runtime.kernel_cache import STORE
from uncork.kernels.runtime.layout import (
    ALONE,
    ANSWER,
    BUSY,
    CHECK_FAILED,
    HEAD,
    NO_MEMORY,
    OK,
    OTHER_ARGUMENTS,
)
from uncork.kernels.runtime.read_size import ReadSize
from uncork.kernels.runtime.segment import Segment
from uncork.kernels.runtime.segment_plan import (
    ArgumentAddress,
    ArrayGuard,
    Bind,
    BufferAddress,
    BufferLifetime,
    IdentityGuard,
    MadeResult,
    SegmentPlan,
    SizeCheck,
    Slot,
    SlotAddress,
    Step,
    VersionAddress,
)
from uncork.kernels.runtime.target import host_target


def doubling() -> int:
    """target[i] = 2 * source[i]; refuses negative numbers."""
    kernel = Kernel("doubling", ["source", "target", "count"])
    source, target, count = kernel.arguments
    with kernel.loop(0, count) as i:
        x = kernel.load(source + i * 4, F32)
        kernel.stop_unless(x >= 0, i + 1)
        kernel.store(x * 2.0, target + i * 4)
    kernel.finish()
    return STORE.function("doubling", "test", kernel.text)


def segment(*steps: Step, binds: Sequence[Bind] = (), slots: int = 0, **options: Any) -> Segment:
    """A segment of these steps in memory of its own."""
    return Segment(SegmentPlan(steps, tuple(binds)), Context([0] * slots, 0), **options)


def at(argument: int, offset: int = 0) -> ArgumentAddress:
    return ArgumentAddress(argument, offset)


@pytest.mark.parametrize("release", [False, True])
@pytest.mark.parametrize("native", [False, True])
def test_steps_run_in_order(release: bool, native: bool) -> None:
    step = doubling()
    steps = Step(step, (at(0, 4), at(1), 3)), Step(step, (at(1), at(1), Slot(0)))
    made = segment(
        *steps, binds=[Bind(Slot(0), 1)], slots=1, release_cost=-1 if release else 1 << 62
    )
    run = made.run if native else made._block.run_by_ctypes
    source, target = np.array([9, 1, 2, 3], np.float32), np.zeros(3, np.float32)
    assert run(source, target) == -1
    np.testing.assert_array_equal(target, [4, 8, 12])
    source[2] = -1
    assert run(source, target) == 0, "the first step refuses"


def test_the_step_that_refuses_is_named() -> None:
    step = doubling()
    minus = np.array([-1], np.float32)
    made = segment(
        Step(step, (at(0), at(0), 1)), Step(step, (minus.ctypes.data, minus.ctypes.data, 1))
    )
    assert made.run(np.ones(1, np.float32)) == 1


def test_a_segment_may_be_empty() -> None:
    assert segment().run() == OK


@pytest.mark.parametrize("native", [False, True])
def test_one_call_at_a_time(native: bool) -> None:
    made = segment(Step(doubling(), (at(0), at(0), 1)))
    run = made.run if native else made._block.run_by_ctypes
    x = np.ones(1, np.float32)
    made._block[HEAD.index("busy")] = 1  # as while another thread is in it
    assert run(x) == BUSY
    assert x[0] == 1
    made._block[HEAD.index("busy")] = 0
    assert run(x) == OK
    assert x[0] == 2


def test_this_interpreter_has_the_native_entry() -> None:
    assert native_entry(host_target()), "CPython with a GIL: calls should not go through ctypes"


@pytest.mark.parametrize("native", [False, True])
def test_arrays_that_are_not_as_told_are_not_touched(native: bool) -> None:
    f32 = np.dtype("f")
    array_guards = [
        ArrayGuard(f32, (None, 2)),
        ArrayGuard(f32, (None,)),
        ArrayGuard(f32, (3,), written=True),
    ]
    made = segment(Step(doubling(), (at(0), at(2), 3)), array_guards=array_guards)
    run = made.run if native else made._block.run_by_ctypes
    x, y, out = np.ones((2, 2), np.float32), np.ones(2, np.float32), np.zeros(3, np.float32)
    assert run(x, y, out) == OK
    np.testing.assert_array_equal(out, [2, 2, 2])
    frozen = np.zeros(3, np.float32)
    frozen.flags.writeable = False
    others = {
        "too few": (x, y),
        "no array": (None, y, out),
        "a list": ([1.0, 1.0], y, out),
        "a subclass": (np.ma.masked_array(x), y, out),
        "another type": (x.astype(np.float64), y, out),
        "swapped bytes": (x.astype(">f4"), y, out),
        "another rank": (x.reshape(4), y, out),
        "another size": (np.ones((2, 3), np.float32), y, out),
        "not in C order": (np.ones((4, 2), np.float32)[::2], y, out),
        "not to be written": (x, y, frozen),
    }
    for what, arrays in others.items():
        assert run(*arrays) == OTHER_ARGUMENTS, what
    assert run(np.ones((5, 2), np.float32), np.ones(5, np.float32), out) == OK, "an open length"


def test_what_a_segment_works_with_lives_as_long_as_its_entry() -> None:
    import gc
    import weakref

    class Kept:
        pass

    kept = Kept()
    gone = weakref.ref(kept)
    array_guards = [ArrayGuard(np.dtype("f"), (3,))]
    run = segment(
        Step(doubling(), (at(0), at(1), 3)),
        array_guards=array_guards,
        results=[MadeResult(np.dtype("f"), (3,))],
        keep=kept,
    ).run
    del kept
    gc.collect()
    assert gone() is not None
    (result,) = run(np.array([1, 2, 3], np.float32))
    np.testing.assert_array_equal(result, [2, 4, 6])
    del run, result
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("native", [False, True])
def test_results_are_made_and_given(native: bool) -> None:
    array_guards = [
        IdentityGuard(None),
        ArrayGuard(np.dtype("f"), (None,)),
        IdentityGuard("a word"),
    ]
    steps, binds = Step(doubling(), (at(1), at(3), Slot(0))), [Bind(Slot(0), 1)]
    made = segment(
        steps,
        binds=binds,
        slots=1,
        array_guards=array_guards,
        results=[MadeResult(np.dtype("f"), (3,))],
    )
    run = made.run if native else made._block.run_by_ctypes
    given = np.array([1, 2, 3], np.float32)
    first, second = run(None, given, "a word"), run(None, given, "a word")
    assert first[0] is not second[0] and first[0].flags.owndata and first[0].flags.writeable
    np.testing.assert_array_equal(first[0], [2, 4, 6])
    assert run(0, given, "a word") == OTHER_ARGUMENTS
    assert run(None, -given, "a word") == 0
    before = sys.getrefcount(np.dtype("f"))
    for _ in range(1000):
        run(None, given, "a word")
        run(None, -given, "a word")
    assert sys.getrefcount(np.dtype("f")) < before + 100


def reading(element: str, argument: int, slot: int, offset: int = 0) -> Step:
    """The step that reads a size out of an argument."""
    words = at(argument, offset), SlotAddress(Slot(slot)), VersionAddress()
    return Step(STORE.address(ReadSize(element), host_target()), words)


def found_rows() -> tuple[Segment, Context]:
    """Arguments: numbers, and how many of them are doubled. Results: all doubled (of 4 there are),
    and so many as a buffer holds that is found to be large enough.
    """
    step, context = doubling(), Context([0, 2, 0], 1)
    first = SegmentPlan((Step(step, (at(0), at(2), 4)), reading("i64", 1, 0)))
    then = SegmentPlan(
        (
            Step(step, (at(2), BufferAddress(0), Slot(0))),
            Step(step, (BufferAddress(0), at(3), Slot(0))),
            reading("i32", 1, 2, 8),
        ),
        checks=(SizeCheck("at_least", Slot(0), Slot(1), False, 5),),
        buffers=(BufferLifetime(0, Slot(0), 1, 2),),
    )
    last = SegmentPlan((Step(step, (at(3), at(4), Slot(2))),))
    made = [MadeResult(np.dtype(np.float32), sizes) for sizes in ((4,), (Slot(0),), (Slot(2),))]
    guards = ArrayGuard(np.dtype(np.float32), (4,)), ArrayGuard(np.dtype(np.int64), (2,))
    segments = [Segment(first, context, array_guards=guards, results=made[:1])]
    for number, plan in enumerate((then, last), 1):
        segments.append(
            Segment(
                plan,
                context,
                results=made[number : number + 1],
                before=segments[-1],
                first_result=number,
            )
        )
    segments[0].go_on_with(segments[1:])
    return segments[0], context


@pytest.mark.parametrize("native", [False, True])
def test_one_call_goes_on_with_sizes_that_it_finds(native: bool) -> None:
    made, context = found_rows()
    run = made.run if native else made._block.run_by_ctypes
    x = np.array([1, 2, 3, 4], np.float32)
    assert run(x, np.array([3, 1])) == NO_MEMORY
    context.grow(context.get("needed"), 1 << 20)
    for count, few in ((3, 1), (3, 2), (2, 0), (4, 4), (4, 4)):
        results = run(x, np.array([count, few]))
        assert [len(result) for result in results] == [4, count, few]
        np.testing.assert_array_equal(results[0], 2 * x)
        np.testing.assert_array_equal(results[1], 8 * x[:count])
        np.testing.assert_array_equal(results[2], 16 * x[:few])
    assert run(x, np.array([1, 1])) == CHECK_FAILED
    assert context.get("failed") == 5
    assert run(-x, np.array([3, 1])) == 0, "the first step refuses"
    assert run(x.astype(np.float64), np.array([3, 1])) == OTHER_ARGUMENTS
    assert len(run(x, np.array([2, 2]))) == 3, "it is usable as before"


@pytest.mark.parametrize("native", [False, True])
def test_memory_is_taken_from_a_segment_that_nobody_is_in(native: bool) -> None:
    """Also where the sizes are those of the call before, for which nothing is bound anew."""
    step, context = doubling(), Context([0], 1)
    plan = SegmentPlan(
        (Step(step, (at(0), BufferAddress(0), 2)), Step(step, (BufferAddress(0), at(1), 2))),
        binds=(Bind(Slot(0), 0, 0),),
        buffers=(BufferLifetime(0, Slot(0), 0, 1),),
    )
    made = Segment(plan, context)
    run = made.run if native else made._block.run_by_ctypes
    x, y = np.array([1, 2], np.float32), np.zeros(2, np.float32)
    assert run(x, y) == NO_MEMORY
    context.grow(64, 1 << 20)
    assert run(x, y) == OK
    assert made.shut_out()
    assert run(x, y) == NO_MEMORY
    context.grow(64, 1 << 20)
    assert run(2 * x, y) == OK
    np.testing.assert_array_equal(y, 8 * x)
    made._block[HEAD.index("busy")] = 1  # as while a thread is in it
    assert not made.shut_out()


@pytest.mark.skipif(not hasattr(sys, "getrefcount"), reason="counts of references")
def test_results_of_a_call_that_stops_in_the_middle_are_given_back() -> None:
    made, context = found_rows()
    context.grow(4096, 1 << 20)
    x, dtype = np.array([1, 2, 3, 4], np.float32), np.dtype(np.float32)
    made.run(x, np.array([1, 1]))
    before = sys.getrefcount(dtype)
    for _ in range(200):
        assert made.run(x, np.array([1, 1])) == CHECK_FAILED
    assert sys.getrefcount(dtype) < before + 100


@pytest.mark.parametrize("native", [False, True])
def test_a_call_with_answers(native: bool) -> None:
    """It returns the one when all went well, and asks the other in every other case."""
    guard = ArrayGuard(np.dtype(np.float32), (3,))
    made = segment(Step(doubling(), (at(0), at(1), 3)), array_guards=[guard, guard])
    made.return_as(ANSWER)
    run = made.run if native else made._block.run_by_ctypes
    source, target = np.array([1, 2, 3], np.float32), np.zeros(3, np.float32)
    asked: list[int] = []

    def otherwise() -> str:
        asked.append(1)
        return "asked"

    answer = object()
    before = sys.getrefcount(answer)
    for _ in range(100):
        assert run(source, target, answer, otherwise) is answer
    assert sys.getrefcount(answer) == before and not asked
    assert target.tolist() == [2, 4, 6] and run(source, target) == OK
    source[1] = -1  # which the step declines
    assert run(source, target, answer, otherwise) == "asked" and run(source, target) == 0
    assert run(source[:2], target, answer, otherwise) == "asked"
    assert run(source, None, answer, otherwise) == "asked"
    made._block[HEAD.index("busy")] = 1  # as while a thread is in it
    source[1] = 2
    assert run(source, target, answer, otherwise) == "asked" and len(asked) == 4
    with pytest.raises(ZeroDivisionError):
        run(source, target, answer, lambda: 1 // 0)
    assert run(source, target, answer) == OTHER_ARGUMENTS
    with pytest.raises(TypeError, match="takes 0 positional arguments but 2 were given"):
        run(source, target, answer, otherwise, 1, 2)
    made._block[HEAD.index("busy")] = 0
    made.refuse()
    assert run(source, target, answer, otherwise) == "asked"
    assert run(source, target) == OTHER_ARGUMENTS
    made.return_as(0)
    assert run(source, target, answer, otherwise) == OTHER_ARGUMENTS


@pytest.mark.parametrize("native", [False, True])
def test_a_result_without_a_list(native: bool) -> None:
    made = segment(
        Step(doubling(), (at(0), at(1), 3)), results=[MadeResult(np.dtype(np.float32), (3,))]
    )
    run = made.run if native else made._block.run_by_ctypes
    source = np.array([1, 2, 3], np.float32)
    (listed,) = run(source)
    made.return_as(ALONE)
    dtype = np.dtype(np.float32)
    before = sys.getrefcount(dtype)
    for _ in range(100):
        alone = run(source)
        assert type(alone) is np.ndarray and alone.tolist() == listed.tolist() == [2, 4, 6]
    assert sys.getrefcount(alone) == sys.getrefcount(listed)
    source[0] = -1
    for _ in range(100):
        assert run(source) == 0
    assert sys.getrefcount(dtype) < before + 50


@pytest.mark.parametrize("element", ["i8", "u8", "i32", "u32", "i64", "u64"])
def test_sizes_of_every_type_are_read(element: str) -> None:
    dtype = np.dtype(f"{element[0]}{int(element[1:]) // 8}")
    context = Context([0], 0)
    made = Segment(SegmentPlan((reading(element, 0, 0, dtype.itemsize),)), context)
    version = context.get("version")
    for value in (7, 7, np.iinfo(dtype).max if element != "u64" else 1 << 62, 0):
        assert made.run(np.array([9, value], dtype)) == OK
        assert context.value(Slot(0)) == value
    assert context.get("version") == version + 3, "it grows where the size is another one"


@pytest.mark.parametrize("name", ["TYPE", "DATA", "RANK", "SHAPE", "DTYPE", "FLAGS"])
def test_an_interpreter_with_another_layout_has_no_native_entry(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one without a GIL, whose objects begin with more words: what is not where it is expected
    is noticed before anything is made of it.
    """
    monkeypatch.setattr(entry_method, name, getattr(entry_method, name) + 8)
    assert entry_method.lays_out_as_expected.__wrapped__() is False


def test_without_the_native_entry_calls_go_through_ctypes() -> None:
    code = """
import numpy as np
import uncork
from uncork.kernels.runtime import segment
segment.native_entry = lambda target: False
segment.bound = None
model = uncork.load("examples/word_language/model.xml")
words = np.load("examples/word_language/words.npz")
given = {name: words[name] for name in words.files}
by_reference = uncork.load("examples/word_language/model.xml", backend="reference")(given)
for _ in range(3):
    np.testing.assert_allclose(model(given)[0], by_reference[0], rtol=1e-4, atol=1e-6)
assert "reference" not in {step.kernel for step in model.plan.steps}
print("by kernels")
"""
    done = run_child(code, cwd=ROOT)
    assert done.stdout.strip() == "by kernels", done.stdout + done.stderr
