"""Random chains of decompression with a fixed seed. `python -m tests.fuzz.chains` does
thousands.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from tests.fuzz import chains


def test_products_and_look_ups_are_those_of_numpy() -> None:
    outcomes, findings = chains.fuzz(2026, range(150))
    assert not findings, "\n\n".join(findings)
    assert outcomes["stored"] > 75
    few = [name for name in chains.STORED if not outcomes[name]]
    assert not few, few


def test_a_wrong_number_is_found() -> None:
    found = 0
    for number in range(20):
        case = chains.Case(f"wrong:{number}")
        case.options["activations"] = "f32"
        # One of the numbers is not what the model has.
        value, exact = case.chain.value.copy(), case.chain.exact.copy()
        place = tuple(size // 2 for size in value.shape)
        largest = np.abs(exact).max()
        value[place], exact[place] = exact[place] + largest, exact[place] + largest
        case.chain.value, case.chain.exact = value, exact
        if case.multiplies and case.chosen is None:
            assert case.check()[0]
            found += 1
    assert found > 5


def test_zero_points_of_codes_that_bytes_hold_cancel_little() -> None:
    """Codes of 4 bits in bytes are far from 128, which sums took off each of them."""
    _, findings = chains.fuzz(2702, [104, 272])
    assert not findings, "\n\n".join(findings)
