"""examples/session_recommender: the moments by hand, the committed model on real sessions, `uncork
score`, OpenVINO and torch.
"""

from __future__ import annotations

import csv
import importlib.util
import re
import shlex
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from datetime import datetime, timezone
from pathlib import Path

import numpy as np
import pytest
from examples.session_recommender import events
from examples.session_recommender.sessions import (
    TEST_FROM,
    TOP,
    VALIDATION_FROM,
    WINDOW,
    catalogue,
    mean_reciprocal_rank,
    moments,
    padded,
    popular,
    ranks,
    read_sessions,
    recall,
    recent,
)

import uncork

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples" / "session_recommender"
SESSIONS = read_sessions(FOLDER / "otto_sessions.jsonl")
MOMENTS = moments(SESSIONS, catalogue(SESSIONS))
HELD_OUT = [moment for moment in MOMENTS if moment.within(TEST_FROM, None)]


def at(day: int) -> datetime:
    return datetime(2022, 8, day, tzinfo=timezone.utc)


BY_HAND = [(5, [(at(1), 70), (at(9), 30), (at(20), 70)]), (6, [(at(2), 30), (at(3), 90)])]


def test_articles_are_numbered_by_frequency():
    # 30 and 70 twice, 90 once; of the first two the smaller comes first.
    assert catalogue(BY_HAND) == {30: 1, 70: 2, 90: 3}


def test_moments_by_hand():
    found = moments(BY_HAND, {30: 1, 70: 2})  # 90 is not in the catalogue
    assert [(moment.session, moment.event, moment.items, moment.next) for moment in found] == [
        (5, 1, (2,), 1),
        (5, 2, (2, 1), 2),
        (5, 3, (2, 1, 2), None),
        (6, 1, (1,), 0),
        (6, 2, (1, 0), None),
    ]
    before = [moment.within(None, VALIDATION_FROM) for moment in found]
    between = [moment.within(VALIDATION_FROM, TEST_FROM) for moment in found]
    after = [moment.within(TEST_FROM, None) for moment in found]
    assert (before, between, after) == ([0, 0, 0, 1, 0], [1, 0, 0, 0, 0], [0, 1, 0, 0, 0])


def test_padded_keeps_the_last_items():
    items, lengths = padded([[4, 5], [], list(range(1, 26))])
    assert items.tolist() == [[4, 5] + [0] * 18, [0] * 20, list(range(6, 26))]
    assert lengths.tolist() == [2, 0, 20]
    assert items.dtype == lengths.dtype == np.int64


def test_measures_by_hand():
    train = moments([(1, [(at(1), 1), (at(1), 3), (at(1), 2), (at(1), 3)])], {1: 1, 2: 2, 3: 3})
    assert popular(train) == [3, 2]
    test = train[1:3]  # items 1, 3 then 2; items 1, 3, 2 then 3
    assert [recent(moment, [9, 3]) for moment in test] == [[3, 1, 9], [2, 3, 1, 9]]
    found = ranks([[3, 1, 9], [2, 3, 1, 9]], test)
    assert found.tolist() == [np.inf, 2]
    assert recall(found) == 0.5
    assert mean_reciprocal_rank(found) == 0.25
    late = [list(range(100, 100 + TOP - 1)), list(range(100, 100 + TOP))]
    assert ranks([late[0] + [2], late[1] + [3]], test).tolist() == [TOP, np.inf]


