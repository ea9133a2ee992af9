"""How much memory this process may use: the machine's, or less in a container.

Linux limits the memory of control groups (https://docs.kernel.org/admin-guide/cgroup-v2.html, and
cgroup-v1/memory.html). A process that takes more than its group, or a group around it, is killed.
"""

from __future__ import annotations

import functools
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

#: The file that holds a group's limit, by the type of the file system that shows groups.
_LIMITS = {"cgroup2": "memory.max", "cgroup": "memory.limit_in_bytes"}


@functools.cache
def available() -> tuple[int, str]:
    """The number of bytes that this process may use in all, and words for whose they are."""
    machine = _physical()
    group = group_limit()
    if group is not None and group < machine:
        return group, "the memory that this container may use"
    return machine, "this machine's memory"


def allowed(needed: int, limit: int | None, largest: Callable[[], str] | None = None) -> int:
    """The most bytes of working memory that a call may take, which needs so many, where the user's
    limit is this.

    Raises MemoryError when it needs more; the message has the `largest` part of it.
    """
    most, whose = available()
    if limit is not None and limit < most:
        most, whose = limit, "memory_limit"
    if needed > most:
        part = "" if largest is None else largest()
        raise MemoryError(
            f"it needs {needed:,} bytes of working memory, more than {whose} ({most:,} bytes)"
            + (f"; {part}" if part else "")
        )
    return most


def needs_most(buffers: Iterable[tuple[str, int]]) -> str:
    """The layer that needs the most working memory, in words for the message; empty without any.

    Each buffer is given as the name of its layer and its bytes.
    """
    bytes_of: Counter[str] = Counter()
    for layer, size in buffers:
        bytes_of[layer] += size
    if not bytes_of:
        return ""
    layer = max(bytes_of, key=lambda name: bytes_of[name])
    return f"{layer} needs most of it: {bytes_of[layer]:,} bytes"


def _physical() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (
        AttributeError,
        ValueError,
        OSError,
    ):  # not on every system: then only the address space limits
        return 2**47


def group_limit(process: str | os.PathLike[str] = "/proc/self") -> int | None:
    """The lowest limit of the control groups that a process is in; None without one."""
    try:
        groups, mounts = (_text(os.path.join(process, name)) for name in ("cgroup", "mountinfo"))
    except OSError:  # no Linux
        return None
    files = _files(groups.splitlines(), mounts.splitlines())
    limits = [limit for file in files if (limit := _read(file)) is not None]
    return min(limits, default=None)


def _files(groups: list[str], mounts: list[str]) -> Iterator[str]:
    """The file of the limit of each group that the process is in, from its own up to the outermost
    one that is visible.
    """
    paths: dict[str, str] = {}  # of the process's group, by the type of file system
    for line in groups:
        _, controllers, path = line.split(":", 2)
        if not controllers:
            paths["cgroup2"] = path
        elif "memory" in controllers.split(","):
            paths["cgroup"] = path
    for line in mounts:
        # ... root mount-point ... - type source options
        before, _, after = line.partition(" - ")
        kind, _, options = (*after.split(" ", 2), "", "")[:3]
        if kind not in paths or (kind == "cgroup" and "memory" not in options.split(",")):
            continue
        root, mount = before.split(" ")[3:5]
        inside = os.path.relpath(paths[kind], root)
        # A container may see a group by a path of the system around it: then only its outermost one
        # is there.
        group = mount if inside.startswith("..") else os.path.normpath(os.path.join(mount, inside))
        while os.path.commonpath((group, mount)) == mount:
            yield os.path.join(group, _LIMITS[kind])
            if group == os.path.dirname(group):
                break
            group = os.path.dirname(group)


def _text(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def _read(file: str) -> int | None:
    try:
        text = _text(file).strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None  # "max" is no limit
