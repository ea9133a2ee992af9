"""How a compiled file is known: by its first bytes."""

from __future__ import annotations

import os

from uncork import files

#: The first bytes of a compiled file.
COMPILED = b"\x89uncork\n"


def is_compiled_file(path: str | os.PathLike[str]) -> bool:
    """Whether a path is that of a compiled file, by its first bytes."""
    try:
        with files.opened(path) as file:
            return file.read(len(COMPILED)) == COMPILED
    except (OSError, ValueError):
        return False  # which whoever reads it says in its words
