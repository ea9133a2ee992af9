"""Tables to score, made of what the models come with: recorded inputs, words, sessions. Rows are
drawn from these at random.

Every table has whole batches only, and something in every list: OpenVINO takes static shapes where
it is right, and gives wrong results for an empty last bag.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.models import EXAMPLES, recorded_calls
from uncork.types import Array

#: Rows of a call, of ours and of the others'.
BATCH = 1024
_STEPS = 50
_DLRM_LISTS = ("user", "item", "gender", "occupation", "genres", "history")


@dataclass(frozen=True)
class Work:
    """A model, what its inputs are made of, and how many batches are scored."""

    name: str
    model: Path
    inputs: dict[str, str]
    batches: int
    draw: Callable[[int, np.random.Generator], pa.Table]

    def write(self, path: Path, batches: int) -> Path:
        """The same rows every time."""
        pq.write_table(
            self.draw(batches * BATCH, np.random.default_rng(7)), path, row_group_size=64 * BATCH
        )
        return path


def works(models: Path, quick: bool) -> Iterator[Work]:
    """What can be scored here: recorded models where they are, and the examples."""
    less = 24 if quick else 1
    gru4rec, dlrm = models / "gru4rec_ml100k", models / "dlrm_ml100k"
    if (gru4rec / "inputs.npz").exists():
        inputs = {"a": f"padded(items, {_STEPS})", "b": f"length(items, {_STEPS})"}
        yield Work(
            "gru4rec",
            gru4rec / "model.xml",
            inputs,
            48 // less,
            partial(_sessions_of_gru4rec, gru4rec),
        )
    if (dlrm / "inputs.npz").exists():
        inputs = {"dense": "stack(age, count, mean, year)"}
        for name in _DLRM_LISTS:
            inputs |= {f"indices_{name}": f"values({name})", f"offsets_{name}": f"offsets({name})"}
        yield Work("dlrm", dlrm / "model.xml", inputs, 7680 // less, partial(_ratings, dlrm))
    words = EXAMPLES / "word_language"
    inputs = {
        "chars": "padded(letters, 24)",
        "lengths": "length(letters, 24)",
        "ngrams": "values(trigrams)",
        "offsets": "offsets(trigrams)",
    }
    inputs |= {"pieces": "values(pieces)", "word_of_piece": "segments(pieces)"}
    yield Work("word_language", words / "model.xml", inputs, 864 // less, partial(_words, words))
    sessions = EXAMPLES / "session_recommender"
    inputs = {"items": "padded(items, 20)", "lengths": "length(items, 20)"}
    yield Work(
        "session_recommender",
        sessions / "model.xml",
        inputs,
        256 // less,
        partial(_moments, sessions),
    )


def _sessions_of_gru4rec(folder: Path, count: int, generator: np.random.Generator) -> pa.Table:
    """Users' histories as recorded: most have 50 films or more."""
    histories = [
        row[:length]
        for call in recorded_calls(folder)
        for row, length in zip(*call.inputs, strict=True)
    ]
    return _drawn({"items": pa.array(histories)}, count, generator)


def _ratings(folder: Path, count: int, generator: np.random.Generator) -> pa.Table:
    call = max(recorded_calls(folder), key=lambda call: len(call.inputs[0]))
    dense, offsets, values = call.inputs[0], call.inputs[1:7], call.inputs[7:]
    columns: dict[str, Any] = {
        name: pa.array(dense[:, k]) for k, name in enumerate(("age", "count", "mean", "year"))
    }
    filled = np.ones(len(dense), bool)
    for name, starts, ids in zip(_DLRM_LISTS, offsets, values, strict=True):
        rows = np.split(ids, starts[1:])
        filled &= np.array([len(row) > 0 for row in rows])
        one_each = all(len(row) == 1 for row in rows)
        columns[name] = pa.array(ids) if one_each else pa.array(rows)
    return _drawn(columns, count, generator, np.flatnonzero(filled))


def _words(folder: Path, count: int, generator: np.random.Generator) -> pa.Table:
    """Words of the example's lists, with its own features."""
    spec = importlib.util.spec_from_file_location("word_language_features", folder / "features.py")
    assert spec is not None and spec.loader is not None
    features = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(features)
    lines = "\n".join(
        (folder / name).read_text(encoding="utf-8") for name in ("words.txt", "everyday.txt")
    ).splitlines()
    lines = [
        line.partition(":")[2] or line.split()[0]
        for line in lines
        if line.strip() and not line.startswith("#")
    ]
    found = {features.normalise(word) for line in lines for word in line.split()}
    made = [features.features([word]) for word in sorted(found) if 3 <= len(word) <= 24]
    columns = {"letters": "chars", "trigrams": "ngrams", "pieces": "pieces"}
    return _drawn(
        {column: pa.array([m[name].reshape(-1) for m in made]) for column, name in columns.items()},
        count,
        generator,
    )


def _moments(folder: Path, count: int, generator: np.random.Generator) -> pa.Table:
    return _drawn({"items": pq.read_table(folder / "sessions.parquet")["items"]}, count, generator)


def _drawn(
    columns: dict[str, Any], count: int, generator: np.random.Generator, rows: Array | None = None
) -> pa.Table:
    """`count` rows, each one of `rows` (all), with their number as `number`."""
    table = pa.table(columns)
    picks = generator.choice(np.arange(table.num_rows) if rows is None else rows, count)
    return table.take(pa.array(picks)).append_column("number", pa.array(np.arange(count)))
