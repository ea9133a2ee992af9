"""Random networks on codes have the results of the reference."""

from __future__ import annotations

from collections import Counter

import pytest

pytest.importorskip("llvmlite")

from tests.fuzz.codes import finding


def test_networks_on_codes() -> None:
    counts: Counter[str] = Counter()
    assert [found for n in range(40) if (found := finding(f"suite:{n}", counts))] == []
    on_codes = {"QuantizedElements", "QuantizedPool", "QuantizedProduct", "VariadicSplit", "Concat"}
    assert all(counts[name] >= 5 for name in on_codes), counts


def test_networks_on_codes_of_another_processor() -> None:
    found = [finding(f"narrow:{n}", target="x86-64-v3") for n in range(15)]
    assert [one for one in found if one] == []
