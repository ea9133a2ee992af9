"""`Sessions`: many sequences of one model side by side, frame by frame, with the state of each."""

from __future__ import annotations

import hashlib
import sys
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct

from uncork.blas import at_most
from uncork.compiler.arguments import Results, accept, match, shown
from uncork.compiler.execute import Executor
from uncork.compiler.repeated_call import RepeatedCall
from uncork.compiler.saved_state import read_saved, saved
from uncork.compiler.session_batches import Batches
from uncork.compiler.session_memory import SessionMemory
from uncork.compiler.session_model import SessionModel
from uncork.compiler.session_steps import stepped
from uncork.concurrency import lazy, renews_locks
from uncork.errors import InputError, Label, shortened
from uncork.ir.constants import stored_arrays
from uncork.types import Array

if TYPE_CHECKING:
    from uncork.compiler.compiled_model import CompiledModel


#: Seconds after which a thread that waits looks whether what it waits for goes on.
_LOOKS = 0.1


class _AtWork(Struct, frozen=True):
    """Sessions that a thread is at work with, in a call of a function."""

    thread: int
    places: Array
    #: Whether nobody else uses the spare rows meanwhile.
    spares: bool
    frame: FrameType
    #: Held until it has ended, for those who wait.
    ended: Any

    @property
    def goes_on(self) -> bool:
        """Whether the thread is in that call still. An interrupt may have ended it just before it
        could say so.
        """
        frame = sys._current_frames().get(self.thread)
        while frame is not None and frame is not self.frame:
            frame = frame.f_back
        return frame is not None


