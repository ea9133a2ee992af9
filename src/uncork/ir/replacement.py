"""Files that are written whole or not at all, several of them together."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from pathlib import Path
from typing import BinaryIO


class Replacement:
    """Files that take their final names together, in the order opened, when the block ends well, and leave no trace otherwise."""

    def __init__(self) -> None:
        self._token = secrets.token_hex(6)
        self._finals: list[Path] = []

    def open(self, final: Path) -> BinaryIO:
        """A new file that will become `final`."""
        if final.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(final))
        self._finals.append(final)
        return open(self._scratch(final, "new"), "xb")

    def __enter__(self) -> Replacement:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        new: list[Path] = []  # files that were not there before
        done = False
        try:
            if kind is None:
                for final in self._finals:
                    if final.exists():
                        shutil.copymode(final, self._scratch(final, "new"))
                        _keep(final, self._scratch(final, "old"))
                    else:
                        new.append(final)
                    os.replace(self._scratch(final, "new"), final)
                done = True
        finally:
            for final in () if done else self._finals:
                if self._scratch(final, "old").exists():
                    os.replace(self._scratch(final, "old"), final)
                elif final in new:
                    final.unlink(missing_ok=True)
            for final in self._finals:
                for kind_of in ("new", "old"):
                    self._scratch(final, kind_of).unlink(missing_ok=True)

    def _scratch(self, final: Path, kind: str) -> Path:
        return final.with_name(f".{final.stem[:100]}.{self._token}{final.suffix[:20]}.{kind}")


def _keep(path: Path, name: Path) -> None:
    """Let the file go by a second name; where there are no links, by that name only."""
    try:
        os.link(path, name, follow_symlinks=False)
    except (OSError, NotImplementedError):
        os.replace(path, name)
