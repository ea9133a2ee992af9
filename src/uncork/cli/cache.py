"""`uncork cache`: the compiled kernels that are kept on disk."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any

from uncork.cli._options import add_threads, rounding
from uncork.cli._output import answer, counted, table
from uncork.cli._parser import Parser, one_of
from uncork.compiler.load import load
from uncork.kernels.runtime.disk_cache import Entry, Folder, default_folder
from uncork.kernels.runtime.kernel_cache import compilations_told, kernel_name
from uncork.quoting import in_terminal

_EPILOG = """\
ls lists the files, those used last first; clear deletes them. prepare compiles the
kernels of models, for calls of any size, so that processes find them: when the image of a
container is made, or before a service starts.

What is deleted is compiled again when it is needed: the folder costs time when it is empty, broken
or read-only, and nothing else. It is bounded: what was used longest ago goes first.

examples:
  uncork cache ls
  uncork cache clear --json
  uncork cache prepare model.xml --threads 4
"""


def parser() -> Parser:
    about = "Show, delete or make the compiled kernels that are kept on disk."
    parser = Parser(
        "uncork cache", about, _EPILOG, "uncork cache [OPTION]... ls|clear|prepare [MODEL]..."
    )
    actions = one_of("ls", "clear", "prepare")
    parser.add_argument(
        "action",
        metavar="ls|clear|prepare",
        type=actions,
        help="list the files, delete them, or compile those of models",
    )
    parser.add_argument(
        "models", nargs="*", default=[], metavar="MODEL", help="prepare: the .xml of a model"
    )
    add_threads(parser)
    parser.add_json()
    return parser


def execute(arguments: argparse.Namespace) -> int:
    if arguments.action == "prepare" and not arguments.models:
        parser().error("prepare takes a MODEL, or several")
    if arguments.action != "prepare" and arguments.models:
        parser().error(f"'{arguments.models[0]}' is one argument too many")
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
    elif arguments.action == "prepare":
        facts["prepared"] = [_prepared(model, arguments) for model in arguments.models]
        rows = [
            [one["model"], str(one["compiled"]), f"{one['seconds']:.1f}"]
            for one in facts["prepared"]
        ]
        text = table([["model", "compiled", "seconds"], *rows], right=[1, 2])
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
    answer(arguments, facts, text)
    return 1 if facts.get("left") else 0


def _prepared(model: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Compile the kernels that no file has; returns how many they were and how long it took."""
    compiled = 0

    def count(done: int, of: int) -> None:
        nonlocal compiled
        compiled += 1

    started = time.monotonic()
    with compilations_told(count):
        load(model, threads=arguments.threads, prepare=True, **rounding(arguments))
    return {"model": model, "compiled": compiled, "seconds": round(time.monotonic() - started, 3)}


def _bytes(entries: Sequence[Entry]) -> int:
    return sum(entry.bytes for entry in entries)


def _shown(folder: str | None) -> str:
    return "no folder: this user has no home directory" if folder is None else in_terminal(folder)


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
