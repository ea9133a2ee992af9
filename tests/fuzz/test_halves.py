"""Random networks in bf16 with a fixed seed. `python -m tests.fuzz.halves` does thousands."""

from __future__ import annotations

import pytest

pytest.importorskip("llvmlite")

from tests.fuzz.halves import finding
from uncork.kernels.runtime.target import host_target
from uncork.kernels.stored_types import multiplies_pairs


@pytest.mark.skipif(
    not multiplies_pairs(host_target()), reason="the processor has no products of bf16"
)
def test_random_networks_in_bf16() -> None:
    held = 0
    for number in range(24):
        found, halves = finding(f"0:{number}")
        assert not found, f"0:{number} {found}"
        held += halves
    assert held >= 16
