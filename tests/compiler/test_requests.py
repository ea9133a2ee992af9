"""`InferRequest` and `AsyncInferQueue`: calls on threads, their results, their errors, their
variables.
"""

from __future__ import annotations

import os
import threading
from concurrent import futures
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import uncork
from tests.processes._children import run_child


@pytest.fixture(scope="module")
def doubled() -> uncork.CompiledModel:
    builder = uncork.Builder("doubled")
    x = builder.parameter("x", "f32", [None])
    builder.result(builder.add("Add", 1, x, x)[0], "y")
    return uncork.compile_model(builder.model(), threads=1)


@pytest.fixture(scope="module")
def counter() -> uncork.CompiledModel:
    """`total` is the sum of all `x` so far."""
    builder = uncork.Builder("counter")
    x = builder.parameter("x", "f32", [1])
    zero = builder.constant(np.zeros(1, np.float32))
    (before,) = builder.add(
        "ReadValue",
        6,
        zero,
        variable_id="total",
        variable_type="f32",
        variable_shape=uncork.PartialShape([1]),
    )
    (total,) = builder.add("Add", 1, before, x)
    builder.add("Assign", 6, total, variable_id="total")
    builder.result(total, "total")
    return uncork.compile_model(builder.model())


def numbers(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def test_a_request(doubled: uncork.CompiledModel) -> None:
    request = doubled.create_infer_request()
    assert isinstance(request, uncork.InferRequest)
    with pytest.raises(
        uncork.InputError,
        match=r"there are no results yet: call infer\(\), or start_async\(\) and wait\(\)",
    ):
        _ = request.results
    assert request.infer({0: numbers(1, 2)})["y"].tolist() == [2, 4]
    assert request.infer([numbers(3)])[request.outputs[0]].tolist() == [6]
    request.start_async({"x": numbers(4)}, userdata="four")
    request.wait()
    assert request.results["y"].tolist() == [8]
    assert request.userdata == "four"
    request.wait()  # nothing is running
    assert request.wait_for(0)
    assert request.inputs == doubled.inputs


def test_inputs_are_copied_unless_they_are_shared(
    doubled: uncork.CompiledModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The call is held up, so that what is written meanwhile would be seen."""
    request = doubled.create_infer_request()
    gate = threading.Event()
    call = uncork.CompiledModel.__call__

    def held_up(self: uncork.CompiledModel, *inputs: Any, **named: Any) -> Any:
        gate.wait(10)
        return call(self, *inputs, **named)

    monkeypatch.setattr(uncork.CompiledModel, "__call__", held_up)
    for share, expected in ((False, 2), (True, 10)):
        x = numbers(1)
        request.start_async([x], share_inputs=share)
        assert not request.wait_for(1)
        x[:] = 5
        with pytest.raises(uncork.InputError, match=r"request: is busy: wait\(\) for its call"):
            request.start_async([x])
        with pytest.raises(uncork.InputError, match="is busy"):
            request.infer([x])
        gate.set()
        request.wait()
        assert request.results[0].tolist() == [expected]
        gate.clear()


def test_errors_come_out_of_wait(doubled: uncork.CompiledModel) -> None:
    request = doubled.create_infer_request()
    request.start_async({"z": numbers(1)})
    with pytest.raises(uncork.InputError, match="no input is called 'z'"):
        request.wait()
    request.wait()
    assert request.infer([numbers(1)])[0].tolist() == [2]


def test_callbacks(doubled: uncork.CompiledModel) -> None:
    request = doubled.create_infer_request()
    seen: list[Any] = []
    request.set_callback(
        lambda data: seen.append(
            (
                data,
                request.results[0].tolist(),
                threading.current_thread() is threading.main_thread(),
            )
        ),
        "mine",
    )
    request.start_async([numbers(7)])
    request.wait()
    assert seen == [("mine", [14], False)]


def test_every_request_has_its_own_variables(counter: uncork.CompiledModel) -> None:
    first, second = counter.create_infer_request(), counter.create_infer_request()
    assert [first.infer([numbers(1)])[0].item() for _ in range(3)] == [1, 2, 3]
    assert second.infer([numbers(5)])[0].item() == 5
    first.reset_state()
    assert first.infer([numbers(1)])[0].item() == 1
    assert counter.infer_new_request([numbers(9)])[0].item() == 9
    assert second.infer([numbers(1)])[0].item() == 6


@pytest.mark.parametrize(
    "name", ["get_output_tensor", "set_input_tensor", "get_profiling_info", "nothing_like_it"]
)
def test_what_requests_have_not(doubled: uncork.CompiledModel, name: str) -> None:
    with pytest.raises(
        AttributeError, match=f"a request has no '{name}'" + ("$" if "nothing" in name else ": .+")
    ):
        getattr(doubled.create_infer_request(), name)


def test_a_queue(doubled: uncork.CompiledModel) -> None:
    queue = uncork.AsyncInferQueue(doubled, 3)
    results: dict[int, float] = {}
    queue.set_callback(lambda request, number: results.update({number: request.results[0].item()}))
    for number in range(50):
        queue.start_async({0: numbers(number)}, number)
    queue.wait_all()
    assert results == {number: 2.0 * number for number in range(50)}
    assert len(queue) == len(list(queue)) == 3
    assert queue.is_ready()
    queue.start_async([numbers(3)])
    queue.wait_all()
    assert any(" idle" not in repr(r) and r.results[0].tolist() == [6] for r in queue)
    assert isinstance(queue[queue.get_idle_request_id()], uncork.InferRequest)


def test_a_queue_uses_all_of_its_requests(doubled: uncork.CompiledModel) -> None:
    """Each callback waits for the other: with one request at work at a time this would never
    end.
    """
    queue = uncork.AsyncInferQueue(doubled, 2)
    both = threading.Barrier(2, timeout=20)
    queue.set_callback(lambda request, _: both.wait())
    queue.start_async([numbers(1)])
    queue.start_async([numbers(1)])
    queue.wait_all()
    assert not both.broken


def test_errors_of_a_queue(doubled: uncork.CompiledModel) -> None:
    queue = uncork.AsyncInferQueue(doubled, 2)
    queue.start_async({"z": numbers(1)})
    with pytest.raises(uncork.InputError, match="no input is called 'z'"):
        queue.wait_all()
    queue.wait_all()  # an error is raised once

    def fail(request: uncork.InferRequest, data: Any) -> None:
        raise ZeroDivisionError("of the callback")

    queue.set_callback(fail)
    queue.start_async([numbers(1)])
    with pytest.raises(ZeroDivisionError, match="of the callback"):
        queue.wait_all()
    assert queue.is_ready()


def test_numbers_of_requests(doubled: uncork.CompiledModel) -> None:
    assert len(uncork.AsyncInferQueue(doubled)) >= 1
    for jobs in (-1, "2"):
        with pytest.raises(uncork.InputError, match="jobs: expected a number of requests"):
            uncork.AsyncInferQueue(doubled, jobs)  # type: ignore[arg-type]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes are forked here")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_requests_in_a_child_process(doubled: uncork.CompiledModel) -> None:
    """The thread of a request is not there after a fork: the child makes its own."""
    request = doubled.create_infer_request()
    request.start_async([numbers(1)])
    request.wait()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            request.start_async([numbers(2)])
            done = request.wait_for(20_000)
            status = 0 if done and request.results[0].tolist() == [4] else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_each_thread_that_waits_is_told(
    doubled: uncork.CompiledModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one request: what the call raised, or that it is done."""
    request = doubled.create_infer_request()
    gate = threading.Event()
    call = uncork.CompiledModel.__call__

    def held_up(self: uncork.CompiledModel, *inputs: Any, **named: Any) -> Any:
        gate.wait(30)
        return call(self, *inputs, **named)

    monkeypatch.setattr(uncork.CompiledModel, "__call__", held_up)
    told: list[str] = []
    waiting = threading.Semaphore(0)

    def counted(*given: Any) -> Any:
        waiting.release()
        return futures.wait(*given)

    monkeypatch.setattr("uncork.compiler.requests.wait", counted)

    def wait() -> None:
        try:
            request.wait()
            told.append("done")
        except Exception as error:
            told.append(type(error).__name__)

    for inputs, expected in (([numbers(1)], "done"), ({"z": numbers(1)}, "InputError")):
        gate.clear()
        told.clear()
        request.start_async(inputs)
        threads = [threading.Thread(target=wait) for _ in range(3)]
        for thread in threads:
            thread.start()
        assert all(waiting.acquire(timeout=30) for _ in threads)
        gate.set()
        for thread in threads:
            thread.join(30)
        assert told == [expected] * 3


def test_a_callback_may_begin_the_next_call(doubled: uncork.CompiledModel) -> None:
    request = doubled.create_infer_request()
    seen: list[float] = []
    done = threading.Event()

    def again(_: Any) -> None:
        request.wait()  # its own call is done
        seen.append(request.results[0].item())
        if len(seen) < 5:
            request.start_async([request.results[0]])
            with pytest.raises(uncork.InputError, match="cannot wait for its call on its own thr"):
                request.wait()
        else:
            done.set()

    request.set_callback(again)
    request.start_async([numbers(1)])
    assert done.wait(30)
    request.wait()
    assert seen == [2, 4, 8, 16, 32]


@pytest.mark.parametrize("jobs", [1, 2])
def test_callbacks_of_a_full_queue_begin_further_calls(
    doubled: uncork.CompiledModel, jobs: int
) -> None:
    """Each result below 100 is doubled again, by a call that its callback begins."""
    queue = uncork.AsyncInferQueue(doubled, jobs)
    last: dict[int, float] = {}

    def again(request: uncork.InferRequest, number: int) -> None:
        result = request.results[0]
        if result.item() < 100:
            queue.start_async([result], number)
            result[:] = -1  # what was given is a copy
        else:
            last[number] = result.item()

    queue.set_callback(again)
    for number in range(1, 9):
        queue.start_async([numbers(number)], number)
    queue.wait_all()
    assert last == {1: 128, 2: 128, 3: 192, 4: 128, 5: 160, 6: 192, 7: 112, 8: 128}


def test_what_a_callback_of_a_queue_cannot_wait_for(doubled: uncork.CompiledModel) -> None:
    queue = uncork.AsyncInferQueue(doubled, 1)
    told: list[str] = []

    def ask(request: uncork.InferRequest, _: Any) -> None:
        for wait in (queue.wait_all, queue.get_idle_request_id):
            with pytest.raises(uncork.InputError) as caught:
                wait()
            told.append(str(caught.value))

    queue.set_callback(ask)
    queue.start_async([numbers(1)])
    queue.wait_all()
    why = "its own call is not done before it ends"
    assert told == [
        f"queue: a callback cannot wait for all calls: {why}",
        f"queue: a callback cannot wait for an idle request: {why}",
    ]


def test_calls_that_were_begun_end_before_the_process(tmp_path: Path) -> None:
    code = """
import sys, time, numpy as np, uncork
b = uncork.Builder("doubled"); x = b.parameter("x", "f32", [None])
b.result(b.add("Add", 1, x, x)[0], "y")
request = uncork.compile_model(b.model()).create_infer_request()
def late(_): time.sleep(0.5); print(request.results[0].tolist(), flush=True)
request.set_callback(late)
request.start_async([np.ones(2, np.float32)])
"""
    done = run_child(code, home=tmp_path)
    assert (done.returncode, done.stdout.strip()) == (0, "[2.0, 2.0]"), done.stderr
