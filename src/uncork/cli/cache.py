"""`uncork cache`: the compiled kernels that are kept on disk."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any

from uncork.cli._output import counted, emit, emit_json, printable, table
from uncork.cli._parser import Parser, one_of
from uncork.kernels.runtime.disk_cache import Entry, Folder, default_folder
from uncork.kernels.runtime.kernel_cache import kernel_name

_EPILOG = """\
ls lists the files, those used last first; clear deletes them. What is deleted is compiled again
when it is needed: the folder costs time when it is empty, broken or read-only, and nothing else.
It is bounded: what was used longest ago goes first.

examples:
  uncork cache ls
  uncork cache clear --json
"""


def parser() -> Parser:
    parser = Parser(
        "uncork cache",
        "Show or delete the compiled kernels that are kept on disk.",
        _EPILOG,
        "uncork cache [OPTION]... ls|clear",
    )
    parser.add_argument(
        "action",
        metavar="ls|clear",
        type=one_of("ls", "clear"),
        help="list the files, or delete them",
    )
    parser.add_json()
    return parser


def execute(arguments: argparse.Namespace) -> int:
    folder = Folder(default_folder())
    facts: dict[str, Any] = {
        "schema": "uncork-cache-1",
        "folder": None if folder.path is None else str(folder.path),
    }
    if arguments.action == "clear":
        deleted = folder.clear()
        facts |= {"deleted": len(deleted), "bytes": _bytes(deleted), "left": len(folder.entries())}
        text = (
            f"deleted {counted(len(deleted), 'file')}, {_bytes(deleted):,} bytes, "
            f"from {_shown(facts['folder'])}\n"
        )
        if facts["left"]:
            text += f"{counted(facts['left'], 'file')} cannot be deleted, or came back\n"
    else:
        entries = folder.entries()
        facts |= {
            "bytes": _bytes(entries),
            "limit": folder.most,
            "files": [_fact(entry) for entry in entries],
        }
        text = _listed(facts["files"])
        text += (
            f"{counted(len(entries), 'file')}, {_bytes(entries):,} of at most "
            f"{folder.most:,} bytes, in {_shown(facts['folder'])}\n"
        )
    if arguments.json:
        emit_json(facts)
    else:
        emit(text)
    return 1 if facts.get("left") else 0


def _bytes(entries: Sequence[Entry]) -> int:
    return sum(entry.bytes for entry in entries)


def _shown(folder: str | None) -> str:
    return "no folder: this user has no home directory" if folder is None else printable(folder)


def _fact(entry: Entry) -> dict[str, Any]:
    used = datetime.fromtimestamp(entry.used, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "kernel": kernel_name(entry),
        "file": entry.path.name,
        "bytes": entry.bytes,
        "used": used,
    }


def _listed(files: Sequence[dict[str, Any]]) -> str:
    if not files:
        return ""
    rows = [
        [file["kernel"] or "-", f"{file['bytes']:,}", file["used"], file["file"]] for file in files
    ]
    return table([["kernel", "bytes", "used", "file"], *rows], right=[1])
