"""The source: Parquet, Arrow IPC or CSV files on any file system, as an ordered list of units.

A `Unit` is a run of consecutive rows that one worker scores and that becomes one part of the
output. Units follow the row groups of the files: small groups are taken together, large ones are
cut. Rows are counted through all files in the order of their names, so that every row has a number
that does not depend on who reads it.

`open_source` looks at footers only (a CSV file has none: it is read through once to be counted);
`Reader` reads the rows.
"""

from __future__ import annotations

import fnmatch
import glob as globbing
import os
import posixpath
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs

from uncork.errors import InputError, Problem
from uncork.score.file_formats import read_footer

_SUFFIXES = {
    "parquet": (".parquet", ".pq"),
    "ipc": (".arrow", ".ipc", ".feather"),
    "csv": (".csv", ".tsv", ".csv.gz", ".tsv.gz"),
}


@dataclass(frozen=True)
class File:
    """A file with what tells whether it is still the same, and the rows of each of its groups."""

    path: str
    size: int
    changed: int  # nanoseconds since 1970; 0 where the file system does not say
    groups: tuple[int, ...]

    @property
    def rows(self) -> int:
        return sum(self.groups)


@dataclass(frozen=True)
class Span:
    """A range of rows of a file: `rows` rows of the groups `first` to `last` (both included), after
    `skip` rows of them.
    """

    file: int
    first: int
    last: int
    skip: int
    rows: int


@dataclass(frozen=True)
class Unit:
    """Consecutive rows, from `first_row` on: what is scored by one worker at a time, and once."""

    number: int
    first_row: int
    rows: int
    spans: tuple[Span, ...]


@dataclass(frozen=True)
class Source:
    """The files in order, with the schema that all of them have. Can be pickled."""

    name: str
    format: str
    filesystem: Any
    files: tuple[File, ...]
    schema: pa.Schema

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    def first(self, rows: int) -> Source:
        """The source cut to its first `rows` rows. What is cut off is not read."""
        files: list[File] = []
        for file in self.files:
            groups: list[int] = []
            for group in file.groups:
                groups.append(min(group, rows))
                rows -= groups[-1]
            files.append(replace(file, groups=tuple(groups)))
        return replace(self, files=tuple(files))

    def to_json(self) -> dict[str, Any]:
        """The source in values of JSON, which tell two sources apart: files, sizes, times, rows."""
        return {
            "name": self.name,
            "format": self.format,
            "files": [[f.path, f.size, f.changed, f.rows] for f in self.files],
        }


def open_source(
    location: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], format: str | None = None
) -> Source:
    """Find the files of a path, a folder, a glob, a URI or a list of these, and read their footers.

    Raises InputError that lists every file that cannot be read or has other columns than the first.
    """
    several = [location] if isinstance(location, (str, os.PathLike)) else list(location)
    name = ", ".join(os.fspath(one) for one in several)
    found: list[pafs.FileInfo] = []
    filesystem: Any = None
    for one in several:
        other, infos = _find(os.fspath(one))
        if filesystem is not None and not filesystem.equals(other):
            raise InputError("expected files of one file system", name)
        filesystem = other
        found.extend(infos)
    kinds = {format} if format else {_format(info.path) for info in found}
    if len(kinds) != 1 or None in kinds or not kinds <= set(_SUFFIXES):
        suffixes = " ".join(suffix for all_of in _SUFFIXES.values() for suffix in all_of)
        got = (
            format
            if format
            else ", ".join(sorted({posixpath.splitext(i.path)[1] or "none" for i in found})[:5])
        )
        raise InputError(
            f"expected files of one format ({', '.join(_SUFFIXES)}), "
            f"told by their suffixes ({suffixes}) or a format; got {got}",
            name,
        )
    (kind,) = kinds
    assert kind is not None
    return _checked(name, kind, filesystem, found)


def _find(location: str) -> tuple[Any, list[pafs.FileInfo]]:
    """The file system and the files, sorted by name."""
    try:
        if "://" in location:
            filesystem, path = pafs.FileSystem.from_uri(location)
        else:
            filesystem, path = pafs.LocalFileSystem(), os.path.abspath(location)
        info = filesystem.get_file_info(path)
        if info.type == pafs.FileType.File:
            return filesystem, [info]
        if info.type == pafs.FileType.Directory:
            infos = filesystem.get_file_info(pafs.FileSelector(path, recursive=True))
            # Names that begin so are notes of other programs (_SUCCESS, .crc), by convention.
            inside = [
                i
                for i in infos
                if not any(p[:1] in "_." for p in posixpath.relpath(i.path, path).split("/"))
            ]
            infos = [i for i in inside if i.type == pafs.FileType.File and _format(i.path)]
        else:
            infos = _globbed(filesystem, path)
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"cannot be opened: {_reason(error)}", location) from None
    InputError.when(
        not infos,
        "there is no such file"
        if info.type == pafs.FileType.NotFound
        else "has no files that can be scored",
        location,
    )
    return filesystem, sorted(infos, key=lambda i: str(i.path))


