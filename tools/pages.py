"""Writing a generated page, or finding out that it is stale."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path


def write_or_check(
    path: Path, page: Callable[[], str], command: str, description: str | None
) -> int:
    """The command of a page: write it, or with `--check` compare it; the exit status."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "--check", action="store_true", help="change nothing; exit 1 when the page is stale"
    )
    if parser.parse_args().check:
        current = path.read_text(encoding="utf-8") if path.exists() else ""
        if current != page():
            print(f"{path.name} is stale: run {command}", file=sys.stderr)
            return 1
        return 0
    path.parent.mkdir(exist_ok=True)
    path.write_text(page(), encoding="utf-8")
    return 0
