"""The benchmarks themselves: what is measured is right, what is reported follows from it, and
nothing wrong is ever timed.
"""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks import (
    arrays,
    cases_embedding,
    cases_gather,
    cases_recurrent,
    files,
    growth,
    limit_kernels,
    memory,
    models,
    plots,
    processes,
    startup,
)
from benchmarks.__main__ import THREAD_VARIABLES, main
from benchmarks.cases import Case, Outcome, Prepared, Time, run
from benchmarks.goals import verdict
from benchmarks.options import Options, Peers
from benchmarks.report import Report, markdown_table, outcomes_page
from benchmarks.timing import (
    Contender,
    Expected,
    disagreement,
    error_of,
    geometric_mean,
    measure,
    summary,
)

import uncork
from uncork import load
from uncork.types import Array

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def options(tmp_path: Path) -> Options:
    return Options(
        Peers(("numpy",), 1), tmp_path / "results", tmp_path / "models", quick=True, seconds=0.01
    )


# ---- timing


def contender(
    name: str, call: Callable[[int], Any], system: str = "peer", kind: str = "direct"
) -> Contender:
    return Contender(name, system, kind, call, lambda r: [np.asarray(r)])


def test_statistics() -> None:
    assert summary([3.0, 1.0, 2.0, 10.0]) == (1.0, 2.5, 4)
    assert geometric_mean([1.0, 4.0, 16.0]) == pytest.approx(4.0)


def test_contenders_take_turns_on_ever_new_sets() -> None:
    calls: list[tuple[str, int]] = []

    def slow(name: str) -> Callable[[int], None]:
        def call(i: int) -> None:
            calls.append((name, i))
            time.sleep(0.0001)  # longer than a sample has to be: one call each

        return call

    samples = measure([contender(name, slow(name)) for name in "abc"], sets=5, seconds=0.0, least=6)
    assert {name: s.samples for name, s in samples.items()} == {"a": 6, "b": 6, "c": 6}
    assert all(0 < s.minimum <= s.median for s in samples.values())
    timed = calls[12:]  # after four calls each that tell how long one takes
    order = [name for n, (name, _) in enumerate(timed) if not n or timed[n - 1][0] != name]
    assert order[:6] == ["a", "b", "c", "b", "c", "a"]  # rounds begin with another contender each
    for name in "abc":
        own = [i for n, i in timed if n == name][:12]
        first = {"a": 0, "b": 1, "c": 3}[name]  # far from each other
        assert own[1::2] == [
            (first + n) % 5 for n in range(6)
        ]  # each after a call that is not counted, on another set
        assert all(warming != counted for warming, counted in zip(own[::2], own[1::2], strict=True))


def test_a_slow_contender_gets_few_samples_and_a_fast_one_many() -> None:
    samples = measure(
        [contender("fast", lambda i: None), contender("slow", lambda i: time.sleep(0.01))],
        4,
        0.02,
        least=3,
    )
    assert samples["slow"].samples == 3
    assert samples["fast"].samples > 30
    assert samples["slow"].minimum >= 0.01


def test_errors_are_in_units_of_the_scale() -> None:
    expected = [Expected(np.array([10.0, 0.0]), np.array([100.0, 1.0]))]
    assert error_of([np.array([11.0, 0.0])], expected) == pytest.approx(0.01)
    assert error_of([np.array([10.0, math.nan])], expected) == math.inf
    assert error_of([np.array([10.0])], expected) == math.inf
    assert error_of([], expected) == math.inf


# ---- agreement before timing


def outcome_of(*contenders: Contender, options: Options, sets: int = 3) -> Outcome:
    """A case whose right result for set i is i."""
    prepared = Prepared(
        sets, lambda i: [Expected(np.array(float(i)))], 0.0, contenders=list(contenders)
    )
    return run(Case("group", "case", lambda _: prepared), options)


def test_wrong_contenders_are_never_timed(options: Options) -> None:
    def fails(i: int) -> float:
        raise ValueError("cannot")

    outcome = outcome_of(
        contender("right", float),
        contender("wrong", lambda i: i + 0.5),
        contender("always the first", lambda i: 0.0),
        contender("fails", fails),
        contender("another shape", lambda i: [float(i)]),
        options=options,
    )
    assert [t.contender for t in outcome.times] == ["right"]
    assert outcome.left_out["wrong"].startswith("wrong: error 0.5")
    assert outcome.left_out["always the first"].startswith("wrong: error 2")
    assert outcome.left_out["fails"] == "ValueError: cannot"
    assert outcome.left_out["another shape"].startswith("wrong: error inf")
    assert not outcome.wrong


