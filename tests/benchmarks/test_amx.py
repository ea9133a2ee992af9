"""`benchmarks.amx`: chains are computed by both targets, and results that miss are said."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from benchmarks import amx
from benchmarks.options import Options, Peers

from uncork import compile_model
from uncork.kernels.runtime.target import LEVELS, lacking


@pytest.fixture
def options(tmp_path: Path) -> Options:
    return Options(Peers(("numpy",), 1), tmp_path, tmp_path / "none", quick=True, seconds=0.01)


@pytest.mark.parametrize("chain", [*amx.chains(quick=True)], ids=lambda chain: chain.name)
def test_a_chain_keeps_its_numbers_within_bounds(chain: amx.Chain) -> None:
    """Else errors of bf16 would say nothing."""
    x = np.random.default_rng(2).standard_normal(chain.shape).astype(np.float32)
    made = compile_model(chain.model(), backend="reference")(x)[0]
    assert 1e-3 < np.sqrt(np.mean(made**2)) < 10


def test_a_machine_without_amx_says_so(
    options: Options, capsys: pytest.CaptureFixture[str]
) -> None:
    if lacking(LEVELS[amx.TARGETS[1]]):
        assert amx.main(options) == 2
        assert "which this machine has not" in capsys.readouterr().out
    else:
        assert amx.main(options) in (0, 1)
        found = json.loads((options.out / "amx-quick.json").read_text())["amx"]
        assert [case["chain"] for case in found] == [c.name for c in amx.chains(quick=True)]


def test_what_is_missed_is_said() -> None:
    result = amx.Result(
        "one",
        {"f32": (4e-5, 5e-5), "without AMX": (2e-5, 3e-5), "by AMX": (1e-5, 2e-5)},
        {"without AMX": 1e-3, "by AMX": 1e-3},
        1e6,
        32,
    )
    fast, slow = (
        amx.page([r]).splitlines()[-1]
        for r in (
            result,
            replace(result, seconds={**result.seconds, "by AMX": (1.5e-5, 2e-5)}),
        )
    )
    assert "2.00" in fast
    assert "missed" not in fast
    assert "1.33" in slow
    assert "missed" in slow