def _globbed(filesystem: Any, path: str) -> list[pafs.FileInfo]:
    if not globbing.has_magic(path):
        return []
    if isinstance(filesystem, pafs.LocalFileSystem):
        infos = filesystem.get_file_info(
            [p.replace(os.sep, "/") for p in globbing.glob(path, recursive=True)]
        )
    else:
        fixed = path[: min(path.find(c) for c in "*?[" if c in path)]
        infos = [
            i
            for i in filesystem.get_file_info(
                pafs.FileSelector(posixpath.dirname(fixed), allow_not_found=True, recursive=True)
            )
            if fnmatch.fnmatchcase(i.path, path)
        ]
    return [i for i in infos if i.type == pafs.FileType.File]


def _format(path: str) -> str | None:
    return next(
        (kind for kind, suffixes in _SUFFIXES.items() if path.lower().endswith(suffixes)), None
    )


def _checked(name: str, kind: str, filesystem: Any, found: Sequence[pafs.FileInfo]) -> Source:
    files: list[File] = []
    schema: pa.Schema | None = None
    problems: list[Problem] = []
    for info in found:
        try:
            own, groups = read_footer(filesystem, info.path, kind, schema)
        except (OSError, pa.ArrowException, ValueError) as error:
            problems.append(Problem(info.path, f"cannot be read as {kind}: {_reason(error)}"))
            continue
        own = own.remove_metadata()
        schema = own if schema is None else schema
        problems.extend(
            Problem(info.path, text) for text in _differences(schema, own, found[0].path)
        )
        files.append(File(info.path, info.size or 0, info.mtime_ns or 0, tuple(groups)))
    InputError.when_any(name, problems)
    assert schema is not None
    return Source(name, kind, filesystem, tuple(files), schema)


def _differences(expected: pa.Schema, got: pa.Schema, first: str) -> Iterable[str]:
    """How a file's columns differ from those of the first; more columns do no harm."""
    for name in dict.fromkeys(expected.names):
        types, wanted = _types(got, name), _types(expected, name)
        if not types:
            yield f"has no column '{name}', which {first} has"
        elif len(types) != len(wanted):
            yield f"has {len(types)} columns '{name}', and {first} has {len(wanted)}"
        elif types != wanted:
            shown = (", ".join(map(str, found)) for found in (types, wanted))
            yield "column '{}' has {}, and {} in {}".format(name, *shown, first)


def _types(schema: pa.Schema, name: str) -> list[pa.DataType]:
    """The types of all columns of a name: a file may have several."""
    return [schema.field(place).type for place in schema.get_all_field_indices(name)]


def _reason(error: BaseException) -> str:
    return str(error).split("\n")[0].rstrip(". ") or type(error).__name__


def plan_units(source: Source, batch_size: int, rows_per_unit: int | None = None) -> list[Unit]:
    """Cut the rows into units of whole batches where a group has to be cut, and of whole groups
    elsewhere.

    Without `rows_per_unit` there are about 32 units, of one batch to 131,072 rows: enough to keep
    workers busy to the end, and to lose little when one is interrupted.
    """
    if rows_per_unit is None:
        rows_per_unit = min(131_072, max(1, -(-source.rows // 32)))
    limit = -(-rows_per_unit // batch_size) * batch_size
    units: list[Unit] = []
    waiting: list[Span] = []

    def close() -> None:
        if waiting:
            first = units[-1].first_row + units[-1].rows if units else 0
            units.append(Unit(len(units), first, sum(s.rows for s in waiting), tuple(waiting)))
            waiting.clear()

    for index, file in enumerate(source.files):
        for group, rows in enumerate(file.groups):
            if rows == 0:
                continue
            if sum(s.rows for s in waiting) + rows > limit:
                close()
            if rows <= limit:
                last = waiting[-1] if waiting else None
                if last is not None and last.file == index and last.last == group - 1:
                    waiting[-1] = Span(index, last.first, group, 0, last.rows + rows)
                else:
                    waiting.append(Span(index, group, group, 0, rows))
                continue
            for skip in range(0, rows, limit):
                waiting.append(Span(index, group, group, skip, min(limit, rows - skip)))
                close()
    close()
    return units