class Sessions:
    """Sessions of a model with variables: each is a sequence of its own; made by
    `CompiledModel.sessions`.

    >>> sessions = compiled.sessions(capacity=10_000)   # doctest: +SKIP
    >>> sessions.open("anna"); sessions.open("ben")     # doctest: +SKIP
    >>> scores = sessions.step(["ben", "anna"], frames) # doctest: +SKIP

    May be used from several threads: steps of different sessions run side by side, and those of one
    session one after the other. A step that fails, or is interrupted, moves no session.
    """

    def __init__(
        self,
        compiled: CompiledModel,
        capacity: int,
        axes: Mapping[str, int | None] | None = None,
        timeout: float | None = None,
        batched: bool = True,
    ) -> None:
        """See `CompiledModel.sessions`."""
        InputError.when(
            isinstance(capacity, bool) or not isinstance(capacity, int) or capacity < 1,
            f"capacity: expected the number of sessions, 1 or more, got {capacity!r}",
        )
        InputError.when(
            timeout is not None and not (isinstance(timeout, (int, float)) and timeout > 0),
            f"timeout: expected seconds, or None for no end, got {timeout!r}",
        )
        of = compiled.executor
        self.model, self.capacity, self.timeout = compiled.model, capacity, timeout
        self._threads, self._files = of.threads, of.files
        self._batched = SessionModel(
            of.model,
            lambda model, empty: Executor(
                model, of.target, of.threads, of.files, empty, of.memory_limit
            ),
            axes,
            batched,
        )
        self._batches = Batches(self._batched)
        self._order = RepeatedCall(of, self.model.inputs, (), False)
        #: Types and shapes of the frames of the step before.
        self._before = _Frames(self._batched)
        self._converted = not all(port.element_type.is_native for port in self.model.outputs)
        self._memory = SessionMemory(self._batched.kept, capacity, timeout is not None)
        self._places: dict[Hashable, int] = {}
        self._free = list(range(capacity - 1, -1, -1))
        self._at_work: dict[object, _AtWork] = {}
        self.renew_locks()
        renews_locks(self)

    def renew_locks(self) -> None:
        """Make the locks: at the start, and in a child process, where the other threads' steps are
        not made.
        """
        me = threading.get_ident()
        # Entered by C alone: no interrupt comes between taking it and the block that gives it back.
        self._lock = threading.RLock()
        self._at_work = {token: w for token, w in self._at_work.items() if w.thread == me}

    # ---- which sessions there are

    def __len__(self) -> int:
        """How many sessions are open; those that timed out count until they are closed."""
        return len(self._places)

    def __contains__(self, session: Hashable) -> bool:
        """Whether a session is open and has not timed out."""
        place = self._places.get(session)
        return place is not None and not self._is_late(place)

    def __iter__(self) -> Iterator[Hashable]:
        """The names of all sessions."""
        return iter(list(self._places))

    @property
    def nbytes(self) -> int:
        """The bytes that the states of all sessions take, when each has had a step."""
        return self._memory.nbytes

    def open(self, session: Hashable) -> None:
        """Begin a session by its name, which may be any value that can be a key of a dict.

        Raises InputError where it is open, or where there are as many sessions as there is room
        for; those that timed out are closed first.
        """
        _check_name(session)
        with self._lock:
            if session in self._places:
                InputError.when(
                    session in self, "is open already: close() or reset() it", _named(session)
                )
                self._close(session)
            self._place(session)

    def _place(self, session: Hashable) -> int:
        """A place for a session, which has had no step."""
        if not self._free:
            self.close_late()
        if not self._free:  # what an interrupt has left out
            self._free = sorted({*range(self.capacity)} - {*self._places.values()}, reverse=True)
        InputError.when(
            not self._free,
            f"there are {self.capacity:,} sessions, and room for no more: close() some, give a "
            "timeout, or make sessions() with a larger capacity",
            _named(session),
        )
        place = self._free.pop()
        self._memory.fresh[place] = True
        self._memory.used[place] = time.monotonic()
        self._places[session] = place
        return place

    def close(self, session: Hashable) -> None:
        """End a session, after the step that it is in. Raises InputError where it is not open."""
        with self._alone([session]), self._lock:
            self._close(session)

    def _close(self, session: Hashable) -> None:
        self._free.append(self._places.pop(session))

    def reset(self, session: Hashable) -> None:
        """Have a session begin anew. Raises InputError where it is not open."""
        with self._alone([session]) as (place,):
            self._memory.fresh[place] = True
            self._memory.used[place] = time.monotonic()

    def late(self) -> list[Hashable]:
        """The names of sessions that timed out: they had no step for `timeout` seconds."""
        return [name for name, place in list(self._places.items()) if self._is_late(place)]

    def close_late(self) -> list[Hashable]:
        """Close the sessions that timed out; their names. Those that are in a step stay."""
        with self._lock:
            found = self.late()
            for name in found:
                self._close(name)
            return found

    def _is_late(self, place: int) -> bool:
        if self.timeout is None:
            return False
        late = time.monotonic() - float(self._memory.used[place]) > self.timeout
        return late and self._at_work_with([place]) is None

    # ---- steps

    def step(self, sessions: Iterable[Hashable], *inputs: Any, **named: Any) -> Results:
        """Run the next frames of sessions as one batch: row i of every input is of the i-th
        session, and so is row i of every result.

        Inputs are given as to a call. Raises InputError for a session that is not open, that comes
        twice, or that timed out, and for frames that do not fit: no session has moved then.
        """
        names = _listed(sessions)
        arrays: Sequence[Any] | None = self._order.in_order(inputs, named)
        if arrays is None or not self._before.are_like(arrays, len(names)):
            arrays = self._accepted(len(names), match(self.model.inputs, inputs, named))
        for file in self._files:
            file.check()
        turn = self._alone(names, stepping=True)
        with turn as places, at_most(self._threads):
            try:
                made = stepped(self._batches, self._memory, places, arrays, turn.spares)
            except MemoryError as error:
                raise InputError(
                    f"not enough memory for this step: {error}", f"model '{self.model.name}'"
                ) from None
        ports = self.model.outputs
        if self._converted:
            made = shown(ports, made)
        return Results(ports, made)

    def _accepted(self, count: int, values: Sequence[Any]) -> list[Array]:
        """The frames of so many sessions in their carrier types."""
        arrays = []
        batched = self._batched
        for port, value, axis in zip(batched.inputs, values, batched.input_axes, strict=True):
            array = accept(port, value)
            if axis is not None and array.shape[axis] != count:
                raise InputError(
                    f"expected {count} rows in axis {axis}, one for each session, got shape "
                    f"{list(array.shape)}",
                    Label(f"input '{port.name}'", input=port.name),
                )
            arrays.append(array)
        self._before.keep(arrays)
        return arrays

    # ---- turns

    def _alone(self, names: Sequence[Hashable], stepping: bool = False) -> _Turn:
        return _Turn(self, names, stepping)

    def _at_work_with(self, places: Iterable[int]) -> _AtWork | None:
        """Who is at work with one of these places."""
        taken = {*places}
        return self._whose(lambda work: not taken.isdisjoint(work.places.tolist()))

    def _is_inside(self, thread: int) -> bool:
        """Whether a thread is at work already, in a call that something has interrupted."""
        return self._whose(lambda work: work.thread == thread) is not None

    def _whose(self, wanted: Callable[[_AtWork], bool]) -> _AtWork | None:
        """Somebody at work of whom that holds."""
        for token, work in list(self._at_work.items()):
            if wanted(work):
                if work.goes_on:
                    return work
                self._at_work.pop(token, None)
        return None

    def _places_of(self, names: Sequence[Hashable]) -> Array:
        """The places of sessions. Raises InputError where one is not open, or comes twice."""
        count = len(names)
        try:
            places = np.fromiter(map(self._places.__getitem__, names), np.intp, count)
        except KeyError:
            lost = next(name for name in names if name not in self._places)
            raise InputError("is not open: open() it", _named(lost)) from None
        except TypeError:
            for name in names:
                _check_name(name)
            raise
        if len({*names}) < count:
            seen = set[Hashable]()
            twice = next(name for name in names if name in seen or seen.add(name))  # type: ignore[func-returns-value]
            raise InputError("comes twice in one step: step it twice", _named(twice))
        if self.timeout is not None:
            gone = np.flatnonzero(time.monotonic() - self._memory.used[places] > self.timeout)
            for index in gone.tolist():
                if self._is_late(int(places[index])):
                    raise InputError(
                        f"had no step for {self.timeout:g} seconds and timed out: open() it anew",
                        _named(names[index]),
                    )
        return places

    # ---- saved sessions

    def save(self, session: Hashable) -> bytes:
        """The state of a session as bytes, which `load` takes here, or in another process that has
        the same model.
        """
        with self._alone([session]) as (place,):
            values = {}
            if not self._memory.fresh[place]:
                for number, kept in enumerate(self._batched.kept):
                    values[kept.name] = kept.element_type, self._memory.read(number, place)
        return saved(values, self._digest)

    def load(self, session: Hashable, data: bytes) -> None:
        """Set the state of a session from bytes that `save` gave; it is opened where it is not
        open.

        Raises InputError for other bytes and for those of another model: nothing is changed then.
        """
        _check_name(session)
        values = read_saved(data, self._digest)
        state = []
        for kept in self._batched.kept if values else ():
            kind, array = values.pop(kept.name, (None, np.empty(0)))
            if kind is not kept.element_type or array.shape != kept.shape:
                raise InputError(
                    f"expected variable '{shortened(kept.name)}' as {kept.element_type} "
                    f"{list(kept.shape)}, got {kind} {list(array.shape)}",
                    "saved session",
                )
            state.append(array)
        if values:
            raise InputError(
                f"it has a variable '{shortened(next(iter(values)))}', which the model has not",
                "saved session",
            )
        with self._lock:
            if session not in self:
                self.open(session)
        with self._alone([session]) as (place,):
            if state:
                self._memory.set(place, state)
            else:
                self._memory.fresh[place] = True

    @lazy
    def _digest(self) -> str:
        """What tells the model from others: its layers and all its constants."""
        digest = hashlib.sha256()
        for node in self.model.nodes:
            digest.update(
                repr((node.type_name, node.inputs, sorted(node.attributes.items()))).encode()
            )
        for array in stored_arrays(self.model):
            digest.update(repr((array.dtype.str, array.shape)).encode())
            digest.update(
                repr(array.tolist()).encode()
                if array.dtype.hasobject
                else np.ascontiguousarray(array).view(np.uint8).reshape(-1).data
            )
        return digest.hexdigest()

    def __repr__(self) -> str:
        return f"<Sessions of '{self.model.name}': {len(self)} of {self.capacity:,} open>"


