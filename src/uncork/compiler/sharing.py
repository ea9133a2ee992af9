"""What the requests of a compiled model have in common, and the lock that calls take turns by."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from uncork.concurrency import LiveObjects, renews_locks
from uncork.errors import InputError
from uncork.ir.model import Model

if TYPE_CHECKING:
    from uncork.compiler.base_executor import BaseExecutor
    from uncork.compiler.compiled_model import CompiledModel
    from uncork.compiler.native_call import NativeCall


class Turn:
    """A lock by which threads take turns.

    One that comes again in its own turn (in a destructor or a signal handler) is refused.
    """

    def __init__(self, where: str, why: str) -> None:
        """`why` is what a thread is told that comes again."""
        self.lock, self.taken, self._where, self._why = threading.RLock(), False, where, why

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """A context in which it is this thread's turn."""
        with self.lock:
            if self.taken:
                raise self.refusal()
            self.taken = True
            try:
                yield
            finally:
                self.taken = False

    def refusal(self) -> InputError:
        """What a thread is told that comes again in its own turn."""
        return InputError(self._why, self._where)


class Runs(Struct, frozen=True):
    """What makes calls: a checked model, its executor, and how another is made for the same model
    with other constants.
    """

    model: Model
    executor: BaseExecutor
    remade: Callable[[Model], BaseExecutor]


class Users:
    """The requests, and the native calls of bound ones, that one executor makes the calls of.

    An exchange sets `runs` first and then looks who is here; who comes enters first and then looks
    at `runs`. So nobody is left behind.
    """

    def __init__(self, runs: Runs) -> None:
        self.runs = runs
        self.requests: LiveObjects[CompiledModel] = LiveObjects()
        self.bound: LiveObjects[NativeCall] = LiveObjects()
        self.renew_locks()
        renews_locks(self)

    def renew_locks(self) -> None:
        """Make the lock of exchanges: at the start, and in a child process."""
        self.exchanging = Turn(
            f"model '{self.runs.model.name}'",
            "this very thread is in the middle of an exchange, which a destructor or a signal "
            "handler has interrupted: exchange when that has ended",
        )
