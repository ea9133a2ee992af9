"""The build backend: what a wheel needs and is called. (`.ci/run` installs by it.)"""

from __future__ import annotations

import importlib.util
import sys
import sysconfig
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("setuptools")

ROOT = Path(__file__).parents[2]
PLACE = ROOT / "tools" / "packaging" / "build_backend.py"


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("build_backend", PLACE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module.build_meta, "get_requires_for_build_wheel", lambda settings: [])
    return module


def test_llvmlite_is_needed_to_build_where_there_is_one(
    backend: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend, "has_llvmlite", lambda: True)
    assert any(need.startswith("llvmlite>=") for need in backend.get_requires_for_build_wheel())
    assert backend.get_requires_for_build_wheel({"kernels": "none"}) == []
    monkeypatch.setattr(backend, "has_llvmlite", lambda: False)
    assert backend.get_requires_for_build_wheel({"kernels": "all"}) == []


@pytest.mark.parametrize(
    ("machine", "libc", "has"),
    [
        ("x86_64", "x86_64-pc-linux-gnu", True),
        ("AMD64", None, True),
        ("arm64", None, True),
        ("x86_64", "x86_64-pc-linux-musl", False),
        ("riscv64", "riscv64-linux-gnu", False),
    ],
)
def test_where_there_is_an_llvmlite(
    backend: ModuleType, monkeypatch: pytest.MonkeyPatch, machine: str, libc: str | None, has: bool
) -> None:
    monkeypatch.setattr("platform.machine", lambda: machine)
    monkeypatch.setattr(sysconfig, "get_config_var", lambda name: libc)
    assert backend.has_llvmlite() is has


@pytest.mark.parametrize(
    ("settings", "asked", "options"),
    [
        (None, ["host"], ["--plat-name", sysconfig.get_platform()]),
        ({"kernels": "all"}, ["all"], ["--plat-name", sysconfig.get_platform()]),
        ({"kernels": "none"}, [], []),
    ],
)
def test_a_wheel_with_kernels_is_for_a_system(
    backend: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    settings: dict[str, str] | None,
    asked: list[str],
    options: list[str],
) -> None:
    choices: list[str] = []
    given: dict[str, Any] = {}

    def build(folder: str, settings: dict[str, Any], metadata: object) -> str:
        given.update(settings)
        return "name.whl"

    monkeypatch.setattr(backend, "made", lambda choice: choices.append(choice) or True)
    monkeypatch.setattr(backend.build_meta, "build_wheel", build)
    assert backend.build_wheel("folder", settings) == "name.whl"
    assert choices == asked
    assert given.get("--build-option", []) == options and "kernels" not in given


def test_a_wheel_without_kernels_is_for_every_system(
    backend: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where nothing compiles, as on a system that llvmlite has no wheel for."""
    monkeypatch.setattr(
        backend.build_meta, "build_wheel", lambda folder, settings, _: str(settings)
    )
    monkeypatch.setitem(sys.modules, "llvmlite", None)
    for name in [n for n in sys.modules if n in ("tools.kernel_bundle",) or n.endswith(".llvm")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr("tools.kernel_bundle", raising=False)
    monkeypatch.delattr("uncork.kernels.runtime.llvm", raising=False)
    assert backend.build_wheel("folder") == "{}"
    assert "the wheel has no kernels: " in capsys.readouterr().err


def test_another_choice_is_refused(backend: ModuleType) -> None:
    with pytest.raises(SystemExit, match="kernels: expected one of host, all, none, got 'some'"):
        backend.build_wheel("folder", {"kernels": "some"})
