"""The target: a processor as a value, for which kernels are selected and written wherever one
is.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pytest
from tools.kernel_recorder import TARGETS

import uncork
from tests.kernels._run import spec_of
from uncork import UnsupportedError, ValidationError
from uncork.kernels.kernel_plan import KernelPlan
from uncork.kernels.kernel_spec import llvm_text
from uncork.kernels.runtime import processor
from uncork.kernels.runtime.target import (
    LEVELS,
    Target,
    host_target,
    lacking,
    level_of,
    target_here,
    target_named,
)
from uncork.kernels.select import select_kernel
from uncork.ops import find
from uncork.types import ElementType, TensorSpec

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("features", "lanes"),
    [
        ("+avx512f,+avx", 16),
        ("+avx,+avx2", 8),
        ("+avx2", 4),
        ("-avx512f,-avx", 4),
        ("+neon", 4),
        ("", 4),
    ],
)
def test_lanes(features: str, lanes: int) -> None:
    assert Target.of("any", "generic", features).lanes == lanes


def test_features_are_whole_names() -> None:
    target = Target.of("x86_64", "generic", "+avx2,-f16c")
    assert target.has("avx2")
    assert not target.has("avx") and not target.has("f16c") and not target.has("")


def test_targets_are_values() -> None:
    assert Target.of("x86_64", "generic", "+avx") == Target.of("x86_64", "generic", "+avx")
    with pytest.raises(AttributeError):
        TARGETS["amx"].lanes = 8  # type: ignore[misc]


@pytest.mark.parametrize("name", TARGETS)
def test_kernels_of_other_processors(name: str) -> None:
    """LLVM takes the text of a product with an activation for each of them; its vectors are as wide
    as theirs.
    """
    binding = pytest.importorskip("llvmlite.binding")
    target = TARGETS[name]
    f32 = ElementType.f32
    specs = [
        spec_of(np.ones((3, 40), np.float32), f32),
        spec_of(np.ones((40, 50), np.float32), f32),
    ]
    outputs = [TensorSpec(o.element_type, o.shape) for o in find("MatMul", 1)().describe(specs)]
    plan = select_kernel(find("MatMul", 1)(), specs, outputs, target)
    assert isinstance(plan, KernelPlan)
    ((kernel, _),) = plan.calls
    text = llvm_text(kernel, target)
    binding.parse_assembly(text).verify()
    assert f"<{target.lanes} x float>" in text


def test_every_feature_that_is_asked_for_is_in_a_level() -> None:
    """Sources ask for features by name: one that no level spells would be had by nobody."""
    sources = (ROOT / "src/uncork/kernels").rglob("*.py")
    asked = {
        name for path in sources for name in re.findall(r'\.has\("([^"]+)"\)', path.read_text())
    }
    spelled = {name for target in LEVELS.values() for name in target.needs}
    assert asked and asked <= spelled, asked - spelled


def test_levels_come_after_those_that_have_more() -> None:
    """So the first one that a processor runs is the largest that it has."""
    levels = list(LEVELS.values())
    for index, target in enumerate(levels):
        for larger in levels[index + 1 :]:
            if (target.arch, target.system) == (larger.arch, larger.system):
                assert not target.needs < larger.needs


def test_llvm_knows_every_feature_of_every_level(capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("llvmlite")
    from uncork.kernels.runtime import llvm

    for target in LEVELS.values():
        llvm._target_machine(target)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("has", "level"),
    [
        (LEVELS["x86-64-v3"].needs, "x86-64-v3"),
        (LEVELS["x86-64-v3"].needs | {"avx512f"}, "x86-64-v3"),  # Xeon Phi: no level is like it
        (LEVELS["x86-64-v3"].needs - {"f16c"}, "x86-64-v2"),
        (LEVELS["x86-64-v4"].needs | {"avx512bf16", "avxvnni"}, "x86-64-v4"),
        (LEVELS["x86-64-v4-amx"].needs, "x86-64-v4-bf16"),  # tiles are had by who asks for them
        (LEVELS["x86-64"].needs | {"more"}, "x86-64"),
        (frozenset(), None),
    ],
)
def test_the_level_of_a_processor(
    monkeypatch: pytest.MonkeyPatch, has: frozenset[str], level: str | None
) -> None:
    monkeypatch.setattr(processor, "machine", lambda: "x86_64")
    monkeypatch.setattr(processor, "features", lambda: has)
    found = host_target.__wrapped__()
    assert level_of(found) == (level if os.name != "nt" or level is None else f"{level}-windows")


@pytest.mark.parametrize("allowed", [False, True])
def test_tiles_are_had_where_the_system_lets_a_process_use_them(
    monkeypatch: pytest.MonkeyPatch, allowed: bool
) -> None:
    monkeypatch.setattr(processor, "machine", lambda: "x86_64")
    monkeypatch.setattr(processor, "features", lambda: LEVELS["x86-64-v4-amx"].needs)
    monkeypatch.setattr(processor, "may_use_tiles", lambda: allowed)
    assert host_target.__wrapped__(tiles=True).tiles is allowed


def test_targets_by_name() -> None:
    assert target_named("aarch64") is LEVELS["aarch64"]
    assert target_here(None) == host_target()
    with pytest.raises(ValidationError, match=r"target: expected one of 'native', 'x86-64-v4-amx'"):
        target_named("x86-64-v5")
    foreign = "aarch64" if processor.machine() != "aarch64" else "x86-64"
    with pytest.raises(UnsupportedError, match="which this machine has not: its own level is"):
        target_here(foreign)
    assert lacking(host_target()) == ""


def test_a_model_for_another_level_and_for_this_very_processor() -> None:
    pytest.importorskip("llvmlite")
    builder = uncork.Builder("sum")
    x = builder.parameter("x", "f32", [None])
    builder.result(builder.add("Add", 1, x, x)[0])
    model, data = builder.model(), np.arange(9, dtype=np.float32)
    least = [name for name, target in LEVELS.items() if not lacking(target)][-1]
    for name in (least, "native"):
        compiled = uncork.compile_model(model, target=name)
        assert (compiled(data)[0] == 2 * data).all()
        assert "reference" not in {step.kernel for step in compiled.plan.steps}
    with pytest.raises(ValidationError, match="target: expected one of"):
        uncork.compile_model(model, target="avx2")
