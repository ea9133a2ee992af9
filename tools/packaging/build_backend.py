"""The build backend: setuptools', after the kernels are compiled that come with the package.

    pip install .                              # the kernels of this machine's level
    pip install . --config-settings kernels=none
    python -m build --wheel --config-setting kernels=all        # of all levels: one wheel for many

A wheel with kernels is for an architecture, not for a version of Python. llvmlite is needed here
and not by what is installed; where there is none for the system (musl), and in a source
distribution for another, the wheel has no kernels, unless they are there already: those of
src/uncork/kernels/bundled that were made of these very sources are taken as they are.
"""

from __future__ import annotations

import platform
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import (  # noqa: F401  (hooks that installers look for)
    build_editable,
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

ROOT = Path(__file__).resolve().parents[2]
#: What compiling needs. The package's own requirements are those of pyproject.toml.
COMPILES = ("llvmlite>=0.44,<1", "numpy>=1.24,<3", "msgspec>=0.19,<1")
CHOICES = ("host", "all", "none")
Settings = Mapping[str, Any]


def get_requires_for_build_wheel(config_settings: Settings | None = None) -> list[str]:
    """What has to be there for a wheel."""
    needed: list[str] = build_meta.get_requires_for_build_wheel(_others(config_settings))
    return [*needed, *(COMPILES if _choice(config_settings) != "none" and has_llvmlite() else ())]


def build_wheel(
    wheel_directory: str,
    config_settings: Settings | None = None,
    metadata_directory: str | None = None,
) -> str:
    """Make a wheel; its name."""
    settings = _others(config_settings)
    if _choice(config_settings) != "none" and made(_choice(config_settings)):
        options = ["--plat-name", sysconfig.get_platform()]
        settings = {**settings, "--build-option": [*settings.get("--build-option", ()), *options]}
    name: str = build_meta.build_wheel(wheel_directory, settings, metadata_directory)
    return name


def has_llvmlite() -> bool:
    """Whether there is an llvmlite to be had for this system."""
    known = platform.machine().lower() in ("x86_64", "amd64", "aarch64", "arm64")
    return known and sys.maxsize > 1 << 32 and "musl" not in _libc()


def made(choice: str) -> bool:
    """Compile what is not there yet; whether there are kernels now."""
    sys.path[:0] = [str(ROOT), str(ROOT / "src")]
    try:
        from tools import kernel_bundle
    except ImportError as error:  # no llvmlite, or one that does not work
        print(f"the wheel has no kernels: {error}", file=sys.stderr)
        return False
    finally:
        del sys.path[:2]
    return bool(kernel_bundle.make_missing(choice))


def _choice(settings: Settings | None) -> str:
    choice = str((settings or {}).get("kernels", "host"))
    if choice not in CHOICES:
        raise SystemExit(f"kernels: expected one of {', '.join(CHOICES)}, got '{choice}'")
    return choice


def _others(settings: Settings | None) -> dict[str, Any]:
    """The settings that are not for this file."""
    return {name: value for name, value in (settings or {}).items() if name != "kernels"}


def _libc() -> str:
    return str(sysconfig.get_config_var("HOST_GNU_TYPE") or "")
