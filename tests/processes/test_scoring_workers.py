"""Worker processes of scoring: what they import."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyarrow")

from tests.processes._children import run_child
from tests.score.conftest import bags, random_rows  # noqa: F401  # a fixture
from tests.score.test_units import BAGS, write

SCORE = """
import sys
sys.path[:] = [path for path in sys.path if path]  # as an installed command begins
from uncork.cli import main
sys.exit(main(sys.argv[1:]))
"""


def test_nothing_is_imported_from_the_current_folder(bags: Path, tmp_path: Path) -> None:  # noqa: F811
    """Where the parent does not look, workers do not: files with names of modules lie in the folder
    that it was started in.
    """
    downloads = tmp_path / "downloads"
    downloads.mkdir()
    for name in (
        "json",
        "pickle",
        "signal",
        "threading",
        "time",
        "numpy",
        "pyarrow",
        "uncork",
        "typing",
        "collections",
    ):
        (downloads / f"{name}.py").write_text(
            f"open({str(tmp_path / 'was_run')!r}, 'a').write('{name} ')\nraise SystemExit(3)\n"
        )
    rows = write(tmp_path / "rows.parquet", random_rows(10, 1))
    options = [word for name, text in BAGS.items() for word in ("--input", f"{name}={text}")]
    done = run_child(
        SCORE,
        "score",
        bags,
        rows,
        tmp_path / "out.parquet",
        "--workers",
        "1",
        *options,
        cwd=downloads,
        compiles=False,
    )
    assert not (tmp_path / "was_run").exists(), (tmp_path / "was_run").read_text()
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out.parquet").exists()
