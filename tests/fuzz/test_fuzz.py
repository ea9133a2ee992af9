"""A few hundred changed files with a fixed seed, and the fuzzer itself. `python -m tests.fuzz.run`
does thousands.
"""

from __future__ import annotations

import random
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

import uncork
from tests.fuzz import run
from tests.fuzz.models import Seed, seeds
from tests.fuzz.mutate import Mutation
from tests.ir._files import simple
from tests.ir._models import BUILT
from tests.processes._strange import KINDS

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="waits for a process with select")


@pytest.fixture(scope="module")
def all_seeds() -> list[Seed]:
    return seeds(whole=False)


@pytest.mark.parametrize("examples", [False, True], ids=["small models", "worked examples"])
def test_changed_files_run_or_are_refused(all_seeds: list[Seed], examples: bool) -> None:
    chosen = [s for s in all_seeds if (s.name in BUILT) != examples]
    report = run.fuzz(chosen, 2026, range(300))
    assert sum(report.outcomes.values()) == 300
    assert report.outcomes["ran"] > 30
    assert report.outcomes["refused"] > 30
    assert not report.findings, "\n".join(map(str, report.findings)) + report.findings[0].traceback


def test_there_is_a_model_of_every_operation_with_examples(all_seeds: list[Seed]) -> None:
    names = {s.name.partition("/")[0] for s in all_seeds}
    for operation in (
        "Gather-8",
        "GRUSequence-5",
        "EmbeddingBagOffsetsSum-3",
        "EmbeddingSegmentsSum-3",
    ):
        assert operation in names


def test_seeds_are_good(all_seeds: list[Seed], tmp_path: Path) -> None:
    """What is not changed is not refused; and the order is always the same."""
    assert [s.name for s in all_seeds] == sorted(s.name for s in all_seeds)
    assert [s.name for s in seeds(whole=False, pattern="^Gather")] == [
        s.name for s in all_seeds if s.name.startswith("Gather")
    ]
    for seed in all_seeds:
        (tmp_path / "model.xml").write_bytes(seed.xml)
        (tmp_path / "model.bin").write_bytes(seed.weights)
        uncork.read_model(tmp_path / "model.xml")


def test_a_case_is_always_the_same(all_seeds: list[Seed]) -> None:
    first, second = (
        [(m.xml, m.weights, m.log) for _, _, m in run.cases(all_seeds, 7, range(40))]
        for _ in range(2)
    )
    assert first == second
    (alone,) = run.cases(all_seeds, 7, [33])
    assert (alone[2].xml, alone[2].weights, alone[2].log) == first[33]
    assert sum(bool(log) for _, _, log in first) > 30


def test_every_kind_of_change_happens() -> None:
    xml = str(simple()).encode()
    words: set[str] = set()
    for number in range(600):
        mutation = Mutation(xml, bytes(range(40)), random.Random(number))
        mutation.apply()
        words.update(word for text in mutation.log for word in text.split())
        if not any("xml:" in text for text in mutation.log):
            ElementTree.fromstring(mutation.xml)
    for word in (
        "flip",
        "cut",
        "drop",
        "insert",
        "repeat",
        "loses",
        "swap",
        "becomes",
        "reads",
        "bin:",
        "everywhere",
    ):
        assert word in words, word


def test_some_files_are_no_ordinary_ones(all_seeds: list[Seed], tmp_path: Path) -> None:
    chosen = [
        mutation
        for _, _, mutation in run.cases(all_seeds, 5, range(1500))
        if mutation.strange[0] is not None
    ]
    assert {mutation.strange[0] for mutation in chosen} == {"xml", "weights"}
    assert {mutation.strange[1] for mutation in chosen} == set(KINDS)
    for kind in (*KINDS, None, None):
        run.place(tmp_path / "file", b"content", kind)
    assert (tmp_path / "file").read_bytes() == b"content"


PROBES = {
    "exception": "raise ZeroDivisionError",
    "crash": "import os; os.abort()",
    "hang": "import time; time.sleep(60)",
    "error": "raise uncork.UncorkError('')",
}


@pytest.mark.parametrize("outcome", PROBES)
def test_findings_are_reported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, outcome: str
) -> None:
    """A worker in which reading goes wrong in every way."""
    code = (
        f"import uncork\ndef bad(*_):\n    {PROBES[outcome]}\nuncork.read_model = bad\nfrom "
        "tests.fuzz import worker\nworker.main()\n"
    )
    (tmp_path / "broken.py").write_text(code)
    real = run.subprocess.Popen

    def broken(command: list[str], **options: object) -> object:
        return real(
            [command[0], str(tmp_path / "broken.py"), command[-1]],
            **{**options, "env": {"PYTHONPATH": ":".join(sys.path)}},
        )

    monkeypatch.setattr(run.subprocess, "Popen", broken)
    seed = Seed("good", str(simple()).encode(), b"")
    count = 1 if outcome == "hang" else 2
    report = run.fuzz([seed], 1, range(count), keep=tmp_path / "kept", seconds=4)
    assert [f.outcome for f in report.findings] == [outcome] * count
    assert str(report.findings[0]).startswith(f"case 0 of good: {outcome}")
    assert sorted(p.name for p in (tmp_path / "kept").iterdir())[:3] == [
        f"{outcome}_0.{suffix}" for suffix in ("bin", "txt", "xml")
    ]


def test_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main(["--count", "3", "--models", "^bags$", "--backend", "reference"]) == 0
    assert "3 cases of 1 models" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="2"):
        run.main(["--models", "no such model"])
    assert "no seed is called like 'no such model'" in capsys.readouterr().err
