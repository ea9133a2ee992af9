"""Durable renames: they outlast a power cut."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from pathlib import Path


def replace_file(source: Path, target: Path) -> None:
    """Move a durable file to another name, on any file system; the file that had the name stays
    until then.
    """
    try:
        os.replace(source, target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        scratch = target.with_name(f".{target.name}.joined")
        try:
            shutil.copyfile(source, scratch)
            with open(scratch, "rb+") as file:
                os.fsync(file.fileno())
            os.replace(scratch, target)
        except BaseException:
            scratch.unlink(missing_ok=True)
            raise
    sync_folder(target.parent)


def sync_folder(path: Path) -> None:
    """Flush a folder, which makes a rename in it durable, where folders can be flushed."""
    with contextlib.suppress(OSError):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