def test_a_contender_that_goes_wrong_while_timed_is_left_out(options: Options) -> None:
    calls = Counter[int]()

    def tires(i: int) -> float:
        calls[i] += 1
        return float(i) if calls[i] < 3 else -1.0

    outcome = outcome_of(
        contender("tires", tires, "uncork", "call"), contender("right", float), options=options
    )
    assert [t.contender for t in outcome.times] == ["right"]
    assert outcome.wrong is False  # its name says whose it is
    assert replace(outcome, left_out={"uncork call": "wrong: error 1"}).wrong
    assert not replace(outcome, left_out={"uncork bf16": "UnsupportedError: no"}).wrong


def test_a_contender_may_have_its_own_tolerance(options: Options) -> None:
    rough = replace(contender("rough", lambda i: i + 0.01), tolerance=0.02)
    assert [t.contender for t in outcome_of(rough, options=options).times] == ["rough"]


# ---- ratios


def time_of(name: str, system: str, kind: str, us: float, precision: str = "f32") -> Time:
    return Time(name, system, kind, precision, us, 2 * us, 9, 0.0)


OUTCOME = Outcome(
    "bag, 1 bag",
    "a case",
    {"tiny": True},
    (
        time_of("uncork call", "uncork", "call", 4.0),
        time_of("uncork direct", "uncork", "direct", 2.0),
        time_of("uncork preset", "uncork", "preset", 1.0),
        time_of("uncork functional", "uncork", "other", 0.1),
        time_of("openvino preset", "openvino", "preset", 10.0),
        time_of("openvino one request", "openvino", "preset", 9.0),
        time_of("openvino call", "openvino", "call", 44.0),
        time_of("openvino bf16", "openvino", "preset", 0.5, "bf16"),
        time_of("torch direct", "torch", "direct", 5.0),
        time_of("bare", "numpy", "call", 7.0),
        time_of("limit", "machine", "limit", 0.9),
    ),
    {"onnxruntime": "has no such thing"},
)


def test_ratios_compare_like_with_like() -> None:
    assert OUTCOME.cheapest("openvino") == 9.0
    assert OUTCOME.cheapest("torch") == 2.5
    assert (
        OUTCOME.cheapest("numpy") == 3.5
    )  # it has an ordinary call only, held against our direct one
    assert OUTCOME.cheapest() == 2.5
    assert OUTCOME.cheapest(statistic="median") == 2.5
    assert OUTCOME.ordinary("openvino") == 11.0
    assert OUTCOME.ordinary() == 7.0 / 4.0
    assert OUTCOME.to_limit() == 0.9
    assert (
        OUTCOME.cheapest("openvino", precision="bf16", against="bf16") is None
    )  # ours has no such precision


def test_without_a_preset_call_of_ours_the_next_one_stands_in() -> None:
    without = replace(
        OUTCOME, times=tuple(t for t in OUTCOME.times if t.contender != "uncork preset")
    )
    assert without.cheapest("openvino") == 4.5
    assert replace(OUTCOME, times=OUTCOME.times[4:]).cheapest() is None


# ---- reports


def test_report_is_whole_and_readable(options: Options) -> None:
    page = outcomes_page([OUTCOME, replace(OUTCOME, name="another")])
    assert "9.00 (**misses** 15)" in page
    assert "2.50 (**misses** 3)" in page
    assert "- onnxruntime: has no such thing (bag, 1 bag: a case, bag, 1 bag: another)" in page
    assert "Tiny cases, ordinary call against OpenVINO's: 11.00 (>= 10)" in page
    report = Report("ops", options)
    report.write({"cases": [OUTCOME.to_dict()]}, page)
    written = json.loads((options.out / "ops-quick.json").read_text(encoding="utf-8"))
    assert written["cases"][0]["times"][0]["min_us"] == 4.0
    assert {"cpu", "date", "versions", "cores"} <= set(written["machine"])
    assert sorted(path.name for path in options.out.iterdir()) == ["ops-quick.json", "ops-quick.md"]


def test_tables_line_up() -> None:
    lines = markdown_table(["name", "us"], [["a", "1"], ["longer", "20.5"]]).splitlines()
    assert len({len(line) for line in lines}) == 1
    assert lines[2] == "| a      |    1 |"


