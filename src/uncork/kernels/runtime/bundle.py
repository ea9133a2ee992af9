"""Bundles: kernels of one level in one file, which were made elsewhere. A process that has one
needs no compiler for them.

The file: its head, the keys of the kernels in order, where in the code each of them begins, and at
a page the code, which is mapped in one piece and shared by all processes. Bundles are part of the
package, and as trusted as its sources are; one that was made of other sources is not used.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import struct
from collections.abc import Mapping
from pathlib import Path

from uncork import files
from uncork.kernels.runtime.exec_memory import mapped, mapped_file, shows_files
from uncork.kernels.runtime.target import (
    Target,
    digest_of_kernels,
    host_target,
    level_of,
    levels_here,
    no_compiler,
)

#: Where the package has its bundles.
FOLDER = Path(__file__).parent.parent / "bundled"
SUFFIX = ".kernels"
_MAGIC = b"uncork kernels 1"
#: What it is, the digest of its sources, how many kernels it has, where the code is and its bytes.
_HEAD = struct.Struct("<16s32sQQQ")
_KEY, _PLACE = 16, 4
#: What the code begins at, which is a page of every system, and what the code of a kernel in it
#: does: on ARM instructions know their constants by page.
_PAGE = 1 << 16
_GRAIN = {"x86_64": 64}


class Bundle:
    """The kernels of a file. Raises OSError for one that is cut or of another kind, and where
    memory with it may not be executed.
    """

    def __init__(self, path: Path) -> None:
        with files.opened(path) as file:
            handle, size = file.fileno(), os.fstat(file.fileno()).st_size
            head = file.read(_HEAD.size)
            if len(head) < _HEAD.size or head[: len(_MAGIC)] != _MAGIC:
                raise OSError(f"'{path}' has no kernels")
            self.made_of: bytes
            self._count: int
            _, self.made_of, self._count, at, length = _HEAD.unpack(head)
            index = self._count * (_KEY + _PLACE)
            if _HEAD.size + index > at or at % _PAGE or at + length != size or not length:
                raise OSError(f"'{path}' is cut or changed")
            content = file.read(index)
            self._keys, self._places = content[: self._count * _KEY], content[self._count * _KEY :]
            try:
                if not shows_files():
                    raise OSError
                self._code = mapped_file(handle, at, length)
            except OSError:  # nothing on this disk may be executed: a copy may be
                file.seek(at)
                self._code = mapped(file.read(length))
        self._base: int = self._code.ctypes.data

    def __len__(self) -> int:
        return self._count

    def address(self, name: str, description: str) -> int | None:
        """The address of a kernel; None for one that it has not."""
        key, keys = key_of(name, description), self._keys
        low, high = 0, self._count
        while low < high:
            middle = (low + high) // 2
            if keys[_KEY * middle : _KEY * (middle + 1)] < key:
                low = middle + 1
            else:
                high = middle
        if keys[_KEY * low : _KEY * (low + 1)] != key:
            return None
        place: int = int.from_bytes(self._places[_PLACE * low : _PLACE * (low + 1)], "little")
        return self._base + place if place < len(self._code) else None


def key_of(name: str, description: str) -> bytes:
    """What a kernel is found by."""
    return hashlib.sha256(f"{name}\n{description}".encode()).digest()[:_KEY]


def path_of(level: str, folder: Path | None = None) -> Path:
    """The file of a level's kernels, in the package's folder or another."""
    return (folder or FOLDER) / (level + SUFFIX)


def write(path: Path, target: Target, kernels: Mapping[bytes, tuple[bytes, int]]) -> None:
    """Write a bundle: linked code and its entry, by their keys. It is written beside its name and
    renamed.
    """
    grain = _GRAIN.get(target.arch, 4096)
    code, known, places = bytearray(), dict[bytes, int](), list[int]()
    keys = sorted(kernels)
    for key in keys:
        content, entry = kernels[key]
        if content not in known:
            code += bytes(-len(code) % grain)
            known[content] = len(code)
            code += content
        places.append(known[content] + entry)
    index = b"".join(keys) + b"".join(place.to_bytes(_PLACE, "little") for place in places)
    at = -(-(_HEAD.size + len(index)) // _PAGE) * _PAGE
    head = _HEAD.pack(_MAGIC, digest_of_kernels(), len(keys), at, len(code))
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_suffix(".tmp")
    scratch.write_bytes((head + index).ljust(at, b"\0") + code)
    os.replace(scratch, path)


_opened: dict[Target, Bundle | None] = {}


def bundle_of(target: Target) -> Bundle | None:
    """The kernels that the package has for a target; None where it has none, or such that were made
    of other sources.
    """
    if target not in _opened:
        found, level = None, level_of(target)
        if level is not None:
            with contextlib.suppress(OSError):
                found = Bundle(path_of(level))
        if found is not None and found.made_of != digest_of_kernels():
            found = None
        _opened.setdefault(target, found)
    return _opened[target]


@functools.lru_cache(maxsize=2)
def usable_target(tiles: bool = False) -> Target | None:
    """The largest level that this machine runs and for which there are kernels: where they can be
    compiled any, else one with a bundle.
    """
    if not no_compiler():
        return host_target(tiles)
    return next((target for target in levels_here(tiles) if bundle_of(target) is not None), None)
