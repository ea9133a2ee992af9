"""The benchmark of first results: fresh processes, empty homes, and what is said of them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from benchmarks import cold
from benchmarks.models import EXAMPLES, example_call
from benchmarks.options import Options, Peers


@pytest.fixture
def options(tmp_path: Path) -> Options:
    """Of a folder with one small network."""
    folder = tmp_path / "models" / "word_language"
    folder.mkdir(parents=True)
    for name in ("model.xml", "model.bin"):
        shutil.copy(EXAMPLES / "word_language" / name, folder)
    inputs = example_call(EXAMPLES / "word_language" / "model.xml").inputs
    np.savez(folder / "inputs.npz", **{f"run0/{i}": array for i, array in enumerate(inputs)})
    return Options(Peers((), 1), tmp_path / "results", tmp_path / "models", quick=True)


def test_a_network_is_measured_on_one_thread_and_on_two(options: Options) -> None:
    assert cold.main(options) == 0
    told = json.loads((options.out / "cold-quick.json").read_text(encoding="utf-8"))
    assert [(r["model"], r["system"], r["threads"]) for r in told["cold"]] == [
        ("word_language", "uncork", 1),
        ("word_language", "uncork", 2),
    ]
    assert all(r["wall"][0] > 0 and r["work"][0] > 0 for r in told["cold"])


def test_a_network_that_fails_is_said(options: Options) -> None:
    (options.models / "word_language" / "model.xml").write_text("<net", encoding="utf-8")
    assert cold.main(options) == 1
    told = json.loads((options.out / "cold-quick.json").read_text(encoding="utf-8"))
    assert told["cold"] == [] and told["notes"][0].startswith("word_language, uncork: ")


def test_no_network_is_said(options: Options, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.rmtree(options.models)
    assert cold.main(options) == 2
    assert "--models names a folder" in capsys.readouterr().out


def test_goals_are_held_against_processor_time_of_one_thread() -> None:
    def result(model: str, system: str, work: float, threads: int = 1) -> cold._Result:
        return cold._Result(model, system, threads, [9.0], [work, work + 1])

    said = cold._verdict(
        [
            result("near", "uncork", 1.0),
            result("near", "openvino", 0.5),
            result("far", "uncork", 3.5),
            result("far", "openvino", 0.5),
            result("near", "uncork", 8.0, threads=2),
        ]
    )
    assert "Above 3 s on one thread: far." in said
    assert "1 of 2; median 4.5 times. **Misses**: far 7.0." in said
