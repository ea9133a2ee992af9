"""`Live`: the model of a file, which is loaded again when the file is replaced."""

from __future__ import annotations

import atexit
import os
import threading
import warnings
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from uncork.compiler.arguments import Results
from uncork.compiler.load import load
from uncork.concurrency import in_child, renews_locks
from uncork.errors import InputError, UncorkError, UncorkWarning

if TYPE_CHECKING:
    from uncork.compiler.compiled_model import CompiledModel
    from uncork.compiler.tables import GivenTable

#: What a file is known by: its number, its length, and when it was written; None for one that is
#: not there.
_Look = tuple[object, ...]

#: Threads that look, each with what ends it.
_watching: dict[threading.Thread, threading.Event] = {}
in_child(_watching.clear)


@atexit.register
def _end_all() -> None:
    """Have no thread compile anything while the process ends."""
    for thread, end in list(_watching.items()):
        end.set()
        thread.join()


class Live:
    """A model that follows its file: calls go on while a new file is loaded, and then are made by
    it.

    >>> live = uncork.Live("model.xml")   # doctest: +SKIP
    >>> live(ids)["scores"]               # doctest: +SKIP

    The model, its weights and the files of `tables` are looked at every so many seconds; files that
    have changed, and not since the last look, are loaded, checked and compiled on a thread of its
    own. A file that cannot be loaded, or has other inputs, outputs or variables, changes nothing:
    `error` says what is wrong with it, and so does a warning, once.

    Files are copied, so that one that is written over does not change the model in use. Where files
    are only ever replaced by renaming, `mmap=True` maps them instead.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        every: float | None = 1.0,
        weights: str | os.PathLike[str] | None = None,
        mmap: bool = False,
        tables: Mapping[str, GivenTable] | None = None,
        **options: Any,
    ) -> None:
        """`every`: the seconds from one look at the files to the next; None: only `reload()` does.
        The other arguments are those of `load`.
        """
        InputError.when(
            every is not None and not (isinstance(every, (int, float)) and every > 0),
            f"every: expected seconds above 0, or None, got {every!r}",
        )
        self._path, self._every = os.fspath(path), every
        InputError.when(
            not isinstance(self._path, str),
            f"expected the path of a file, got {type(path).__name__}",
        )
        self._load: Callable[[], CompiledModel] = lambda: load(
            self._path, weights=weights, mmap=mmap, tables=tables, **options
        )
        beside = Path(self._path).with_suffix(".bin") if weights is None else weights
        self._files = [self._path, os.fspath(beside)]
        self._files += _files_of(tables or {})
        self._mmap = mmap
        self._loaded = self._seen = self._look()
        #: The model that makes the calls: it stays the same object, also for requests and queues.
        self.compiled = self._load()
        #: How many times the files were loaded again.
        self.reloads = 0
        #: What is wrong with the files as they are now; None where nothing is.
        self.error: UncorkError | None = None
        self._is_closed = False
        self.renew_locks()
        renews_locks(self)
        self._watch()

    def renew_locks(self) -> None:
        """Make the lock of loading: at the start, and in a child process, which has no thread that
        looks yet.
        """
        self._loading = threading.RLock()
        self._end: threading.Event | None = None

    def __call__(self, *inputs: Any, **named: Any) -> Results:
        """Run the model, as `CompiledModel` does."""
        if self._end is None:
            self._watch()
        return self.compiled(*inputs, **named)

    def exchange(self, *, tables: Mapping[str, GivenTable]) -> None:
        """Exchange tables, or rows of them, until the files change: see
        `CompiledModel.exchange`.
        """
        with self._loading:
            self.compiled.exchange(tables=tables, mmap=self._mmap)

    def reload(self) -> None:
        """Load the files now, whether they have changed or not. Calls go on meanwhile.

        Raises what `load` raises, and InputError for other inputs, outputs or variables: the model
        in use stays.
        """
        with self._loading:
            look = self._look()
            try:
                self.compiled.exchange(self._load())
            except UncorkError as error:
                self.error = error
                raise
            finally:
                self._loaded = look
            self.error = None
            self.reloads += 1

    def close(self) -> None:
        """Look at the files no more. The model can still be called."""
        self._is_closed = True
        if self._end is not None:
            self._end.set()

    def __enter__(self) -> Live:
        """Itself, for `with uncork.Live(path) as live:`."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Look at the files no more, and give back the working memory."""
        self.close()
        self.compiled.release_memory()

    def __repr__(self) -> str:
        state = "" if self.error is None else f", which cannot be loaded: {self.error}"
        return f"<Live of '{self._path}'{state}: {self.compiled!r}>"

    # ---- the files

    def _look(self) -> _Look:
        """What the files are known by now."""
        return tuple(_known_by(path) for path in self._files)

    def look(self) -> None:
        """Look at the files once, and load them if they have changed and then stayed as they were
        for one look. A thread does so; with `every=None` whoever wants to.
        """
        now = self._look()
        stays, self._seen = now == self._seen, now
        if not stays or now == self._loaded:
            return
        with self._loading:
            if now == self._loaded:
                return
            try:
                self.reload()
            except (UncorkError, OSError, MemoryError) as error:
                message = f"{self._path}: the new file is not used, the old one is: {error}"
                warnings.warn(message, UncorkWarning, stacklevel=2)

    def _watch(self) -> None:
        """Begin to look."""
        if self._every is None or self._is_closed:
            return
        with self._loading:
            if self._end is not None:
                return
            end = threading.Event()
            thread = threading.Thread(
                target=_looks,
                args=(weakref.ref(self), end, self._every),
                name="uncork live",
                daemon=True,
            )
            weakref.finalize(self, end.set)
            _watching[thread] = self._end = end
            thread.start()


def _looks(owner: weakref.ref[Live], end: threading.Event, every: float) -> None:
    """What a thread does until the end of its model."""
    try:
        while not end.wait(every):
            live = owner()
            if live is None:
                return
            live.look()
            del live  # nobody but its users keeps it
    finally:
        _watching.pop(threading.current_thread(), None)


def _known_by(path: str) -> object:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _files_of(tables: Mapping[str, Any]) -> list[str]:
    """The files that tables, and rows of tables, are read from."""
    given = [
        table.get("values") if isinstance(table, Mapping) else table for table in tables.values()
    ]
    paths = [os.fspath(path) for path in given if isinstance(path, (str, os.PathLike))]
    return [path if os.path.exists(path) else path.rpartition(":")[0] for path in paths]
