"""The target: a processor as a value, for which kernels are selected and written wherever one
is.
"""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace
from tools.kernel_recorder import TARGETS

from tests.kernels._run import spec_of
from uncork.kernels.kernel_plan import KernelPlan
from uncork.kernels.kernel_spec import llvm_text
from uncork.kernels.runtime.target import Target, with_tiles
from uncork.kernels.select import select_kernel
from uncork.ops import find
from uncork.types import ElementType, TensorSpec


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


def test_tiles_are_asked_for_where_they_may_be() -> None:
    """No system grants a processor without AMX, or one of another architecture, what it does not
    have.
    """
    assert with_tiles(TARGETS["x86-64-v4"]) == TARGETS["x86-64-v4"]
    foreign = replace(TARGETS["amx"], arch="aarch64", tiles=False)
    assert with_tiles(foreign) == foreign


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
