"""Compilation side by side: for each thing the first half is done in Python, one by one, the second
half outside Python's lock.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Collection
from queue import Empty, PriorityQueue
from typing import Generic, TypeVar

from uncork.concurrency import ShortLock

Key = TypeVar("Key")
Made = TypeVar("Made")
#: Is told how many of how many are done.
Progress = Callable[[int, int], object]

#: What a thread does when there is nothing more to take: it sorts behind all that there is.
_END = 1


class SideBySide(Generic[Key, Made]):
    """A run that makes `finish(key, write(key))` of all keys that it is given, as many at a time as
    there are threads. The other threads begin with the first keys, this one when all are there.

    Long texts are finished first: the last one then ends soon after the others.
    """

    def __init__(
        self,
        write: Callable[[Key], str],
        finish: Callable[[Key, str], Made],
        threads: int = 1,
        progress: Progress | None = None,
    ) -> None:
        """A key for which `write` or `finish` raises an Exception has that in `failed`, and no
        result.
        """
        self._write, self._finish, self._progress = write, finish, progress
        self._keys: dict[Key, None] = {}
        self._threads = threads
        self._helpers: list[threading.Thread] = []
        self._written: PriorityQueue[tuple[int, int, str, Key | None]] = PriorityQueue()
        #: What is finished: of an interrupted run, too.
        self.made: dict[Key, Made] = {}
        self.failed: dict[Key, Exception] = {}
        self._done = 0
        self._count = ShortLock()

    def add(self, key: Key) -> None:
        """Have one more key made: its text is written at once."""
        if key in self._keys:
            return
        self._keys[key] = None
        try:
            text = self._write(key)
        except Exception as error:
            self.failed[key] = error
            self._say()
            return
        self._written.put((-len(text), len(self._keys), text, key))
        if len(self._helpers) < min(self._threads - 1, len(self._keys)):
            self._help()

    def _help(self) -> None:
        """Have one more thread finish what is written."""
        thread = threading.Thread(target=self._take, name="uncork compiler", daemon=True)
        with contextlib.suppress(RuntimeError):  # no more threads: those that there are do the work
            thread.start()
            self._helpers.append(thread)

    def finish(self) -> None:
        """Finish all. An interrupt is raised when what was begun has ended; the rest is not
        begun.
        """
        try:
            self._end(1 + len(self._helpers))
            self._take()
        finally:
            self.stop()

    def stop(self) -> None:
        """Begin nothing more, and wait for what is begun."""
        with contextlib.suppress(Empty):
            while True:  # what is left of an interrupted run
                self._written.get_nowait()
        self._end(len(self._helpers))
        helpers, self._helpers = self._helpers, []
        _joined(helpers)

    def _end(self, threads: int) -> None:
        for _ in range(threads):
            self._written.put((_END, 0, "", None))

    def _take(self) -> None:
        while True:
            order, _, text, key = self._written.get()
            if order == _END or key is None:
                return
            try:
                self.made[key] = self._finish(key, text)
            except Exception as error:
                self.failed[key] = error
            self._say()

    def _say(self) -> None:
        with self._count.held():
            self._done += 1
            if self._progress is not None:
                with contextlib.suppress(
                    Exception
                ):  # a terminal that is gone does not stop the work
                    self._progress(self._done, len(self._keys))


def _joined(threads: Collection[threading.Thread]) -> None:
    """Wait for threads, which takes as long as what each has begun: an interrupt waits, too."""
    interrupt: BaseException | None = None
    for thread in threads:
        while thread.is_alive():
            try:
                thread.join()
            except BaseException as error:
                interrupt = error
    if interrupt is not None:
        raise interrupt
