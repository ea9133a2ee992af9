"""Fixtures that several test files use."""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests._openvino import OpenVino

# The same cases on every machine and in every run: a failure in CI is a failure at home.
settings.register_profile("fixed", derandomize=True, deadline=None, database=None)
settings.load_profile("fixed")

#: So many files of tests are run in one process.
FEW = 5


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
    if importlib.util.find_spec("llvmlite") is not None:  # tests look at what it compiles
        from uncork.kernels.runtime import bundle

        bundle.FOLDER = Path("nowhere")
    else:
        # Said once in a process, by whichever test comes first: a test of its own looks at it.
        for first in ("llvmlite", "kernel '"):
            config.addinivalue_line("filterwarnings", f"ignore:{first}:uncork.errors.UncorkWarning")
        os.environ["PYTHONWARNINGS"] = "ignore:llvmlite,ignore:kernel '"  # in processes of tests
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell's background jobs ignore Ctrl-C, and so would the processes that tests interrupt.
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Run many files on all cores; `-n 0` is one process, as always.

    A few files start sooner in this process, where a debugger can look at them. Without
    pytest-xdist there are no workers.
    """
    options = config.option
    if getattr(options, "numprocesses", 0) is not None or "PYTEST_XDIST_WORKER" in os.environ:
        return
    watched = options.usepdb or options.collectonly or options.capture == "no"
    if not watched and test_files(config.args) > FEW:
        options.numprocesses = workers()


def test_files(arguments: list[str]) -> int:
    """How many files of tests are asked for."""
    paths = [Path(argument.partition("::")[0]) for argument in arguments]
    return sum(len(list(p.rglob("test_*.py"))) if p.is_dir() else 1 for p in paths)


def workers() -> int:
    """One worker for each core that this process may use, of 2 GB each."""
    count = getattr(os, "sched_getaffinity", None)
    cores = len(count(0)) if count else os.cpu_count() or 1
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not told here
        return cores
    return max(1, min(cores, memory // (2 << 30)))


@pytest.fixture(scope="session")
def openvino() -> Iterator[OpenVino]:
    """OpenVINO in a process of its own; the test is skipped where it is not installed."""
    pytest.importorskip("openvino")
    worker = OpenVino()
    yield worker
    worker.close()
