"""The pages say what is true: the operations page is current, the README's Python code and its
example run.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tools import (
    address,
    export_page,
    functional_page,
    functional_stub,
    models_figure,
    one_line_page,
    onnx_page,
    operations_page,
)

from tests import _pages
from uncork.cli import COMMANDS
from uncork.cli._parser import Parser

ROOT = Path(__file__).resolve().parent.parent


def test_page_of_the_one_line_is_current() -> None:
    assert one_line_page.PAGE.read_text(encoding="utf-8") == one_line_page.page(), (
        "run python -m tools.one_line_page"
    )


def test_operations_page_is_current() -> None:
    pytest.importorskip("llvmlite")  # the page says what has kernels
    assert operations_page.PAGE.read_text(encoding="utf-8") == operations_page.page(), (
        "run python -m tools.operations_page"
    )


def test_onnx_page_is_current() -> None:
    assert onnx_page.PAGE.read_text(encoding="utf-8") == onnx_page.page(), (
        "run python -m tools.onnx_page"
    )


def test_page_of_functions_is_current() -> None:
    assert functional_page.PAGE.read_text(encoding="utf-8") == functional_page.page(), (
        "run python -m tools.functional_page"
    )


def test_what_type_checkers_read_of_functions_is_current() -> None:
    assert functional_stub.PAGE.read_text(encoding="utf-8") == functional_stub.page(), (
        "run python -m tools.functional_stub"
    )


def test_export_page_is_current() -> None:
    assert export_page.PAGE.read_text(encoding="utf-8") == export_page.page(), (
        "run python -m tools.export_page"
    )


def test_the_figure_and_the_number_are_those_of_the_page() -> None:
    page = models_figure.PAGE.read_text(encoding="utf-8")
    found = models_figure.rows(page)
    told = int(models_figure.sentence(page).split()[1])
    assert len(found) == told
    stale = "run python -m tools.models_figure"
    assert models_figure.FIGURE.read_text(encoding="utf-8") == models_figure.figure(found), stale
    readme = models_figure.README.read_text(encoding="utf-8")
    assert models_figure.SENTENCE.findall(readme) == [models_figure.sentence(page)], stale


def test_readme_code_runs() -> None:
    blocks = re.findall(
        r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL
    )
    assert blocks
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(blocks)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "probabilities f32[?,8]" in done.stdout


#: Pages whose samples run as they stand; get_a_model is run step by step above.
RUN = (
    *("troubleshooting", "threads_and_state", "scoring", "shrink", "language_models", "streams"),
    "compiled_files",
)
PARTS = {
    (name, needs): steps
    for name in RUN
    for needs, steps in _pages.steps(ROOT / "docs" / f"{name}.md").items()
}


@pytest.mark.parametrize(
    ("name", "needs"),
    PARTS,
    ids=lambda part: "-".join([*part]) if isinstance(part, tuple) else part,
)
def test_pages_run_as_they_say(name: str, needs: tuple[str, ...], tmp_path: Path) -> None:
    for module in needs:
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed")
    if "pyspark" in needs and shutil.which("java") is None:
        pytest.skip("Spark needs Java")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    _pages.run(PARTS[name, needs], tmp_path)


def test_every_page_with_code_is_run() -> None:
    with_code = {
        p.stem
        for p in ROOT.glob("docs/*.md")
        if re.search("^```(python|console)", p.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert with_code == {"get_a_model", *RUN}


CONVERSIONS = _pages.steps(ROOT / "docs" / "get_a_model.md")


@pytest.mark.oracle
@pytest.mark.parametrize("last", CONVERSIONS, ids=lambda needs: needs[-1])
def test_models_are_converted_as_the_page_says(last: tuple[str, ...], tmp_path: Path) -> None:
    asked = (
        "import transformers; transformers.BertModel"
        if "transformers" in last
        else "import " + ", ".join(last)
    )
    environment = {**os.environ, "KERAS_BACKEND": "torch"}
    found = subprocess.run(
        [sys.executable, "-c", asked],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if found.returncode:
        pytest.skip(found.stderr.strip().splitlines()[-1])
    _pages.run(CONVERSIONS[last], tmp_path)


@pytest.mark.parametrize(
    ("printed", "expected", "same"),
    [
        ("a\nb", "a\nb\n", True),
        ("a 12 b  \n", "a ... b", True),
        ("a\nb\nc", "a\n...\nc", True),
        ("a b", "a", False),
        ("axb", "a.b", False),
    ],
)
def test_what_a_page_shows_is_held_against_what_is_printed(
    printed: str, expected: str, same: bool
) -> None:
    assert _pages.matches(printed, expected) is same


def commands_of(text: str, indent: int) -> list[str]:
    """What follows "uncork" on the lines of code, with the lines that go on."""
    joined = re.sub(r" *\\\n *", " ", text)
    lines = re.findall(rf"(?m)^ {{{indent}}}(.*)$|^\$ (.*)$", joined)
    found = [re.search(r"(?:^|&& )uncork ([a-z].*)", first or second) for first, second in lines]
    return [one[1] for one in found if one is not None]


def test_commands_of_the_pages_are_understood() -> None:
    """Every one, whether its files are there or not; so are the examples of the help texts."""
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("examples/*/*.md")]
    texts = [(page.name, page.read_text(encoding="utf-8"), 4) for page in pages]
    texts += [(f"uncork {name}", parser_of(name).epilog or "", 2) for name in COMMANDS]
    told = [(where, line) for where, text, n in texts for line in commands_of(text, n)]
    for where, line in told:
        # What follows the command: another one, a file for its output, or a word about it.
        name, *words = shlex.split(re.split(r" +(?:#|&&|>) ?| {3,}", line)[0])
        assert name in COMMANDS, f"{where}: {line}"
        try:
            parser_of(name).read(words)
        except SystemExit:
            pytest.fail(f"{where}: uncork {line}")
    assert len(told) > 60


def parser_of(name: str) -> Parser:
    found: Parser = importlib.import_module(f"uncork.cli.{name.replace('-', '_')}").parser()
    return found


def test_the_path_of_one_call_can_be_walked() -> None:
    """Every file that it names is there, and has in it what it names of the file."""
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    (path,) = re.findall(r"### One call.*?(?=\n## )", text, re.DOTALL)
    steps = re.split(r"\n(?=\d+\. |\n)", path)
    walked = 0
    for step in steps:
        files = re.findall(r"`([a-z_/]+\.py)`", step)
        sources = "".join(
            (ROOT / "src" / "uncork" / file).read_text(encoding="utf-8") for file in files
        )
        for name in re.findall(r"`([A-Za-z_.]+?)`", step) if files else []:
            if not name.endswith(".py"):
                assert name.split(".")[-1] in sources, f"{name} is not in {files}"
        walked += len(files)
    assert walked > 10


def test_links_lead_somewhere() -> None:
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("examples/*/*.md")]:
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8")):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_links_of_the_readme() -> None:
    """They are absolute, for it is shown elsewhere, too, and lead to what the project has."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    prose = re.sub(r"(?s)```.*?```|`[^`\n]*`|(?m:^ {4}[^\n]*)", "", text)
    defined = dict(re.findall(r"(?m)^\[([^\]]+)\]: (\S+)$", prose))
    inline = re.findall(r"\]\(([^)\s]+)\)", prose)
    for link in [*defined.values(), *inline]:
        assert "://" in link or link.startswith("#"), f"{link} is relative"
        if link.startswith(address.home()):
            place = address.place(link.partition("#")[0])
            assert place is not None and (ROOT / place).exists(), link
    used = re.findall(r"(?m)^\[[^\]]+\]: .*$|\[[^\]]+\]\[([^\]]+)\]|\[([^\]]+)\](?![\[(:])", prose)
    names = {name for pair in used for name in pair if name}
    assert names == defined.keys()


def test_the_address_is_in_one_place(tmp_path: Path) -> None:
    """What else has it follows: `python -m tools.address` moves all of it."""
    for name in address.FILES:
        (tmp_path / name).write_text((ROOT / name).read_text(encoding="utf-8"), encoding="utf-8")
    old = address.home(tmp_path)
    assert address.move("https://example.org/me/cork/", tmp_path) > 10
    assert address.home(tmp_path) == "https://example.org/me/cork"
    assert address.place("https://example.org/me/cork/blob/main/docs/cli.md", tmp_path) == (
        "docs/cli.md"
    )
    for name in address.FILES:
        assert old not in (tmp_path / name).read_text(encoding="utf-8")
    assert address.main(["nowhere"]) == 2
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    section = text.partition("[project.urls]\n")[2].partition("\n[")[0]
    urls = dict(re.findall(r'(?m)^(\w+) = "([^"]+)"$', section))
    assert urls.keys() == {"Homepage", "Documentation", "Source", "Changelog", "Issues"}
    assert all(url.startswith(old) for url in urls.values())
    for link in (urls["Documentation"], urls["Changelog"]):
        assert (ROOT / str(address.place(link))).exists()


@pytest.mark.oracle
def test_the_readme_compares_and_measures() -> None:
    pytest.importorskip("openvino")
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for command, options, status, said in (
        ("compare", "", 1, "the first layer that differs is layer 'gru'"),
        ("bench", " --seconds 0.1", 0, "times as fast as"),
    ):
        (line,) = re.findall(rf"^    uncork ({command} examples/.*)$", text, re.MULTILINE)
        words = [sys.executable, "-m", "uncork", *(line + options).split()]
        done = subprocess.run(
            words, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == status, done.stderr
        assert said in done.stdout


@pytest.mark.oracle
def test_the_difference_from_openvino_is_as_shown() -> None:
    pytest.importorskip("openvino")
    script = ROOT / "examples" / "ids_out_of_range.py"
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=120, check=True
    )
    bag, converted, gather = re.split(r"(?m)^(?=Gather|The same)", done.stdout)
    for part in (bag, converted):
        assert "OpenVINO: [[1.0]]" in part, "OpenVINO no longer narrows ids: say so in the README"
        assert "indices[0] is 4294967297, expected 0 to 4" in part
    assert "uncork:   [4, 0, 0]" in gather