class _Turn:
    """A context in which nobody else is at work with some sessions; it is given their places.

    A thread that is at work already (which a signal handler or a destructor has interrupted) waits
    for no other: it is refused.
    """

    def __init__(self, sessions: Sessions, names: Sequence[Hashable], stepping: bool) -> None:
        self._sessions, self._names = sessions, names
        #: Whether the spare rows are the turn's as well: where it is one of a step, and the first.
        self.spares = stepping

    def __enter__(self) -> Array:
        of, me = self._sessions, threading.get_ident()
        while True:
            with of._lock:
                places = of._places_of(self._names)
                other = of._at_work_with(places.tolist()) if of._at_work else None
                if other is None:
                    if of._at_work:
                        self.spares &= of._whose(lambda work: work.spares) is None
                    ended = threading.Lock()
                    ended.acquire()
                    of._at_work[self] = _AtWork(me, places, self.spares, sys._getframe(1), ended)
                    return places
            if of._is_inside(me):
                raise InputError(
                    "some of them are in a step of this very thread, or of one that it would wait "
                    "for, and a destructor or a signal handler has interrupted that step: leave "
                    "them alone there",
                    "sessions",
                )
            if other.ended.acquire(timeout=_LOOKS):
                other.ended.release()

    def __exit__(self, *_: object) -> None:
        work = self._sessions._at_work.pop(self, None)
        if work is not None:
            work.ended.release()


