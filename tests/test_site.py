"""The site: every link leads to a page of it, the reference has every public name and option, and
mkdocs builds it.
"""

from __future__ import annotations

import inspect
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tools import address, reference, site
from tools.pages import cell

import uncork
from uncork.compare import compare
from uncork.score import Scorer

ROOT = Path(__file__).resolve().parents[1]
HOME = address.home()


@pytest.mark.parametrize(
    ("source", "text", "expected"),
    [
        ("README.md", "[a](docs/cli.md#what)", "[a](cli.md#what)"),
        (
            "README.md",
            "[a](#here) [b](https://example.org/c.md)",
            "[a](#here) [b](https://example.org/c.md)",
        ),
        ("README.md", "[results](benchmarks/results)", "[results](benchmarks.md)"),
        (
            "README.md",
            "[licence](LICENSE) and [`LICENSE`](LICENSE)",
            "licence (`LICENSE`) and `LICENSE`",
        ),
        ("README.md", f"[a]({HOME}/blob/main/docs/cli.md#b)", "[a](cli.md#b)"),
        ("README.md", f"[docs/cli.md]: {HOME}/blob/main/docs/cli.md", "[docs/cli.md]: cli.md"),
        (
            "README.md",
            f"[results]: {HOME}/tree/main/benchmarks/results",
            "[results]: benchmarks.md",
        ),
        ("README.md", f"[code]: {HOME}/tree/main/src", f"[code]: {HOME}/tree/main/src"),
        ("docs/openvino.md", "[a](../README.md#b)", "[a](index.md#b)"),
        ("docs/openvino.md", "[a](nowhere.md)", "[a](nowhere.md)"),
        ("examples/word_language/README.md", "[a](../../docs/cli.md)", "[a](../cli.md)"),
        ("benchmarks/results/ops.md", "![plot](ops.png)", "![plot](ops.png)"),
        (
            "README.md",
            "```python\nx = [f](docs/cli.md)\n```",
            "```python\nx = [f](docs/cli.md)\n```",
        ),
    ],
)
def test_links_lead_where_they_lead_in_the_project(source: str, text: str, expected: str) -> None:
    assert site.linked(text, source) == expected


def test_the_reference_has_every_public_name() -> None:
    named = {name for _, names in reference.PAGES.values() for name in names}
    # `uncork.score` is written so, and is the function of the module.
    missing = set(uncork.__all__) - named - {"score"}
    assert not missing
    text = "".join(map(reference.page, reference.PAGES))
    assert "## `uncork.score`\n" in text
    for name in uncork.functional.__all__:
        assert f"## `uncork.functional.{name}`\n" in text


def test_a_page_of_the_reference() -> None:
    text = reference.page("models")
    assert text.startswith(
        "# Models\n\n## `uncork.read_model`\n\n```python\nuncork.read_model(\n"
        "    path: str | os.PathLike[str] | bytes | BinaryIO,\n"
    )
    assert "    *,\n    mmap: bool = True,\n) -> Model\n```\n\nRead and check `model.xml`" in text
    assert "### `.add()`\n" in text


@pytest.mark.parametrize(
    "function",
    [
        uncork.load,
        uncork.compile_model,
        uncork.score.score,
        Scorer,
        compare,
        uncork.to_onnx,
        uncork.write_onnx,
        uncork.to_torch,
    ],
    ids=lambda function: function.__name__,
)
def test_every_option_is_told_of(function: Callable[..., Any]) -> None:
    text = function.__doc__ or ""
    untold = [name for name in inspect.signature(function).parameters if f"`{name}" not in text]
    assert not set(untold) - {"model", "path"}, untold  # these say what they are


def built(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """The site built in a folder, as README and CONTRIBUTING say.

    Without --quiet, which would drop the warnings that --strict counts.
    """
    pytest.importorskip("material")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    return subprocess.run(
        [*command, *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )


def test_the_site_is_built(tmp_path: Path) -> None:
    done = built(tmp_path / "site")
    assert done.returncode == 0, done.stdout + done.stderr
    pages = {
        path.relative_to(tmp_path / "site").as_posix()
        for path in (tmp_path / "site").rglob("index.html")
    }
    assert {
        "index.html",
        "reference/calling/index.html",
        "operations/index.html",
        "results/models/index.html",
    } <= pages
    for page in pages:
        text = (tmp_path / "site" / page).read_text(encoding="utf-8")
        # what the site has itself it does not look for elsewhere
        away = {
            address.place(link.partition("#")[0]) for link in re.findall('href="([^"]+)"', text)
        }
        assert not away & site.pages().keys(), page
        assert not broken_powers(text), page


def broken_powers(text: str) -> list[str]:
    """Where emphasis begins or ends inside of a word: 2**63 to 2**64 was read as Markdown."""
    return re.findall(r".{0,20}\w<(?:strong|em)>.{0,20}|.{0,20}</(?:strong|em)>\w.{0,20}", text)


def test_broken_powers_are_found() -> None:
    markdown = pytest.importorskip("markdown")
    assert broken_powers(markdown.markdown("a * 2**b, modulo 2**bits"))
    assert not broken_powers(markdown.markdown("a * 2**b, **at most** 2 * 3"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a * 2**b, modulo 2**bits", "a * 2\\*\\*b, modulo 2\\*\\*bits"),
        ("`2**b | c` and a_b, _c_", "`2**b \\| c` and a_b, \\_c\\_"),
        ("[n] of [a](b), x <= y", "[n] of [a\\](b), x &lt;= y"),
    ],
)
def test_cells_of_generated_tables_stand_for_themselves(text: str, expected: str) -> None:
    assert cell(text) == expected


def test_a_link_that_leads_nowhere_is_an_error(tmp_path: Path) -> None:
    """A page with one beside the others: what is found in it ends the build."""
    pytest.importorskip("material")
    docs = tmp_path / "docs"
    shutil.copytree(ROOT / "docs", docs)
    (docs / "glossary.md").write_text("# Glossary\n\n[a](nowhere.md)\n", encoding="utf-8")
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    settings = settings.replace("docs_dir: docs", f"docs_dir: {docs}")
    settings = settings.replace("- tools/site.py", f"- {ROOT / 'tools' / 'site.py'}")
    (tmp_path / "mkdocs.yml").write_text(settings, encoding="utf-8")
    done = built(tmp_path / "site", "--config-file", str(tmp_path / "mkdocs.yml"))
    assert done.returncode == 1
    assert "'glossary.md' contains a link 'nowhere.md'" in done.stderr
