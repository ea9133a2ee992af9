"""The target of a scoring run, and what lies there: its kind, and whether an earlier run wrote it.

`sink.py` writes it. Everything here only looks.
"""

from __future__ import annotations

import json
import os
import re
import stat
from pathlib import Path
from typing import Any

from uncork.errors import InputError

JOURNAL = "_journal.jsonl"
SUCCESS = "_SUCCESS"
#: The joined parts and the joined rejected rows, before they get their names.
JOINED = "_joined.parquet"
REJECTED = "_rejected.parquet"
#: The key under which a Parquet file says which run wrote it: JSON with `run` and `counts`.
NOTE = "uncork.score"

_FILES = (".parquet", ".pq")
_KIND = re.compile(r"\.[A-Za-z][A-Za-z0-9_]*")
#: Everything that a run writes into its folder; `.tmp` while it is being written.
_OURS = re.compile(
    r"(part-\d{5,}\.parquet|_rejects-\d{5,}\.parquet"
    rf"|{JOURNAL}|{SUCCESS}|{re.escape(JOINED)}|{re.escape(REJECTED)})(\..*tmp)?"
)


def is_one_file(output: str) -> bool:
    """Whether the output is one Parquet file, and not a folder of parts.

    Raises InputError for any other.
    """
    if output.endswith(("/", os.sep)):
        return False
    try:
        path = Path(os.path.realpath(output))
        if path.suffix.lower() in _FILES:
            return True
        if not _KIND.fullmatch(path.suffix) or path.is_dir():
            return False
    except (OSError, ValueError) as error:
        raise InputError(f"cannot be written: {error}", repr(output)) from None
    raise InputError(
        f"'{path.suffix}' is no kind of file that is written: "
        "scores are one Parquet file where the "
        "name ends in .parquet, else a folder of them; for a folder of this name write "
        f"'{output}/'",
        output,
    )


def check_rejects_name(rejects: str) -> None:
    """Refuse a name for the rejects that is not that of a Parquet file. Raises InputError."""
    InputError.when(
        Path(rejects).suffix.lower() not in _FILES,
        "rejected rows are a Parquet file: expected a name in .parquet",
        rejects,
    )


def foreign_names(folder: Path) -> list[str]:
    """The names in a run's folder of what no run has written."""
    return sorted(path.name for path in folder.iterdir() if _is_foreign(path))


def _is_foreign(path: Path) -> bool:
    """Whether no run has written a path in a run's folder. A path that is gone meanwhile does not
    count: another run has renamed it.
    """
    try:
        ordinary = stat.S_ISREG(path.lstat().st_mode)
    except FileNotFoundError:
        return False
    return not ordinary or not _OURS.fullmatch(path.name)


def foreign_folder(folder: Path) -> str:
    """Why a folder is no output of a run; "" when it is one."""
    names = foreign_names(folder)
    if names:
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        return f"it holds {names[0]!r}{more}, which uncork score did not write"
    if finished_note(folder) is None:
        return f"it has no {SUCCESS} of uncork score"
    return ""


def foreign_file(path: Path) -> str:
    """Why a file is no Parquet file; "" when it is one."""
    with open(path, "rb") as file:
        start = file.read(4)
        file.seek(-min(4, path.stat().st_size), os.SEEK_END)
        end = file.read(4)
    return "" if start == end == b"PAR1" else "what is there is no Parquet file"


def finished_note(target: Path) -> dict[str, Any] | None:
    """The note that a whole output keeps of the run that wrote it; None when there is none."""
    try:
        text = (target / SUCCESS).read_bytes() if target.is_dir() else _footer_note(target)
        note = json.loads(text)
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(note, dict) or not str(note.get("schema")).startswith("uncork-score-"):
        return None
    return note


def _footer_note(path: Path) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return bytes((pq.read_metadata(path).metadata or {}).get(NOTE.encode(), b""))
    except pa.ArrowException as error:
        raise ValueError(str(error)) from None
