"""A user's program with types: it runs, and `mypy` reads it with `strict`."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.openvino_api import typed_program


def test_it_runs(tmp_path: Path) -> None:
    picture, request, three_times, called, twice = typed_program.main(tmp_path)
    assert picture.shape == (1, 4)
    np.testing.assert_array_equal(request, called)
    np.testing.assert_allclose(three_times, 3 * called, rtol=1e-6)
    np.testing.assert_allclose(twice, 2 * called, rtol=1e-5)


def test_mypy_reads_it_with_strict() -> None:
    settings = (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    told = settings.partition("[tool.mypy]")[2].partition("[[")[0]
    assert "strict = true" in told and "tests/openvino_api/typed_program.py" in told
