"""Recurrent kernels give what the formulas give of infinite, huge and missing numbers: a gate that
is shut times an infinite state is NaN, and times a huge one 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from tests.kernels._extremes import DEFAULTS, GATES, ROWS, cases, step
from tests.kernels._run import run_native, spec_of
from uncork.kernels.kernel_plan import KernelPlan
from uncork.kernels.runtime.target import levels_here
from uncork.ops import find
from uncork.types import ElementType

LEVELS = {str(number): level for number, level in enumerate(levels_here())}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("hidden", [1, 3, 17, 40])
@pytest.mark.parametrize("element_type", ["f32", "f64"])
@pytest.mark.parametrize("bounded", [True, False])
@pytest.mark.parametrize("cell", GATES)
def test_extremes(cell: str, bounded: bool, element_type: str, hidden: int, level: str) -> None:
    kind = ElementType.parse(element_type)
    functions = DEFAULTS[cell] if bounded else tuple("relu" for _ in DEFAULTS[cell])
    attributes: dict[str, Any] = {"hidden_size": hidden, "activations": functions}
    if cell.startswith("gru"):
        attributes["linear_before_reset"] = cell == "gru_after"
    type_name = cell.partition("_")[0].upper()
    found = find(f"{type_name}Sequence", 5)
    assert found is not None
    operation = found(direction="forward", **attributes)
    # Without bounds f32 would overflow in other places than f64.
    steps, huge = (2, 1e30) if bounded else (1, 1e8)
    for what, x, states, weights in cases(cell, hidden, hidden, huge):
        x, states = x.astype(kind.dtype), [state.astype(kind.dtype) for state in states]
        w, r, b = (each.astype(kind.dtype) for each in weights)
        specs = [
            spec_of(np.repeat(x[:, None], steps, 1), kind),
            *(spec_of(state[:, None], kind) for state in states),
            spec_of(np.full(len(ROWS), steps), ElementType.i64),
            *(spec_of(each[None], kind) for each in (w, r, b)),
        ]
        results, choice = run_native(operation, specs, target=LEVELS[level])
        assert isinstance(choice, KernelPlan), choice
        assert results is not None
        expected = states
        for t in range(steps):
            with np.errstate(all="ignore"):
                expected = [
                    state.astype(kind.dtype)
                    for state in step(cell, functions, x, expected, (w, r, b))
                ]
            np.testing.assert_allclose(
                results[0][:, 0, t], expected[0], rtol=1e-4, atol=1e-5, err_msg=f"{what} {t}"
            )
        for last, state in zip(results[1:], expected, strict=True):
            np.testing.assert_allclose(last[:, 0], state, rtol=1e-4, atol=1e-5, err_msg=what)
