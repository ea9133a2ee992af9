"""Writing a generated page, or finding out that it is stale."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable
from pathlib import Path

#: Code in a line of Markdown, which is shown as it is.
_CODE = re.compile(r"(`+[^`]+`+)")
#: What would begin or end emphasis or a link: stars but those between spaces, lines below but those
#: inside of words, brackets before parentheses.
_MARKS = re.compile(r"(?<! )\*|\*(?! )|(?<!\w)_|_(?!\w)|\](?=[(\[])")


def cell(text: str) -> str:
    """Plain text with code in backticks as a cell of a table of Markdown: everything else stands
    for itself, powers (2**63) and names with lines below included.
    """
    parts = _CODE.split(text)
    parts[::2] = [_MARKS.sub(r"\\\g<0>", part).replace("<", "&lt;") for part in parts[::2]]
    return "".join(parts).replace("|", "\\|")


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
