"""`InferRequest` and `AsyncInferQueue`: calls on threads of their own, as servers written for
OpenVINO make them.

A request is one call at a time with variables of its own; a queue hands each call to the next idle
request. Calls with kernels run outside Python's lock, so requests work side by side; give
`threads=1` to `compile_model` where there are as many requests as processors.
"""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, wait
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

import numpy as np

from uncork.compiler.arguments import Results
from uncork.compiler.threads import available_threads
from uncork.concurrency import in_child
from uncork.errors import InputError
from uncork.ir.elsewhere import REQUEST, missing

if TYPE_CHECKING:
    from uncork.compiler.compiled_model import CompiledModel
    from uncork.compiler.variables import VariableState

    _Calls = SimpleQueue[tuple[Future[None], Callable[[], None]] | None]

Callback = Callable[..., object]
After = Callable[[BaseException | None], None]


#: The threads for calls that live, with what each is given to do.
_threads: dict[threading.Thread, _Calls] = {}
in_child(_threads.clear)


_is_ending = False


@atexit.register
def _finish_all() -> None:
    """Have every call that was begun end before the process does; none begins any more."""
    global _is_ending
    _is_ending = True
    for thread, calls in list(_threads.items()):
        calls.put(None)
        thread.join()


def _serve(calls: _Calls) -> None:
    while (task := calls.get()) is not None:
        future, call = task
        try:
            call()
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(None)
        del task, future, call  # nothing of a call lives until the next one comes
    _threads.pop(threading.current_thread(), None)


class _Thread:
    """A thread for calls, made when it is first needed; a process that was forked makes one of its
    own.

    A destructor may give it a call at any moment, also while it is given one: an executor of
    `concurrent.futures` would then wait for itself.
    """

    def __init__(self) -> None:
        self._calls: _Calls | None = None
        self._process, self._ident = 0, 0

    @property
    def is_this(self) -> bool:
        """Whether it is the thread that asks."""
        return threading.get_ident() == self._ident and self._process == os.getpid()

    def submit(self, call: Callable[[], None]) -> Future[None]:
        """Have the call made, after those before it. Raises InputError while the process ends."""
        if _is_ending:
            raise InputError("no call can be begun while the process ends", "request")
        if self._calls is None or self._process != os.getpid():
            calls: _Calls = SimpleQueue()
            thread = threading.Thread(
                target=_serve, args=(calls,), name="uncork request", daemon=True
            )
            _threads[thread] = calls
            try:
                thread.start()
            except RuntimeError:  # no more threads
                _threads.pop(thread, None)
                raise
            weakref.finalize(self, calls.put, None)
            self._calls, self._process, self._ident = calls, os.getpid(), thread.ident or 0
        future: Future[None] = Future()
        self._calls.put((future, call))
        return future


class _Begun:
    """A call that was begun."""

    def __init__(self, future: Future[None]) -> None:
        self.future = future
        #: Whether somebody who waited was told how it ended.
        self.is_told = False