class _Frames:
    """Types and shapes of the frames of a step, but for the number of sessions: frames like these
    need no other look.
    """

    def __init__(self, model: SessionModel) -> None:
        self._axes = model.input_axes
        #: Whether no input is converted.
        self._all_native = all(port.element_type.is_native for port in model.inputs)
        self._kept: list[tuple[Any, ...]] = []

    def keep(self, arrays: Sequence[Array]) -> None:
        """Keep those of a step that may be made."""
        if self._all_native:
            self._kept = [
                (array.dtype, axis, *_around(array.shape, axis))
                for array, axis in zip(arrays, self._axes, strict=True)
            ]

    def are_like(self, arrays: Sequence[Any], count: int) -> bool:
        """Whether these, of so many sessions, are like them, and lie in memory as they do."""
        kept = self._kept
        if len(kept) != len(arrays):
            return False
        for array, (dtype, axis, before, after) in zip(arrays, kept, strict=True):
            if (
                type(array) is not np.ndarray
                or array.dtype is not dtype
                or not array.flags.c_contiguous
            ):
                return False
            shape = array.shape
            if axis is None:
                if shape != before:
                    return False
            elif (
                len(shape) <= axis
                or shape[axis] != count
                or shape[axis + 1 :] != after
                or shape[:axis] != before
            ):
                return False
        return True


def _around(shape: tuple[int, ...], axis: int | None) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The sizes before an axis and those behind it; without one all are before."""
    return (shape, ()) if axis is None else (shape[:axis], shape[axis + 1 :])


def _listed(sessions: Iterable[Hashable]) -> list[Hashable]:
    if type(sessions) is not list and (
        isinstance(sessions, (str, bytes)) or not isinstance(sessions, Iterable)
    ):
        raise InputError(
            f"expected a list of names, got {sessions!r}: give [{sessions!r}]", "sessions"
        )
    if isinstance(sessions, np.ndarray) and sessions.ndim == 1 and sessions.dtype.kind in "iubU":
        names: list[Hashable] = (
            sessions.tolist()
        )  # as the keys of a dict are: equal, and faster to find
    else:
        names = list(sessions)
    if not names:
        raise InputError("expected at least one session, got an empty list", "sessions")
    return names


def _check_name(session: Hashable) -> None:
    try:
        hash(session)
    except TypeError:
        raise InputError(
            f"expected a name that can be a key of a dict, such as a string or a number, got "
            f"{type(session).__name__}",
            "sessions",
        ) from None


def _named(session: Hashable) -> str:
    return f"session {shortened(repr(session))}"
