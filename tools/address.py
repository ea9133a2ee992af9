"""Where the project lies: read from `[project.urls]` of pyproject.toml, the one place that says it.

`python -m tools.address https://example.org/new/place` moves it: there, and in the README, whose
links are absolute because other sites show it, too.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: What has the address in it.
FILES = ("pyproject.toml", "README.md")
_HOMEPAGE = re.compile(r'^Homepage = "([^"]+)"$', re.MULTILINE)


def home(root: Path = ROOT) -> str:
    """The address, without a slash at its end."""
    found = _HOMEPAGE.search((root / "pyproject.toml").read_text(encoding="utf-8"))
    assert found is not None, "pyproject.toml says where the project lies"
    return found[1].rstrip("/")


def place(link: str, root: Path = ROOT) -> str | None:
    """The path in the project of a link to one of its files or folders; None of any other link."""
    found = re.fullmatch(re.escape(home(root)) + r"/(?:blob|tree|raw)/main/(.+?)/?", link)
    return None if found is None else found[1]


def move(address: str, root: Path = ROOT) -> int:
    """Write another address in place of the old one; how many there were."""
    old, count = home(root), 0
    whole = re.compile(re.escape(old) + r"(?![\w.-])")  # and not what only begins as it
    for name in FILES:
        path = root / name
        text, here = whole.subn(address.rstrip("/"), path.read_text(encoding="utf-8"))
        path.write_text(text, encoding="utf-8")
        count += here
    return count


def main(words: Sequence[str]) -> int:
    """Say where the project lies, or move it."""
    if len(words) > 1 or (words and not re.match(r"https?://[^\s/\"']+/[^\s\"']", words[0])):
        print("usage: python -m tools.address [https://HOST/PATH]", file=sys.stderr)
        return 2
    if words:
        print(f"{move(words[0])} places changed, in {' and '.join(FILES)}")
    print(home())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
