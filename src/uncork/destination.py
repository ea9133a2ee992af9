"""Destinations of outputs: the one rule for what a command may replace.

What is at a destination is replaced only when the caller said so (`--overwrite`), only when it is
what the command itself writes there, and never when it is, or holds, something that the command
reads, the current folder or the home folder. `uncork score`, `run -o` and `shrink` follow it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from uncork.errors import InputError

#: Something that must stay, as messages call it, and its path. A path that is not there is left
#: out.
Read = tuple[str, "str | os.PathLike[str]"]
#: Says of what is at a path why it is no earlier output of the command; "" when it is one.
Foreign = Callable[[Path], str]
_Identity = tuple[int, int]


def reads_of_model(model: str, weights: str | None) -> list[Read]:
    """The files of a model: the one that it is in, and its weights, beside it unless they are
    somewhere else.
    """
    beside = weights or os.path.splitext(model)[0] + ".bin"
    return [("the model", model), ("the weights", beside)]


def resolved(path: str | os.PathLike[str]) -> Path:
    """The path that will be written: that of the file itself where `path` is a link to one."""
    try:
        target = Path(os.path.realpath(path))
    except (OSError, ValueError) as error:
        raise InputError(f"cannot be written: {error}", repr(os.fspath(path))) from None
    InputError.when(
        not target.name, "cannot be written: it is the root of a file system", os.fspath(path)
    )
    return target


def check_destination(
    path: str | os.PathLike[str],
    foreign: Foreign,
    *,
    overwrite: bool,
    reads: Sequence[Read] = (),
    folder: bool = False,
) -> None:
    """Refuse, before any work, a path that must not or cannot be written.

    `foreign` recognises earlier outputs of the command, which is what `overwrite` replaces;
    `folder` says that the output is one. Raises InputError that names the path.
    """
    where = os.fspath(path)
    target = resolved(path)
    try:
        InputError.when(
            not target.parent.is_dir(), "cannot be written: there is no such folder", where
        )
        if _is_there(target):
            _check_present(where, target, foreign, overwrite, reads, folder)
        InputError.when(
            not os.access(target.parent, os.W_OK | os.X_OK),
            f"cannot be written: no permission to write in {target.parent}",
            where,
        )
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror or error}", where) from None


def _check_present(
    where: str,
    target: Path,
    foreign: Foreign,
    overwrite: bool,
    reads: Sequence[Read],
    folder: bool,
) -> None:
    """Refuse what is there, unless it may be replaced."""
    if target.is_symlink():  # all links were followed
        raise InputError("cannot be written: it is a link that leads back to itself", where)
    check_apart(where, target, reads)
    InputError.when(folder and not target.is_dir(), "cannot be written: it is not a folder", where)
    InputError.when(
        not folder and not target.is_file(), "cannot be written: it is not an ordinary file", where
    )
    InputError.when(
        not overwrite, "is there already: choose another name, or overwrite it (--overwrite)", where
    )
    InputError.when(
        os.path.ismount(target),
        "cannot be replaced: a file system is mounted there; give a name inside of it",
        where,
    )
    reason = "" if _is_empty(target) else foreign(target)
    InputError.when(
        reason,
        f"is not overwritten: {reason}; move it away yourself, or choose another name",
        where,
    )


def check_apart(where: str, target: Path, reads: Sequence[Read]) -> None:
    """Refuse a path that is, or holds, what is read or where the user is. Links are followed."""
    own = _identity(target)
    if own is None:
        return
    places = [*reads, ("the current folder", "."), ("the home folder", os.path.expanduser("~"))]
    for name, path in places:
        InputError.when(
            own == _identity(path), f"would be written over {name}: give another name", where
        )
    seen: set[Path] = set()
    for name, path in places:
        InputError.when(
            own in map(_identity, _above(path, seen)),
            f"would be written over {path}, {name}: give another name",
            where,
        )


def _is_there(path: Path) -> bool:
    """Whether something has this name, be it a broken link. Raises OSError where that cannot be
    told.
    """
    try:
        os.lstat(path)
    except FileNotFoundError:
        return False
    return True


def _above(path: str | os.PathLike[str], seen: set[Path]) -> Iterable[Path]:
    """The folders that a path lies in, as it is written and with its links followed, once each."""
    if _identity(path) is None:
        return
    for written in (os.path.abspath(path), os.path.realpath(path)):
        for folder in Path(written).parents:
            if folder in seen:
                break  # and so are those above it
            seen.add(folder)
            yield folder


def _identity(path: str | os.PathLike[str]) -> _Identity | None:
    """What a file is by, whatever it is called: names may differ in links and in letter case."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino


def _is_empty(path: Path) -> bool:
    """A file without bytes or a folder without entries: nothing is lost with it."""
    if path.is_dir():
        return not any(path.iterdir())
    return path.stat().st_size == 0


def begins_with(*magic: bytes) -> Foreign:
    """Recognise files by their first bytes."""

    def foreign(path: Path) -> str:
        with open(path, "rb") as file:
            start = file.read(max(map(len, magic)))
        kind = path.suffix or "such"
        return "" if start.startswith(magic) else f"what is there is no {kind} file"

    return foreign


def path_of_table(path: str | os.PathLike[str]) -> str:
    """The file of a table: `x.safetensors:key` is a place in `x.safetensors`."""
    text = os.fspath(path)
    return text if os.path.exists(text) else text.rpartition(":")[0]
