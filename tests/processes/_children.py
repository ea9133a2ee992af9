"""Processes of a test's own: what may crash or hang is tried in a child."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


#: What has kernels compiled that come with the package: tests look at how, and what fails then.
COMPILING = "from uncork.kernels.runtime import bundle; bundle.FOLDER = bundle.Path('nowhere')\n"


def run_child(
    code: str, *arguments: object, timeout: float = 120, **more: Any
) -> subprocess.CompletedProcess[str]:
    """Run Python code with the project and its tests importable; raises TimeoutExpired when it
    hangs.

    `home`: a folder in place of the user's, where kernels are kept. Where there is an llvmlite it
    compiles them all, unless `compiles=False` says that the code comes first.
    """
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path}
    if "home" in more:
        environment["HOME"] = str(more.pop("home"))
    if more.pop("compiles", True) and importlib.util.find_spec("llvmlite") is not None:
        code = COMPILING + code
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=timeout,
        env=environment,
        check=False,
        **more,
    )