def test_verdicts() -> None:
    assert verdict(3.2, 3) == "3.20 (>= 3)"
    assert verdict(2.9, 3) == "2.90 (**misses** 3)"
    assert verdict(None, 3) == "-"


def test_without_matplotlib_there_is_a_message(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    plots.ratios([OUTCOME], "title", tmp_path / "plot.png")
    plots.growth({"rows": {"uncork": [(1, 1)]}}, tmp_path / "plot.png")
    assert capsys.readouterr().out.count("no plot: matplotlib is not installed") == 2
    assert not list(tmp_path.iterdir())


# ---- arrays


def test_tables_begin_at_a_cache_line_and_are_random() -> None:
    table = arrays.table(1000, 16, "float16")
    assert table.ctypes.data % 64 == 0
    assert 0.9 < table.astype(np.float64).std() < 1.1
    assert len(np.unique(table[:, 0])) > 500


def test_zipf_ids_are_skewed_and_spread() -> None:
    ids = arrays.ids(np.random.default_rng(0), 1000, 100_000, "zipf", "int32")
    assert ids.dtype == np.int32
    assert ids.min() >= 0 and ids.max() < 1000
    counts = np.sort(np.bincount(ids, minlength=1000))[::-1]
    weights = np.arange(1, 1001) ** -1.05
    assert counts[0] / ids.size == pytest.approx(
        np.log(2) / np.log(1000), rel=0.2
    )  # the integral's first share, about
    assert counts[9] / counts[99] == pytest.approx(weights[9] / weights[99], rel=0.25)


def test_no_bag_is_empty() -> None:
    assert arrays.lengths(np.random.default_rng(0), 4096, 1, False).tolist() == [1] * 4096
    sizes = arrays.lengths(np.random.default_rng(0), 4096, 3, False)
    assert sizes.min() == 1
    assert 2.8 < sizes.mean() < 3.3


# ---- cases


def test_the_grids_are_complete() -> None:
    bags = [case for case in cases_embedding.cases() if case.group.startswith("bag")]
    plain = [case for case in bags if re.fullmatch(r"\S+ x \d+, \d+ x \d+", case.name)]
    assert len(plain) == 2 * 4 * 3 * 3
    assert len(cases_gather.CASES) == 18
    assert sum(case.cell == "gru" for case in cases_recurrent.all_cases()) == 25
    names = [
        c.full_name
        for c in (*cases_embedding.cases(), *cases_gather.cases(), *cases_recurrent.cases())
    ]
    assert len(names) == len(set(names))


def check(prepared: Prepared) -> set[str]:
    """All contenders give what the case expects; their names."""
    assert not {
        name: reason for name, reason in prepared.left_out.items() if "precision" not in reason
    }
    for one in prepared.contenders:
        allowed = prepared.tolerance if one.tolerance is None else one.tolerance
        assert disagreement(one, range(prepared.sets), prepared.expect) <= allowed, one.name
    return {one.name for one in prepared.contenders}


BAGS = cases_embedding.Bags(50, 16, 3, 4)


@pytest.mark.parametrize(
    "bags",
    [
        BAGS,
        replace(BAGS, bags=1),
        replace(BAGS, weighted=True, index="int32"),
        replace(BAGS, table="float16"),
        replace(BAGS, segments=True),
        replace(BAGS, segments=True, weighted=True, bags=1),
    ],
    ids=lambda b: f"{b.group} {b.name}",
)
def test_embedding_cases_agree(
    bags: cases_embedding.Bags, options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cases_embedding, "_TOUCHED", 1)
    names = check(cases_embedding.prepare(bags, options))
    assert {"uncork call", "uncork preset"} <= names
    if limit_kernels.available():
        assert "uncork preset" in names
        assert ("limit" in names) == (not bags.weighted and bags.table == "float32")
    assert ("numpy reduceat" in names) == (not bags.weighted and bags.table == "float32")


def test_expected_sums_are_sums() -> None:
    table = np.array([[1, 2], [10, 20], [100, 200]], np.float32)
    given = cases_embedding._Set(
        np.array([0, 1, 2]), np.array([0, 2]), np.array([0, 0, 1]), np.array([1, -1, 2], np.float32)
    )
    value, scale = cases_embedding.expected(table, given, weighted=True)
    assert value.tolist() == [[-9, -18], [200, 400]]
    assert np.asarray(scale).tolist() == [[11, 22], [200, 400]]


@pytest.mark.parametrize(
    "gather",
    [
        cases_gather.Gather((9, 16), 0, (2, 3)),
        cases_gather.Gather((3, 9, 4), 1, (5,), index="int32"),
        cases_gather.Gather((2, 3, 9), 2, (2, 4), 1),
    ],
    ids=lambda g: g.name,
)
def test_gather_cases_agree(
    gather: cases_gather.Gather, options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cases_gather, "_OUTPUTS", 1)
    names = check(cases_gather.prepare(gather, options))
    assert ("numpy take" in names) == (not gather.batch_dims)


@pytest.mark.parametrize(
    "case",
    [
        cases_recurrent.Sequence_(3, 4, 5, 16, after=True, ragged=True, directions=2),
        cases_recurrent.Sequence_(1, 3, 4, 5),
        cases_recurrent.Sequence_(2, 3, 4, 16, cell="lstm", ragged=True),
        cases_recurrent.Sequence_(2, 3, 4, 16, cell="rnn", directions=2),
    ],
    ids=lambda c: f"{c.cell} {c.name}",
)
def test_recurrent_cases_agree(
    case: cases_recurrent.Sequence_, options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        cases_recurrent, "_limit", lambda case, operations: 1.0
    )  # measured once a process, which takes seconds
    assert "uncork call" in check(cases_recurrent.prepare(case, options))


@pytest.mark.skipif(not limit_kernels.available(), reason="needs llvmlite")
def test_native_loops_read_and_multiply() -> None:
    memory_ = arrays.normal(np.random.default_rng(0), (4096,))
    assert limit_kernels.reading(memory_, 2)() == -1  # every step went well
    call, operations = limit_kernels.multiplying()
    assert call() == -1 and operations > 0


# ---- models


def test_rows_are_cut_from_bags_and_segments() -> None:
    layout = models.Layout(bags=((0, 1),), segments=((2, 3),))
    inputs: list[Array] = [
        np.array([5, 6, 7, 8]),
        np.array([0, 2, 2]),
        np.array([1, 2, 3]),
        np.array([0, 2, 2]),
        np.array([[10], [11], [12]]),
    ]
    cut = models.cut(inputs, layout, np.array([2, 0, 1]))
    assert [a.tolist() for a in cut] == [
        [7, 8, 5, 6],
        [0, 2, 4],
        [2, 3, 1],
        [0, 0, 1],
        [[12], [10], [11]],
    ]
    assert models.filled(models.Recorded(inputs, []), layout).tolist() == [0, 2]


def test_recorded_models_are_measured(options: Options) -> None:
    """A model in a folder with recorded inputs and outputs, twice in the same shapes."""
    from uncork import Builder, write_model

    folder = options.models / "twice"
    folder.mkdir(parents=True)
    builder = Builder("twice")
    x = builder.parameter("x", "f32", [None])
    builder.result(builder.add("Add", 1, x, x)[0], "y")
    write_model(builder.model(), folder / "model.xml")
    calls: Sequence[Array] = [
        np.arange(3, dtype=np.float32),
        np.ones(3, np.float32),
        np.ones(5, np.float32),
    ]
    inputs: dict[str, Any] = {f"run{n}/0": a for n, a in enumerate(calls)}
    outputs: dict[str, Any] = {name: 2 * a for name, a in inputs.items()}
    np.savez(folder / "inputs.npz", **inputs)
    np.savez(folder / "outputs.npz", **outputs)
    found = [case for case in models.cases(options.models) if case.name.startswith("twice")]
    assert [case.name for case in found] == ["twice, inputs 0", "twice, inputs 1"]
    prepared = found[0].prepare(options)
    assert prepared.sets == 2
    check(prepared)


# ---- start-up, memory, growth, limits


def test_a_process_that_fails_is_said_to(tmp_path: Path) -> None:
    environment = processes.environment(tmp_path, 1)
    assert (
        processes.timed([sys.executable, "-c", processes.READY], environment, tmp_path).peak_bytes
        > 1 << 20
    )
    with pytest.raises(RuntimeError, match="ValueError: no"):
        processes.timed([sys.executable, "-c", "raise ValueError('no')"], environment, tmp_path)


def test_startup_program_gives_the_model_s_result(tmp_path: Path) -> None:
    recorded = models.Recorded([np.arange(3)], [np.arange(3)])
    given: dict[str, Any] = {"0": recorded.inputs[0]}
    np.savez(tmp_path / "in.npz", **given)
    arguments = ["model.xml", str(tmp_path / "in.npz"), str(tmp_path / "out.npz")]
    command = processes.command("nothing", startup._PROGRAM, 1)
    assert (
        processes.timed(
            [*command, *arguments], processes.environment(tmp_path, 1), tmp_path
        ).seconds
        > 0
    )
    assert startup._wrong(tmp_path / "out.npz", recorded) == ""
    assert (
        startup._wrong(tmp_path / "out.npz", models.Recorded([], [np.arange(1, 4)]))
        == "wrong result, not measured"
    )


def test_the_large_model_is_right_where_it_has_rows(tmp_path: Path) -> None:
    path, indices, offsets, sums = memory.make_model(
        tmp_path, 100_000, np.random.default_rng(0), 40
    )
    (result,) = load(path)(indices, offsets)
    np.testing.assert_allclose(result, sums, atol=1e-5)
    weights = path.with_suffix(".bin").stat()
    assert weights.st_size > 25_000_000
    assert weights.st_blocks * 512 < 5_000_000, "the file is not sparse"


def test_slopes() -> None:
    assert growth.slope([(n, 5.0 * n**2) for n in (1, 10, 100, 1000)]) == pytest.approx(2)
    assert growth.slope([(n, 100.0 + n) for n in (1, 10, 10_000, 100_000)]) == pytest.approx(
        1, abs=0.01
    )
    assert growth.slope([(1, 1)]) is None


def test_a_slope_is_held_against_the_work_and_the_machine() -> None:
    assert growth.in_order({"uncork": 1.05}, 1.0)
    assert not growth.in_order({"uncork": 1.3, "torch": 1.0, "openvino": 1.3}, 1.0)
    assert growth.in_order({"uncork": 1.3, "torch": 1.0, "limit": 1.25}, 1.0)
    assert growth.in_order({"uncork": 1.3, "torch": 1.2, "openvino": 1.5}, 1.0)


def test_growth_series_are_of_growing_sizes(options: Options, tmp_path: Path) -> None:
    for quick in (True, False):
        for series in growth.all_series(tmp_path, quick):
            sizes = [size for size, _ in series.points]
            assert len(sizes) >= 3 and sizes == sorted(set(sizes)), series.quantity
    for compiling in (False, True):
        assert check(growth.prepare_layers(tmp_path, 2, options, compiling=compiling))


# ---- scoring


def test_tables_to_score_have_something_in_every_list(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    from benchmarks.scoring_tables import works

    found = {work.name: work for work in works(tmp_path, True)}
    assert list(found) == ["word_language", "session_recommender"]
    for work in found.values():
        table = work.draw(40, np.random.default_rng(1))
        assert table["number"].to_pylist() == list(range(40))
        assert table.equals(work.draw(40, np.random.default_rng(1)))
        lists = [
            column
            for name, column in zip(table.column_names, table.columns, strict=True)
            if name != "number"
        ]
        assert all(len(row) > 0 for column in lists for row in column.to_pylist())


def test_scores_that_are_wrong_are_noticed(tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    from benchmarks.scoring import wrong

    def table(numbers: Sequence[int], last: float = 9.0) -> Any:
        return pa.table(
            {
                "number": numbers,
                "scores": pa.array(
                    [[n, last if n == 9 else n] for n in numbers], pa.list_(pa.float32(), 2)
                ),
            }
        )

    def written(*parts: Any) -> str:
        for number, part in enumerate(parts):
            pq.write_table(part, tmp_path / f"part-{number:05d}.parquet")
        return wrong(tmp_path, expected, 10)

    expected = table([0, 1, 8, 9])
    assert written(table(range(6)), table(range(6, 10))) == ""
    assert written(table(range(6)), table(range(6, 10), 9.01)) == "wrong results, not measured"
    assert written(table(range(6)), table([7, 6, 9, 8])) == "rows are not in order, not measured"
    assert written(table(range(6)), table([6, 8, 9])) == "9 rows of 10"


def test_scoring_is_timed_beyond_the_first_batch() -> None:
    pytest.importorskip("pyarrow")
    from benchmarks.scoring import Result, page

    ours = Result(
        "t", "uncork, 1 worker", "uncork", 1, 11_000, 1000, seconds=3.0, first_s=1.0, runs=2
    )
    two = replace(ours, way="uncork, 2 workers", workers=2, seconds=2.0)
    theirs = replace(ours, way="openvino, fixed shapes", system="openvino", seconds=5.0)
    assert (ours.rate, two.rate, theirs.rate) == (5000, 10_000, 2500)
    lines = page([ours, two, theirs]).splitlines()
    assert "2.00 (>= 2.0)" in lines[-3] and "2.00 (>= 1.8)" in lines[-2]


def test_scoring_is_measured_once_it_is_right(options: Options, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    from benchmarks.scoring import measure as measure_scoring
    from benchmarks.scoring_tables import works

    work = next(work for work in works(tmp_path, True) if work.name == "word_language")
    notes: list[str] = []
    results = measure_scoring(replace(work, batches=2), options, tmp_path, notes)
    assert not notes
    assert [(r.workers, r.rows) for r in results if r.system == "uncork"] == [(1, 2048), (2, 2048)]
    assert all(r.seconds > 0 and r.first_s > 0 for r in results)


# ---- the command


def test_command_measures_and_writes(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "benchmarks",
        "ops",
        "--quick",
        "--seconds",
        "0.02",
        "--peers",
        "numpy",
        "--out",
        str(tmp_path),
    ]
    made = subprocess.run(
        [*command, "--only", r"gather: \[1000\]"], cwd=ROOT, capture_output=True, text=True
    )
    assert made.returncode == 0, made.stdout + made.stderr
    assert "gather: [1000] axis 0 by [10]" in made.stdout
    times = json.loads((tmp_path / "ops-quick.json").read_text())["cases"][0]["times"]
    assert {"uncork", "numpy"} <= {t["system"] for t in times}


def test_files_run_from_compiled_files_and_say_which_do_not(
    tmp_path: Path, options: Options, capsys: pytest.CaptureFixture[str]
) -> None:
    """A product of two numbers by hand, and a layer that has no kernel."""
    pytest.importorskip("llvmlite")
    for name, operation, opset, more in (
        ("product", "MatMul", 1, {}),
        ("inverse", "Inverse", 14, {"adjoint": False}),
    ):
        builder = uncork.Builder(name)
        x = builder.parameter("x", "f32", [2, 2])
        given = [x, builder.constant(np.eye(2, dtype=np.float32))] if name == "product" else [x]
        builder.result(builder.add(operation, opset, *given, **more)[0], "y")
        folder = options.models / name
        folder.mkdir(parents=True)
        uncork.write_model(builder.model(), folder / "model.xml")
        np.savez(folder / "inputs.npz", **{"run0/0": np.eye(2, dtype=np.float32) * 2})
    assert files.main(options) == 0
    said = capsys.readouterr().out
    assert "1 of 2 models run from the file, bit by bit as here" in said
    assert re.search("inverse is refused: layer .*Inverse.* has no kernel", said)


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_startup_of_a_program_in_c(tmp_path: Path) -> None:
    pytest.importorskip("llvmlite")
    builder = uncork.Builder("twice")
    x = builder.parameter("x", "f32", [None])
    builder.result(builder.add("Add", 1, x, x)[0], "y")
    uncork.compile_to(builder.model(), tmp_path / "model.uncork", threads=1)
    given = np.array([1, 2, 3], np.float32)
    program = startup._program(tmp_path / "model.uncork", tmp_path / "c", [given])
    made, environment = tmp_path / "made", processes.environment(tmp_path, 1)
    run = processes.ended([*program, "-o", str(made)], environment, tmp_path)
    assert run.seconds > 0 and run.peak_bytes is None
    assert startup._wrong(made, models.Recorded([given], [2 * given])) == ""
    assert startup._wrong(made, models.Recorded([given], [given])) == "wrong result, not measured"
    with pytest.raises(RuntimeError, match="x: f32"):
        processes.ended([program[0]], environment, tmp_path)


def test_command_says_when_nothing_matches(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in THREAD_VARIABLES:  # the command sets them; they are put back after the test
        monkeypatch.setenv(name, "1")
    for command in ("ops", "growth", "startup"):
        assert (
            main([command, "--peers", "numpy", "--only", "no such case", "--out", str(tmp_path)])
            == 2
        )
    assert "no case has such a name" in capsys.readouterr().out


def test_peers_that_are_missing_are_said_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "openvino", None)
    peers = Peers(("openvino",), 1)
    assert (
        peers.get("openvino") is None
        and peers.get("openvino") is None
        and peers.get("torch") is None
    )
    assert capsys.readouterr().out.count("peer openvino is skipped") == 1


def test_a_peer_built_for_another_torch_is_said_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The libraries of FBGEMM's wheel are an OSError where torch is another one."""
    library = tmp_path / "fbgemm_gpu.py"
    library.write_text("raise OSError('Could not load this library: fbgemm_gpu_tbe_utils.so')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "fbgemm_gpu", raising=False)
    peers = Peers(("fbgemm",), 1)
    assert peers.get("fbgemm") is None and peers.get("fbgemm") is None
    said = capsys.readouterr().out
    assert said.count("peer fbgemm is skipped: Could not load this library") == 1


@pytest.mark.oracle
def test_fbgemm_agrees(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    try:
        pytest.importorskip("fbgemm_gpu")
    except OSError as error:  # built for another torch
        pytest.skip(str(error))
    command = [sys.executable, "-m", "benchmarks", "ops", "--quick", "--seconds", "0.02"]
    command += ["--peers", "fbgemm", "--out", str(tmp_path)]
    only = "(bag|segments).*: 1e4 x 64, 128 x 10"
    made = subprocess.run([*command, "--only", only], cwd=ROOT, capture_output=True, text=True)
    assert made.returncode == 0, made.stdout + made.stderr
    cases = json.loads((tmp_path / "ops-quick.json").read_text())["cases"]
    assert len(cases) >= 3 and not any(case["left_out"] for case in cases)
    assert all(any(t["system"] == "fbgemm" for t in case["times"]) for case in cases)


@pytest.mark.oracle
@pytest.mark.parametrize("peer", ["openvino", "torch", "onnxruntime"])
def test_peers_agree(peer: str, tmp_path: Path) -> None:
    """In a process of its own: a peer changes settings of the whole process, and may crash."""
    pytest.importorskip(peer)
    if peer == "onnxruntime":
        pytest.importorskip("onnx")
    only = (
        "GRU, tiny|RNN: 1 x 1|LSTM: 16 x 50, 64 to 128 ragged|GRU: .* bidir|1e4 x 64, 1 x "
        "10( w.*)?$|batch_dims|by .10.$"
    )
    command = [
        sys.executable,
        "-m",
        "benchmarks",
        "ops",
        "--quick",
        "--seconds",
        "0.02",
        "--peers",
        peer,
        "--out",
        str(tmp_path),
    ]
    made = subprocess.run([*command, "--only", only], cwd=ROOT, capture_output=True, text=True)
    assert made.returncode == 0, made.stdout + made.stderr
    cases = json.loads((tmp_path / "ops-quick.json").read_text())["cases"]
    assert len(cases) >= 9
    assert sum(any(t["system"] == peer for t in case["times"]) for case in cases) >= 5
    reasons = {
        reason
        for case in cases
        for name, reason in case["left_out"].items()
        if name.startswith(peer)
    }
    assert not {reason for reason in reasons if "has no" not in reason}


# ---- networks with recorded inputs, and their layers


def _network(folder: Path, wrong: float = 0.0) -> None:
    """A network of one sum, with a recorded call and OpenVINO's result."""
    folder.mkdir(parents=True)
    builder = uncork.Builder("sum")
    (total,) = builder.add(
        "Add",
        1,
        builder.parameter("x", "f32", [2, 3]),
        builder.constant(np.ones((1, 3), np.float32)),
    )
    builder.result(total, "y")
    uncork.write_model(builder.model(), folder / "model.xml")
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.savez(folder / "inputs.npz", **{"run0/0": x})
    np.savez(folder / "expected.npz", **{"run0/0": x + 1 + np.float32(wrong)})


def test_the_zoo_holds_results_against_those_recorded(options: Options) -> None:
    from benchmarks import zoo

    _network(options.models / "right")
    _network(options.models / "wrong", 0.5)
    (options.models / "empty").mkdir()
    right, wrong = (run(case, options) for case in zoo.cases(options.models))
    assert right.name == "right" and not right.wrong and right.ours("call")
    assert wrong.wrong and "error" in str(wrong.left_out)


@pytest.mark.oracle
def test_the_zoo_opens_onnx_files_beside_onnxruntime(options: Options) -> None:
    from benchmarks import zoo

    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    _network(options.models / "right")
    _network(options.models / "stateful")
    (options.models / "stateful" / "origin.json").write_text('{"stateful": true}')
    options = replace(options, source="onnx", peers=Peers(("onnxruntime",), 1))
    (case,) = zoo.cases(options.models, options.source)
    outcome = run(case, options)
    assert not outcome.wrong
    assert not outcome.left_out
    assert {time["system"] for time in outcome.to_dict()["times"]} == {"uncork", "onnxruntime"}
    assert zoo.as_onnx(options.models / "right").suffix == ".onnx"


def test_boxes_of_a_detector_are_compared_in_order(options: Options) -> None:
    from benchmarks import zoo

    folder = options.models / "detector"
    folder.mkdir(parents=True)
    (folder / "model.xml").write_text('<layer type="NonMaxSuppression"/>', encoding="utf-8")
    (ordered,) = zoo._comparable(folder, [np.array([[3.0, 1.0], [2.0, 0.0]])])
    assert ordered.tolist() == [0.0, 1.0, 2.0, 3.0]


def test_single_layers_agree_with_the_references(options: Options) -> None:
    from benchmarks import kernels

    chosen = [
        case
        for case in kernels.cases()
        if case.name in ("CumSum 64x512", "gates, 96, 56x56", "MaxPool 5x5 by 1, 128, 10x10")
    ]
    outcomes = [run(case, options) for case in chosen]
    assert len(outcomes) == 3 and not any(outcome.wrong for outcome in outcomes)


def test_the_page_of_models_has_a_row_for_each_that_was_timed() -> None:
    from tools.models_page import page

    def case(name: str, *times: tuple[str, str, float]) -> dict[str, object]:
        measured = tuple(Time("", s, kind, "f32", t, t, 9, 0.0) for s, kind, t in times)
        return Outcome("zoo", name, {"inputs": [["float32", [1, 3]]]}, measured, {}).to_dict()

    ours = ("uncork", "preset", 1000.0), ("uncork", "call", 900.0)
    cases = [case("b", ("openvino", "preset", 3000.0), *ours), case("a", ("uncork", "call", 5.0))]
    text = page(
        {
            "cases": cases,
            "machine": {
                "versions": {"openvino": "1.2"},
                "cpu": "a processor",
                "date": "2026-01-02 03:04 UTC",
            },
        }
    )
    assert "| b | float32 1x3 | 3.00 | 1.00 | 3.00 |" in text, "like with like, as the table says"
    assert "| a |" not in text
    assert "OpenVINO 1.2" in text and "2026-01-02" in text


def test_the_page_of_models_has_bf16_beside_f32() -> None:
    from tools.models_page import in_bf16

    results = """# precision

2026-02-03 04:05 UTC. A processor (family 1), 2 cores (L1 32K), 24 GiB; Linux.

| network | openvino f32, ms | openvino default, ms | uncork f32, ms | uncork bf16, ms \
| default / bf16 | error, openvino default | error, uncork f32 | error, uncork bf16 |
|:-|-:|-:|-:|-:|-:|-:|-:|-:|
| net | 4.74 (4.91) | 2.87 (3.18) | 3.59 (3.84) | 1.74 (1.99) | 1.64 | 3.0e-03 | 5.7e-07 | 3.1e-03 |
"""
    text = in_bf16(results, {"other": "1.2e-06"})
    assert "| other | -- | -- | -- | -- | -- | -- | 1.2e-06 |" in text
    assert "| net | 4.74 | 2.87 | 3.59 | 1.74 | 1.64 | 3.0e-03 | 3.1e-03 |" in text
    assert "A processor (family 1), 2026-02-03" in text


@pytest.mark.skipif(not limit_kernels.available(), reason="needs llvmlite")
def test_the_arithmetic_is_measured_as_kernels_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the processor fuses products and sums, the loop has no sum of its own."""
    from uncork.kernels.runtime.target import LEVELS

    texts: list[str] = []

    def kept(name: str, make: Callable[[], str], words: Sequence[int]) -> Callable[[], int]:
        texts.append(make())
        return lambda: 0

    monkeypatch.setattr(limit_kernels, "program", kept)
    monkeypatch.setattr("uncork.kernels.runtime.target.host_target", lambda: LEVELS["x86-64-v3"])
    limit_kernels.multiplying()
    assert "llvm.fma.v8f32" in texts[0] and "fadd" not in texts[0]