def test_data_is_what_the_page_says():
    assert len(SESSIONS) == 10
    assert [session for session, _ in SESSIONS] == list(range(10))
    assert len(MOMENTS) == sum(len(events) for _, events in SESSIONS) == 839
    assert len(HELD_OUT) == 271
    assert all(
        times == sorted(times) for times in ([time for time, _ in events] for _, events in SESSIONS)
    )
    with (FOLDER / "items.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {int(row["aid"]): int(row["item"]) for row in rows} == catalogue(SESSIONS)
    assert sum(path.stat().st_size for path in FOLDER.glob("*.*") if path.is_file()) < 1_000_000


def test_parquet_holds_the_moments():
    parquet = pytest.importorskip("pyarrow.parquet")
    columns = parquet.read_table(FOLDER / "sessions.parquet").to_pydict()
    assert columns == {
        "session": [moment.session for moment in MOMENTS],
        "event": [moment.event for moment in MOMENTS],
        "items": [list(moment.items) for moment in MOMENTS],
        "next": [moment.next for moment in MOMENTS],
        "held_out": [moment.within(TEST_FROM, None) for moment in MOMENTS],
    }


@pytest.fixture(scope="module")
def model():
    return uncork.load(FOLDER / "model.xml")


def scores(model, lists):
    items, lengths = padded(lists)
    return model({"items": items, "lengths": lengths})["scores"]


def info(name: str) -> float:
    """A number that train.py measured with PyTorch and wrote into the file."""
    (found,) = [
        e.get("value")
        for e in ElementTree.parse(FOLDER / "model.xml").iterfind("rt_info/info")
        if e.get("name") == name
    ]
    return float(found)


def top(given):
    return np.argsort(-given, axis=1, kind="stable")[:, :TOP].tolist()


def test_the_model_recommends_as_well_as_was_measured(model):
    found = ranks(top(scores(model, [moment.items for moment in HELD_OUT])), HELD_OUT)
    assert info("held_out_moments") == len(HELD_OUT)
    assert recall(found) == pytest.approx(info("held_out_recall_at_20"), abs=5e-5)
    assert mean_reciprocal_rank(found) == pytest.approx(info("held_out_mrr_at_20"), abs=5e-5)
    most = popular([moment for moment in MOMENTS if moment.within(None, TEST_FROM)])
    of_popular = ranks([most] * len(HELD_OUT), HELD_OUT)
    assert recall(of_popular) == pytest.approx(info("popularity_recall_at_20"), abs=5e-5)
    assert recall(found) > 3 * recall(of_popular)


def test_event_by_event_is_what_the_whole_session_gives(model, capsys):
    pytest.importorskip("llvmlite")
    longest = max(len(moment.items) for moment in MOMENTS)
    items = np.zeros((len(MOMENTS), longest), np.int64)
    for row, moment in enumerate(MOMENTS):
        items[row, : len(moment.items)] = moment.items
    lengths = np.array([len(moment.items) for moment in MOMENTS])
    expected = model({"items": items, "lengths": lengths})["scores"]
    place = {(moment.session, moment.event): row for row, moment in enumerate(MOMENTS)}
    found = 0
    for moment, given in events.recommended(MOMENTS):
        whole = expected[place[moment.session, moment.event]]
        np.testing.assert_allclose(given, whole, rtol=1e-4, atol=1e-4)
        found += 1
    assert found == len(MOMENTS)
    events.main()
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert f"\n    {capsys.readouterr().out}" in page


def test_readme_has_the_measured_figures():
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    rows = {
        row.split("|")[1].strip(" *"): row.split("|")[2:4]
        for row in page.splitlines()
        if row.startswith("|")
    }
    for row, name in (("the committed model", "held_out"), ("most popular articles", "popularity")):
        for cell, measure in zip(rows[row], ("recall", "mrr"), strict=True):
            # Three digits on the page, four in the file.
            assert float(cell.strip(" *")) == pytest.approx(
                info(f"{name}_{measure}_at_20"), abs=5.6e-4
            )


def test_what_is_unknown_is_never_recommended(model):
    given = scores(model, [[0], [0, 0, 0], [1, 0], []])
    assert (given[:, 0] < -1e8).all()
    assert (given[:, 1:] > -100).all()
    assert all(0 not in items for items in top(given))


def test_a_session_does_not_depend_on_its_batch_or_its_padding(model):
    lists = [[5], list(range(1, 21)), [], [7, 7, 300]]
    together = scores(model, lists)
    alone = [
        model({"items": np.array([some or [3]]), "lengths": np.array([len(some)])})["scores"][0]
        for some in lists
    ]
    np.testing.assert_allclose(together, alone, rtol=0, atol=1e-5)
    items, lengths = padded(lists)
    items[np.arange(WINDOW) >= lengths[:, None]] = 77
    np.testing.assert_array_equal(model({"items": items, "lengths": lengths})["scores"], together)


def page_parts() -> tuple[str, str]:
    """The README's `uncork score` command, on one line, and its Python code."""
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    start = page.index("    uncork score ")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    return page[start : page.index("\n\n", start)].replace("\\\n", " ").strip(), code


def check_scores(model, output: Path) -> None:
    """The scored table has a row for every moment, in order, with the 20 best items that a plain
    call gives, best first.
    """
    import pyarrow.dataset as dataset

    table = dataset.dataset(output, format="parquet").to_table()
    assert table.column_names == ["session", "scores_items", "scores"]
    assert table["session"].to_pylist() == [moment.session for moment in MOMENTS]
    items, best = np.array(table["scores_items"].to_pylist()), np.array(table["scores"].to_pylist())
    expected = scores(model, [moment.items for moment in MOMENTS])
    np.testing.assert_allclose(
        best, np.take_along_axis(expected, np.array(top(expected)), axis=1), rtol=0, atol=1e-5
    )
    # Which of two items comes first is left open where their scores differ by rounding only.
    np.testing.assert_allclose(best, np.take_along_axis(expected, items, axis=1), rtol=0, atol=1e-5)
    assert all(len(set(row)) == TOP for row in items.tolist())


def test_scoring_the_table_gives_what_a_call_gives(model, tmp_path):
    pytest.importorskip("pyarrow")
    from uncork.score import score

    output = tmp_path / "scores.parquet"
    inputs = {"items": f"padded(items, {WINDOW})", "lengths": f"length(items, {WINDOW})"}
    score(
        FOLDER / "model.xml",
        FOLDER / "sessions.parquet",
        output,
        inputs=inputs,
        keep=["session"],
        top_k=TOP,
        workers=1,
    )
    check_scores(model, output)


def test_commands_of_the_page(model, tmp_path):
    pytest.importorskip("pyarrow")
    command, code = page_parts()
    output = tmp_path / "scores.parquet"
    words = [str(output) if word == "scores.parquet" else word for word in shlex.split(command)]
    assert words[0] == "uncork" and str(output) in words
    done = subprocess.run(
        [sys.executable, "-m", *words], cwd=ROOT, capture_output=True, encoding="utf-8", timeout=300
    )
    assert done.returncode == 0, done.stderr
    check_scores(model, output)
    shown = subprocess.run(
        [sys.executable, "-c", code.replace('"scores.parquet"', repr(str(output)))],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        timeout=120,
    )
    assert (shown.returncode, shown.stderr) == (0, "")
    name, figure = shown.stdout.splitlines()[0].split()
    assert name == "recall@20"
    assert float(figure) == pytest.approx(info("held_out_recall_at_20"), abs=5.6e-4)


@pytest.mark.oracle
@pytest.mark.parametrize(
    "lists",
    [[moment.items for moment in MOMENTS[::7]], [(3,), (), (0, 9)], [(12,)]],
    ids=["sessions", "short", "one"],
)
def test_openvino_gives_the_same_scores(model, openvino, lists):
    # With shapes made static: OpenVINO ignores the lengths of sessions while shapes are dynamic.
    (expected,) = openvino.run(FOLDER / "model.xml", list(padded(lists)), reshape=True)
    np.testing.assert_allclose(scores(model, lists), expected, rtol=0, atol=1e-5)


@pytest.fixture
def train(monkeypatch):
    """train.py as a module of its own name: another example has one that is called so too."""
    pytest.importorskip("torch")
    pytest.importorskip("pyarrow")
    monkeypatch.syspath_prepend(str(FOLDER))
    spec = importlib.util.spec_from_file_location("session_recommender_train", FOLDER / "train.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.oracle
def test_graph_computes_what_torch_does(train, tmp_path):
    """With random weights and large biases: a gate or a bias in the wrong place shows."""
    import torch

    torch.manual_seed(1)
    network = train.Recommender().eval()
    with torch.no_grad():
        for name, weight in network.named_parameters():
            if "bias" in name:
                weight.normal_()
    table = train.random_table(60, torch.Generator().manual_seed(2))
    lists = [[5], list(range(30, 50)), [0, 59, 59], [1, 2]]
    items, lengths = padded(lists)
    with torch.no_grad():
        expected = network(table, torch.from_numpy(items), torch.from_numpy(lengths)).numpy()
    uncork.write_model(train.build(network, table.numpy(), {}), tmp_path / "model.xml")
    computed = uncork.load(tmp_path / "model.xml")({"items": items, "lengths": lengths})["scores"]
    np.testing.assert_allclose(computed, expected, rtol=0, atol=1e-5)


@pytest.mark.oracle
def test_training_learns_to_come_back(train):
    """Visitors who go back to the first of two items: what is learned from some of them holds for
    items that were never seen.
    """
    sessions = [
        (visitor, [(at(1), aid) for aid in (2 * visitor, 2 * visitor + 1, 2 * visitor)])
        for visitor in range(60)
    ]
    some = [moment for moment in moments(sessions, catalogue(sessions)) if moment.event == 2]
    known, unseen = some[:40], some[40:]
    network, table = train.trained(known, 121, 1, False, 200)
    first_two = [row[:2] for row in train.recommended(train.scores(network, table, unseen))]
    assert recall(ranks(first_two, unseen)) >= 0.9
    assert not table[0].any()


@pytest.mark.oracle
def test_old_items_are_forgotten_by_chance_and_new_ones_never(train):
    windows, lengths = train.beginnings_dropped(MOMENTS, np.random.default_rng(1))
    shorter = 0
    for moment, row, length in zip(MOMENTS, windows.tolist(), lengths.tolist(), strict=True):
        assert row == list(moment.items[-length:]) + [0] * (WINDOW - length)
        shorter += length < min(WINDOW, moment.event)
    assert 0.35 * len(MOMENTS) < shorter < 0.5 * len(MOMENTS)
