"""Fixtures that several test files use."""

from __future__ import annotations

import os
import shutil
import site
import sys
import tempfile
from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests._openvino import OpenVino

# The same cases on every machine and in every run: a failure in CI is a failure at home.
settings.register_profile("fixed", derandomize=True, deadline=None, database=None)
settings.load_profile("fixed")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--without-llvmlite", action="store_true", help="hide llvmlite: everything must work by the references")
    parser.addoption("--update-golden", action="store_true", help="write the golden texts of printed plans anew")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--without-llvmlite"):
        assert "llvmlite" not in sys.modules, "too late to hide it"
        sys.modules["llvmlite"] = None  # type: ignore[assignment]  # which is how Python spells that an import fails
    if "PYTEST_XDIST_WORKER" not in os.environ:  # workers have the environment of the process that starts them
        _use_own_home(config)


def _use_own_home(config: pytest.Config) -> None:
    """Kernels are kept in the user's home: give all processes of this session one that goes with it."""
    os.environ.setdefault("PYTHONUSERBASE", site.getuserbase())  # packages that a user installed are still found
    home = tempfile.mkdtemp(prefix="uncork-tests-")
    for name in ("HOME", "USERPROFILE"):
        os.environ[name] = home
    config.add_cleanup(lambda: shutil.rmtree(home, ignore_errors=True))


@pytest.fixture(scope="session")
def openvino() -> Iterator[OpenVino]:
    """OpenVINO in a process of its own; the test is skipped where it is not installed."""
    pytest.importorskip("openvino")
    worker = OpenVino()
    yield worker
    worker.close()
