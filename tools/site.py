"""What the site has beside the pages in docs/: hooks of mkdocs, named in mkdocs.yml.

The README is its first page, so that it is written once; so are the other pages that people look
for in the root of the project, those of examples, and what the benchmarks measured. The reference
is generated from docstrings.

A link leads where it leads in the project, also where it is absolute, as those of the README are.
What is no page of the site is named, without a link.
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

from tools import address, reference  # noqa: E402

#: Pages of the root by what the site calls them.
PAGES = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changelog.md",
}
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
#: A link that is defined below the text, as in "[docs/cli.md]: https://..".
_DEFINED = re.compile(r"^\[([^\]]+)\]: (\S+)$", re.MULTILINE)
_FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)


def pages() -> dict[str, str]:
    """Every page of the site that is a file: its place in the project, and on the site."""
    found = dict(PAGES)
    found |= {f"docs/{path.name}": path.name for path in ROOT.glob("docs/*.md")}
    found |= {f"docs/{path.name}": path.name for path in ROOT.glob("docs/*.svg")}
    results = [*ROOT.glob("benchmarks/results/*.md"), *ROOT.glob("benchmarks/results/*.png")]
    found |= {f"benchmarks/results/{path.name}": f"results/{path.name}" for path in results}
    for path in ROOT.glob("examples/*/README.md"):
        found[f"examples/{path.parent.name}/README.md"] = f"examples/{path.parent.name}.md"
    return dict(sorted(found.items()))


def linked(text: str, source: str) -> str:
    """The text of a file of the project, with links as the site needs them."""
    known = pages()
    here = posixpath.dirname(known[source]) or "."

    def on_site(target: str) -> tuple[str, str]:
        """Where the link leads in the project ("": elsewhere), and on the site ("": to no page)."""
        path, mark, anchor = target.partition("#")
        if not path or ":" in path:
            place = address.place(path) or ""
        else:
            place = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        page = "docs/benchmarks.md" if place == "benchmarks/results" else place
        if page not in known:
            return place, ""
        return place, posixpath.relpath(known[page], here) + mark + anchor

    def link(found: re.Match[str]) -> str:
        image, label, target = found.groups()
        place, page = on_site(target)
        if page:
            return f"{image}[{label}]({page})"
        if ":" in target or not place or not (ROOT / place).exists():
            return found[0]  # leads to the project or elsewhere; what leads nowhere mkdocs names
        return label if label.startswith("`") else f"{label} (`{place}`)"

    def definition(found: re.Match[str]) -> str:
        _, page = on_site(found[2])
        return f"[{found[1]}]: {page}" if page else found[0]

    parts = _FENCE.split(text)
    return "".join(
        p if p.startswith("```") else _DEFINED.sub(definition, _LINK.sub(link, p)) for p in parts
    )


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
