"""Snippets in the style of OpenVINO's documentation, and programs in that of its notebooks: each
asserts by itself what it must give, and gives what OpenVINO gives.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.openvino_api.conftest import HERE, changed, run

PROGRAMS = sorted([*HERE.glob("snippets/*.py"), *HERE.glob("programs/*.py")])


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_with_one_line_changed(path: Path) -> None:
    assert run(path, with_uncork=True)


@pytest.mark.oracle
@pytest.mark.parametrize("path", PROGRAMS, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_as_openvino(path: Path) -> None:
    pytest.importorskip("openvino")
    same(run(path, with_uncork=True), run(path, with_uncork=False), path.stem)


def same(got: Any, expected: Any, where: str) -> None:
    """Fail where two results differ by more than rounding."""
    if isinstance(expected, np.ndarray) and expected.dtype.kind in "fc":
        assert got.dtype == expected.dtype, where
        np.testing.assert_allclose(got, expected, rtol=2e-4, atol=2e-5, err_msg=where)
    elif isinstance(expected, np.ndarray):
        assert got.dtype.kind == expected.dtype.kind, where
        np.testing.assert_array_equal(got, expected, err_msg=where)
    elif isinstance(expected, (list, tuple)):
        assert len(got) == len(expected), where
        for position, (one, other) in enumerate(zip(got, expected, strict=True)):
            same(one, other, f"{where}[{position}]")
    elif isinstance(expected, (float, np.floating)):
        assert type(got) is type(expected) and got == pytest.approx(expected, rel=1e-4), where
    else:
        assert got == expected, where


def test_there_are_enough() -> None:
    counts = {"snippets": 38, "programs": 10}
    assert all(len(list(HERE.glob(f"{f}/*.py"))) >= count for f, count in counts.items())


def test_the_line_that_is_changed() -> None:
    assert changed("import openvino as ov\n") == "import uncork.openvino as ov\n"
    assert changed("from openvino import Core\n") == "from uncork.openvino import Core\n"