class InferRequest:
    """One call of a model at a time, now or on a thread of its own, with variables of its own.

    >>> request = compiled.create_infer_request()  # doctest: +SKIP
    >>> request.start_async({"ids": ids})          # doctest: +SKIP
    >>> request.wait()                             # doctest: +SKIP
    >>> request.results["scores"]                  # doctest: +SKIP
    """

    def __init__(self, compiled: CompiledModel) -> None:
        self._compiled = compiled.new_request()
        self._thread = _Thread()
        self._begun: _Begun | None = None
        self._is_at_work = False
        self._results: Results | None = None
        self._callback: tuple[Callback, Any] | None = None
        #: What was given to `start_async` with the inputs.
        self.userdata: Any = None

    @property
    def inputs(self) -> tuple[Any, ...]:
        """The inputs of the model."""
        return self._compiled.inputs

    @property
    def outputs(self) -> tuple[Any, ...]:
        """The outputs of the model."""
        return self._compiled.outputs

    def infer(
        self, inputs: Any = None, *, share_inputs: bool = True, share_outputs: bool = True
    ) -> Results:
        """Run the model on what a call of the model takes as one argument: a mapping, a list of all
        inputs or one array.

        Results are always the caller's own, and inputs are only read: what is shared makes no
        difference.
        """
        self._check_idle()
        self._results = self._call(inputs)
        return self._results

    def start_async(
        self, inputs: Any = None, userdata: Any = None, share_inputs: bool = False
    ) -> None:
        """Begin a call on the request's thread; `wait` ends it. The inputs are copied first, unless
        they are shared.

        Raises InputError while a call is running.
        """
        self._check_idle()
        self._start(inputs, userdata, share_inputs, None)

    def wait(self) -> None:
        """Wait for the call that was begun, and for its callback. Raises what they raised."""
        self._finished(None)

    def wait_for(self, timeout: float) -> bool:
        """Wait at most so many milliseconds; whether the call is done. Raises what the call
        raised.
        """
        return self._finished(timeout / 1000)

    def set_callback(self, callback: Callback, userdata: Any = None) -> None:
        """Have `callback(userdata)` called on the request's thread when a call begun by
        `start_async` has succeeded. It may begin the next one.
        """
        self._callback = (callback, userdata)

    @property
    def results(self) -> Results:
        """What the last call gave. Raises InputError before there is one."""
        if self._results is None:
            raise InputError(
                "there are no results yet: call infer(), or start_async() and wait()", "request"
            )
        return self._results

    def reset_state(self) -> None:
        """Put the variables of this request back to their initial values."""
        self._check_idle()
        self._compiled.reset_state()

    def query_state(self) -> list[VariableState]:
        """The variables of this request, to read, set and reset one by one: see
        `VariableState`.
        """
        self._check_idle()
        return self._compiled.query_state()

    def fork(self) -> InferRequest:
        """A request for other calls whose variables have the values of these: see
        `CompiledModel.fork`.
        """
        self._check_idle()
        return InferRequest(self._compiled.fork())

    def save_state(self) -> bytes:
        """The values of the variables of this request as bytes: see `load_state`."""
        self._check_idle()
        return self._compiled.save_state()

    def load_state(self, data: bytes) -> None:
        """Set the variables of this request from such bytes: see `CompiledModel.load_state`."""
        self._check_idle()
        self._compiled.load_state(data)

    def _check_idle(self) -> None:
        if self._is_at_work:
            raise InputError(
                "is busy: wait() for its call, or use one request for each call at a time",
                "request",
            )

    def _call(self, inputs: Any) -> Results:
        return self._compiled() if inputs is None else self._compiled(inputs)

    def _start(self, inputs: Any, userdata: Any, share_inputs: bool, after: After | None) -> None:
        """Begin a call; `after` is called on the thread with the error, or None, and then has to
        say the error.
        """
        given = inputs if share_inputs else copied(inputs)
        self.userdata = userdata

        def make() -> None:
            try:
                try:
                    self._results = self._call(given)
                finally:
                    self._is_at_work = False
                if self._callback is not None:
                    self._callback[0](self._callback[1])
            except BaseException as error:
                if after is None:
                    raise
                after(error)
            else:
                if after is not None:
                    after(None)

        self._is_at_work = True
        try:
            self._begun = _Begun(self._thread.submit(make))
        except BaseException:
            self._is_at_work = False
            raise

    def _finished(self, seconds: float | None) -> bool:
        begun = self._begun
        if begun is None:
            return True
        if self._thread.is_this:
            if self._is_at_work:
                raise InputError(
                    "cannot wait for its call on its own thread, which makes that call: wait in "
                    "another one",
                    "request",
                )
            return True  # in a callback: the call is done
        was_told = begun.is_told  # several threads may wait: each of them is told
        if not wait([begun.future], seconds).done:
            return False
        begun.is_told = True
        if not was_told:
            begun.future.result()
        return True

    if not TYPE_CHECKING:  # a name that is not there is a mistake that mypy finds

        def __getattr__(self, name: str) -> Any:
            raise missing(self, "a request", name, REQUEST)

    def __repr__(self) -> str:
        what = (
            "running"
            if self._is_at_work
            else "idle"
            if self._results is None
            else repr(self._results)
        )
        return f"<InferRequest of {self._compiled.model.name!r}: {what}>"


def own_array(value: Any) -> Any:
    """A copy of an array; other values are as they are."""
    return np.array(value) if isinstance(value, np.ndarray) else value


def copied(inputs: Any, own: Callable[[Any], Any] = own_array) -> Any:
    """The inputs with arrays of their own."""
    if isinstance(inputs, Mapping):
        return {key: copied(value, own) for key, value in inputs.items()}
    if isinstance(inputs, (list, tuple)):
        return [copied(value, own) for value in inputs]
    return own(inputs)


