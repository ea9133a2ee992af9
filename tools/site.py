"""What the site has beside the pages in docs/: hooks of mkdocs, named in mkdocs.yml.

The README is its first page, so that it is written once; so are the other pages that people look
for in the root of the project, those of examples, and what the benchmarks measured. The reference
is generated from docstrings.

A link leads where it leads in the project. What is no page of the site is named, without a link.
"""

from __future__ import annotations

import os
import posixpath
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, os.fspath(ROOT))  # mkdocs imports this file by its path

from tools import reference  # noqa: E402

#: Pages of the root by what the site calls them.
PAGES = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changelog.md",
}
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
_FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)


def pages() -> dict[str, str]:
    """Every page of the site that is a file: its place in the project, and on the site."""
    found = dict(PAGES)
    found |= {f"docs/{path.name}": path.name for path in ROOT.glob("docs/*.md")}
    results = [*ROOT.glob("benchmarks/results/*.md"), *ROOT.glob("benchmarks/results/*.png")]
    found |= {f"benchmarks/results/{path.name}": f"results/{path.name}" for path in results}
    for path in ROOT.glob("examples/*/README.md"):
        found[f"examples/{path.parent.name}/README.md"] = f"examples/{path.parent.name}.md"
    return dict(sorted(found.items()))


def linked(text: str, source: str) -> str:
    """The text of a file of the project, with links as the site needs them."""
    known = pages()
    here = posixpath.dirname(known[source]) or "."

    def link(found: re.Match[str]) -> str:
        image, label, target = found.groups()
        path, mark, anchor = target.partition("#")
        if not path or ":" in path:
            return found[0]
        place = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        if place == "benchmarks/results":
            place = "docs/benchmarks.md"
        if place in known:
            return f"{image}[{label}]({posixpath.relpath(known[place], here)}{mark}{anchor})"
        if not (ROOT / place).exists():
            return found[0]  # mkdocs says so
        return label if label.startswith("`") else f"{label} (`{place}`)"

    parts = _FENCE.split(text)
    return "".join(p if p.startswith("```") else _LINK.sub(link, p) for p in parts)


# ---- what mkdocs calls


def on_config(config: Any) -> Any:
    """Pages that are made elsewhere, and are not there yet, are left out."""
    there = {*pages().values(), *(f"reference/{name}.md" for name in reference.PAGES)}
    config.nav = _kept(config.nav, there)
    return config


def _kept(entries: list[Any], there: set[str]) -> list[Any]:
    kept: list[Any] = []
    for entry in entries:
        ((name, value),) = entry.items()
        if isinstance(value, list):
            kept.append({name: _kept(value, there)})
        elif value in there or value != "models.md":
            kept.append(entry)
    return kept


def on_files(files: Any, config: Any) -> Any:
    """Add what does not lie in docs/."""
    from mkdocs.structure.files import File

    for source, place in pages().items():
        if not source.startswith("docs/"):
            path = os.fspath(ROOT / source)
            files.append(File.generated(config, place, abs_src_path=path))
    for name in reference.PAGES:
        text = reference.page(name)
        files.append(File.generated(config, f"reference/{name}.md", content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links of a file of the project as links of the site."""
    sources = {place: source for source, place in pages().items()}
    source = sources.get(page.file.src_uri)
    return markdown if source is None else linked(markdown, source)
