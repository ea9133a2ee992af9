"""The report of `uncork compare` and the site in a real browser, wide and narrow; skipped where
none is there.

`pip install PyQt6-WebEngine` brings a headless Chromium. With UNCORK_PICTURES=FOLDER each page is
left there as a picture.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import uncork
from tests.browser.chromium import WIDER
from tests.compare._models import X, network, wrong_weight
from uncork.cli import main
from uncork.graph_page.graph import Findings
from uncork.graph_page.page import page

ROOT = Path(__file__).resolve().parents[2]
WIDTHS = pytest.mark.parametrize("width", [1400, 390])
#: Where tables are wider than the page, they scroll, and not the page.
LOOK = f"""JSON.stringify({{
    wider: {WIDER},
    rows: document.querySelectorAll('.layers tr').length,
    seen: [...document.querySelectorAll('.layers tr')].filter(row => row.offsetHeight).length,
    bars: document.querySelectorAll('.layers rect').length,
    conclusion: (document.querySelector('.good,.bad') || {{}}).innerText,
}})"""


def browse(page: Path, width: int, script: str, name: str) -> str:
    """What the script gives in the page."""
    if (
        importlib.util.find_spec("PyQt6") is None
        or importlib.util.find_spec("PyQt6.QtWebEngineWidgets") is None
    ):
        pytest.skip("no browser: pip install PyQt6-WebEngine")
    words = [
        sys.executable,
        "-m",
        "tests.browser.chromium",
        page.as_uri(),
        str(width),
        "900",
        script,
    ]
    pictures = os.environ.get("UNCORK_PICTURES")
    if pictures:
        words.append(os.path.join(pictures, f"{name}_{width}.png"))
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=180, check=False)
    if (
        "error while loading shared libraries" in done.stderr
        or "cannot open shared object" in done.stderr
    ):
        pytest.skip(f"no browser: {done.stderr.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    (answer,) = [line for line in done.stdout.splitlines() if line.startswith("answer: ")]
    return answer[len("answer: ") :]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp(
        "a_folder_with_a_name_that_is_longer_than_a_narrow_page_is_wide"
    )
    model, other = network(folder / "model.xml"), network(folder / "other.xml", wrong_weight)
    np.save(folder / "x.npy", X)
    words = [
        "compare",
        str(model),
        "--against",
        str(other),
        "-i",
        str(folder / "x.npy"),
        "--html",
        str(folder / "report.html"),
    ]
    assert main(words) == 1
    return folder / "report.html"


@WIDTHS
def test_the_report(report: Path, width: int) -> None:
    found = json.loads(browse(report, width, LOOK, "report"))
    assert found["wider"] <= 0
    assert found["seen"] == found["rows"] == 7  # the heading and six layers
    assert found["bars"] > 6
    assert "the first layer that differs is layer 'second'" in found["conclusion"]


def test_only_what_differs(report: Path) -> None:
    found = json.loads(
        browse(report, 1400, f"document.getElementById('only').click();\n{LOOK}", "differs")
    )
    assert found["seen"] == 2  # the heading and one layer


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The graph of that model, with times and the layer that differs."""
    folder = tmp_path_factory.mktemp("graph")
    model, other = network(folder / "model.xml"), network(folder / "other.xml", wrong_weight)
    np.save(folder / "x.npy", X)
    inputs = ["-i", str(folder / "x.npy"), "--json"]
    for name, words in (
        ("compare", ["compare", str(model), "--against", str(other)]),
        ("profile", ["bench", str(model), "--profile", "--seconds", "0.1"]),
    ):
        with (
            open(folder / f"{name}.json", "w", encoding="utf-8") as file,
            contextlib.redirect_stdout(file),
        ):
            main([*words, *inputs])
    words = ["show", str(model), "--html", str(folder / "graph.html")]
    for name in ("compare", "profile"):
        words += [f"--{name}", str(folder / f"{name}.json")]
    assert main(words) == 0
    return folder / "graph.html"


#: The boxes and what is told of the one that is picked; all arrows end at boxes.
GRAPH = f"""JSON.stringify({{
    wider: {WIDER},
    boxes: document.querySelectorAll('.box').length,
    red: [...document.querySelectorAll('.first title')].map(title => title.textContent),
    told: document.getElementById('panel').innerText,
    seen: document.getElementById('panel').offsetHeight > 0,
    over: document.getElementById('panel').getBoundingClientRect().bottom <= innerHeight,
    timed: document.querySelectorAll('.timed').length,
    note: document.getElementById('note').innerText,
}})"""


@WIDTHS
def test_the_graph(graph: Path, width: int) -> None:
    found = json.loads(browse(graph, width, GRAPH, "graph"))
    assert found["wider"] <= 0 and found["red"] == ["second"]
    # The layer that differs is picked, and its facts are told.
    assert found["seen"] and found["over"] and "second" in found["told"]
    assert "differs" in found["told"] and "kernel" in found["told"]
    assert found["timed"] == found["boxes"] - 1
    assert found["note"].startswith(f"{found['boxes']} layers, ")


def test_a_click_and_a_search(graph: Path) -> None:
    click = "document.querySelector('.box').dispatchEvent(new MouseEvent('click'));"
    found = json.loads(browse(graph, 1400, f"{click}\n{GRAPH}", "click"))
    assert "Parameter" in found["told"]
    search = (
        "const find = document.getElementById('find'); find.value = 'first';"
        "find.dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter'}));"
    )
    found = json.loads(browse(graph, 1400, f"{search}\n{GRAPH}", "search"))
    assert found["told"].splitlines()[1].startswith("first")


def test_a_thousand_layers_open(tmp_path: Path) -> None:
    """All of them, with names that would be a script if they were not text."""
    builder = uncork.Builder("long")
    x = y = builder.parameter("x", "f32", [2])
    hostile = "<img src=x onerror=\"document.title='PWNED'\">"
    for number in range(1000):
        inputs = (y, x) if number % 5 == 0 else (y,)
        kind = "Add" if number % 5 == 0 else "Sin"
        (y,) = builder.add(kind, 1, *inputs, name=f"{hostile}{number}")
    builder.result(y)
    path = tmp_path / "graph.html"
    path.write_text(page(builder.model(), hostile, Findings()), encoding="utf-8")
    script = (
        "document.querySelectorAll('.box').length + ' ' + document.images.length + document.title"
    )
    assert browse(path, 1400, script, "long") == f"1002 0{hostile}"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("material")
    folder = tmp_path_factory.mktemp("site")
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--quiet",
        "--no-directory-urls",
        "--site-dir",
        str(folder),
    ]
    subprocess.run(command, cwd=ROOT, check=True)
    return folder


@pytest.mark.parametrize(
    "page", ["index", "models", "operations", "scoring", "reference/calling", "results/models"]
)
@WIDTHS
def test_the_site(site: Path, page: str, width: int) -> None:
    found = browse(site / f"{page}.html", width, WIDER, page.replace("/", "_"))
    assert float(found) <= 0