class AsyncInferQueue:
    """Requests that take turns: `start_async` hands a call to an idle one, and waits for one when
    all are at work.

    >>> queue = uncork.AsyncInferQueue(compiled, 4)                       # doctest: +SKIP
    >>> queue.set_callback(lambda request, row: keep(row, request.results))  # doctest: +SKIP
    >>> for row, ids in enumerate(batches):                               # doctest: +SKIP
    ...     queue.start_async({"ids": ids}, row)
    >>> queue.wait_all()                                                  # doctest: +SKIP
    """

    def __init__(self, model: CompiledModel, jobs: int = 0) -> None:
        """A queue of `jobs` requests; without a number, of as many as there are processors."""
        InputError.when(
            not isinstance(jobs, int) or jobs < 0,
            f"jobs: expected a number of requests, or 0 for one each processor, got {jobs!r}",
        )
        self._requests = [InferRequest(model) for _ in range(jobs or available_threads())]
        self._idle = list(range(len(self._requests)))
        self._changed = threading.Condition()
        #: Calls that callbacks began while no request was idle.
        self._later: deque[tuple[Any, Any]] = deque()
        self._callback: Callback | None = None
        self._error: BaseException | None = None

    def set_callback(self, callback: Callback) -> None:
        """Have `callback(request, userdata)` called on the request's thread after every call that
        has succeeded. It may begin further calls: where no request is idle, they are made when one
        is, and `start_async` does not wait.
        """
        self._callback = callback

    def start_async(
        self, inputs: Any = None, userdata: Any = None, share_inputs: bool = False
    ) -> None:
        """Begin a call on an idle request; waits for one. The inputs are copied first, unless they
        are shared.

        Raises what a call before it, or its callback, raised.
        """
        self._raise()
        given = inputs if share_inputs else copied(inputs)
        number = self._next_idle((given, userdata))
        if number is None:
            return
        try:
            self._raise()
        except BaseException:
            self._release(number)
            raise
        self._begin(given, userdata, number)

    def wait_all(self) -> None:
        """Wait for every call. Raises what the first of them that failed raised, or its
        callback.
        """
        self._refuse_waiting("all calls")
        with self._changed:
            self._changed.wait_for(lambda: len(self._idle) == len(self._requests))
        self._raise()

    def is_ready(self) -> bool:
        """Whether a request is idle: `start_async` would not wait."""
        with self._changed:
            return bool(self._idle)

    def get_idle_request_id(self) -> int:
        """The number of the request that takes the next call; waits until one is idle."""
        while True:
            idle = self._idle[:1]
            if idle:
                return idle[0]
            self._refuse_waiting("an idle request")
            with self._changed:
                self._changed.wait_for(lambda: bool(self._idle))

    def __len__(self) -> int:
        return len(self._requests)

    def __iter__(self) -> Iterator[InferRequest]:
        return iter(self._requests)

    def __getitem__(self, number: int) -> InferRequest:
        return self._requests[number]

    @property
    def _is_in_a_call(self) -> bool:
        """Whether this thread is that of a request, which makes a call or its callback."""
        return any(request._thread.is_this for request in self._requests)

    def _refuse_waiting(self, what: str) -> None:
        InputError.when(
            self._is_in_a_call,
            f"a callback cannot wait for {what}: its own call is not done before it ends",
            "queue",
        )

    def _next_idle(self, call: tuple[Any, Any]) -> int | None:
        """The number of a request that is idle now; None where a callback began the `call`, and it
        has to wait for one.
        """
        with self._changed:
            while True:
                try:
                    return self._idle.pop(0)
                except IndexError:
                    if self._is_in_a_call:
                        self._later.append(call)
                        return None
                self._changed.wait_for(lambda: bool(self._idle))

    def _begin(self, given: Any, userdata: Any, number: int) -> None:
        request = self._requests[number]

        def done(error: BaseException | None) -> None:
            with self._changed:
                self._error = self._error or error
            self._release(number)

        if self._callback is not None:
            callback = self._callback
            request.set_callback(lambda _: callback(request, userdata))
        try:
            request._start(given, userdata, True, done)
        except BaseException:
            self._release(number)
            raise

    def _release(self, number: int) -> None:
        """Have the request make a call that waits, else be idle."""
        with self._changed:
            call = self._later.popleft() if self._later else None
            if call is None:
                self._idle.append(number)
                self._changed.notify_all()
        if call is not None:
            self._begin(*call, number)

    def _raise(self) -> None:
        with self._changed:
            error, self._error = self._error, None
        if error is not None:
            raise error
