"""Fixtures that several test files use."""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests._openvino import OpenVino

# The same cases on every machine and in every run: a failure in CI is a failure at home.
settings.register_profile("fixed", derandomize=True, deadline=None, database=None)
settings.load_profile("fixed")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--without-llvmlite",
        action="store_true",
        help="hide llvmlite: everything must work by the references",
    )
    parser.addoption(
        "--update-golden", action="store_true", help="write the golden texts of printed plans anew"
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--without-llvmlite"):
        assert "llvmlite" not in sys.modules, "too late to hide it"
        sys.modules["llvmlite"] = None  # type: ignore[assignment]  # which is how Python spells that an import fails
    if importlib.util.find_spec("llvmlite") is None:
        # Said once in a process, by whichever test comes first: a test of its own looks at it.
        config.addinivalue_line("filterwarnings", "ignore:llvmlite:uncork.errors.UncorkWarning")
        os.environ["PYTHONWARNINGS"] = "ignore:llvmlite"  # in processes that tests start
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell's background jobs ignore Ctrl-C, and so would the processes that tests interrupt.
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def openvino() -> Iterator[OpenVino]:
    """OpenVINO in a process of its own; the test is skipped where it is not installed."""
    pytest.importorskip("openvino")
    worker = OpenVino()
    yield worker
    worker.close()
