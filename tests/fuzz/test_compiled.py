"""Compiled files at random, a little of it in every run: see `compiled`."""

from __future__ import annotations

import os

import pytest

pytest.importorskip("llvmlite")

from tests.fuzz import compiled
from tests.fuzz.graphs import case


def test_mangled_files_are_refused_or_load() -> None:
    os.umask(0o022)
    outcomes = compiled.mutants(case("0:3").model, 60, seed=5)
    assert outcomes.wrong == []
    assert outcomes.counts["refused"] > 20
    assert outcomes.counts["loaded"] + outcomes.counts["refused"] == 60


def test_random_graphs_give_the_same_by_their_files() -> None:
    outcomes = compiled.graphs(8, seed=2)
    assert outcomes.wrong == []
    assert outcomes.counts["calls"] > 0
