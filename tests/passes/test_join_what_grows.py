"""Values to which turns of a loop add a part: which are joined behind the loop, which stay, and the
results, in a compiled file too.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import uncork
from uncork.ir.bodies import GraphBody
from uncork.ir.model import Source
from uncork.ops._body import (
    BodyInput,
    BodyMap,
    BodyOutput,
    InnerResult,
    JoinedOutput,
    Slicing,
    TurnNumber,
)
from uncork.passes.join_what_grows import join_what_grows

#: Details of `grown` that other systems do not write, by which a value is no list of parts.
STAYS: dict[str, dict[str, Any]] = {
    "a turn reads all of it": {"reads": "sum"},
    "a turn reads the other end": {"reads": "first"},
    "a turn reads before the last part": {"reads": "second"},
    "places along another axis": {"reads": "column"},
    "it grows at both ends": {"adds": "around"},
    "it is doubled": {"adds": "twice"},
    "parts have an open size": {"adds": "open"},
    "another value takes its place": {"carried": False},
    "a turn gives what was there": {"gives": "out"},
    "the whole of each turn is stacked": {"stacked": True},
}


def grown(**other: Any) -> uncork.Model:
    """`for turn in range(trips): out = cat([out, part], 1)`, where part is half of the last part
    and the number of the turn; `other` changes a detail.
    """
    detail = {"adds": "behind", "reads": "", "carried": True, "stacked": False, "ends": 2**31,
              "gives": ""}  # fmt: skip
    assert not other.keys() - detail.keys()
    detail.update(other)
    b = uncork.Builder("turn")

    def n(value: Any) -> Source:
        return b.constant(np.array(value, np.int64))

    def layer(kind: str, opset: int, *inputs: Source, **attributes: Any) -> Source:
        return b.add(kind, opset, *inputs, **attributes)[0]

    turn = b.parameter("turn", "i64", [])
    out, h = b.parameter("out", "f32", [None, None]), b.parameter("h", "f32", [None, 1])
    half = b.constant(np.float32(0.5))
    part = layer("Multiply", 1, h, half)
    part = layer("Add", 1, part, layer("Convert", 1, turn, destination_type="f32"))
    is_front = detail["adds"] == "in front"
    end = 0 if is_front else -1

    def up_to(stop: Source) -> Source:
        return layer("Slice", 8, out, n([0]), stop, n([1]), n([0]))

    def last() -> Source:
        stop = n([1 if is_front else 2**62])
        return layer("Slice", 8, out, n([end]), stop, n([1]), n([1]))

    read = {
        "sum": lambda: layer("ReduceSum", 1, out, n([1]), keep_dims=True),
        "first": lambda: layer("Gather", 8, out, n([-1 if is_front else 0]), n(1)),
        "second": lambda: layer("Gather", 8, out, n([-2]), n(1)),
        "column": lambda: layer("Gather", 8, out, n([end]), n(0)),
        "place": lambda: layer("Gather", 8, out, n([end]), n(1)),
        "rows, place": lambda: layer("Gather", 8, up_to(n([2**62])), n([end]), n(-1)),
        "slice": lambda: layer("ReduceSum", 1, last(), n([1]), keep_dims=True),
    }.get(detail["reads"], lambda: half)()
    part = layer("Add", 1, part, read)
    added = {
        "in front": lambda: [part, out],
        "around": lambda: [part, out, part],
        "twice": lambda: [out, out],
        "open": lambda: [out, up_to(layer("Unsqueeze", 1, turn, n(0)))],
        "two": lambda: [out, part, layer("Negative", 1, part)],
    }.get(detail["adds"], lambda: [out, part])()
    joined = layer("Concat", 1, *added, axis=1)
    number = layer("Convert", 1, turn, destination_type="i64")
    b.result(layer("Less", 1, number, n(detail["ends"])))
    b.result(joined)
    b.result(part)
    if detail["gives"] or not detail["carried"]:
        b.result(out if detail["gives"] else layer("Tanh", 1, out))
    back = [(1 if detail["carried"] else 3, 1), (2, 2)]
    outputs = [
        InnerResult(0, purpose="execution_condition"),
        JoinedOutput(0, 1, Slicing(1)) if detail["stacked"] else BodyOutput(0, 1),
        BodyOutput(1, 2),
    ]
    if detail["gives"]:
        outputs.append(BodyOutput(2, 3))
    inputs = [TurnNumber(0), BodyInput(2, 1), BodyInput(3, 2)]
    bodies = {"body": BodyMap(GraphBody(b.model()), tuple(inputs), tuple(outputs), tuple(back))}
    o = uncork.Builder("grown")
    start, first = o.parameter("start", "f32", [None, None]), o.parameter("first", "f32", [None, 1])
    trips = o.parameter("trips", "i64", [])
    made = o.add_with_bodies(
        "Loop", 5, trips, o.constant(np.array(True)), start, first, bodies=bodies
    )
    o.result(made[0], "out")
    o.result(made[1], "last")
    return o.model()


def expected(
    start: np.ndarray, first: np.ndarray, trips: int, adds: str, reads: str, ends: int = 2**31
) -> list[np.ndarray]:
    """The program, in NumPy."""
    out, h = start, first
    for turn in range(trips):
        part = h * np.float32(0.5) + np.float32(turn)
        last = out[:, :1] if adds == "in front" else out[:, -1:]
        part = part + (last if reads else np.float32(0.5))
        tensors = {"in front": [part, out], "two": [out, part, -part]}.get(adds, [out, part])
        out, h = np.concatenate(tensors, 1), part
        if turn >= ends:
            break
    return [out, h]


@pytest.mark.parametrize("reads", ["", "place", "rows, place", "slice"])
@pytest.mark.parametrize("adds", ["behind", "in front", "two"])
@pytest.mark.parametrize("ends", [2**31, 2])
def test_what_grows_is_joined_behind_the_loop(
    adds: str, reads: str, ends: int, tmp_path: Path
) -> None:
    model = grown(adds=adds, reads=reads, ends=ends)
    after = join_what_grows(model)
    assert [n.type_name for n in after.nodes].count("Concat") == 1
    (loop,) = (n for n in after.nodes if n.type_name == "Loop")
    body = loop.operation.bodies["body"]
    assert "Concat" not in [n.type_name for n in body.body.model.nodes] or adds == "two"
    compiled = uncork.compile_model(model)
    generator = np.random.default_rng(3)
    calls = []
    for rows, columns, trips in ((1, 1, 3), (2, 4, 6), (3, 2, 1), (2, 3, 0)):
        start = generator.standard_normal((rows, columns)).astype(np.float32)
        calls.append((start, start[:, :1] * 2, np.array(trips)))
    for start, first, trips in calls:
        wanted = expected(start, first, int(trips), adds, reads, ends)
        for run in (compiled, uncork.compile_model(model, backend="reference")):
            found = run(start, first, trips)
            for a, b in zip(found.values(), wanted, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-6)


def test_such_a_loop_has_a_compiled_file(tmp_path: Path) -> None:
    pytest.importorskip("llvmlite")
    model = grown()
    uncork.compile_to(model, tmp_path / "grown.uncork")
    loaded = uncork.load(tmp_path / "grown.uncork")
    for rows, columns, trips in ((1, 1, 3), (2, 4, 6)):
        start = np.arange(rows * columns, dtype=np.float32).reshape(rows, columns)
        wanted = expected(start, start[:, :1], trips, "behind", "")
        for a, b in zip(loaded(start, start[:, :1], np.array(trips)).values(), wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6)


@pytest.mark.parametrize("name", STAYS)
def test_what_stays(name: str) -> None:
    model = grown(**STAYS[name])
    assert join_what_grows(model) is model


def test_parts_that_do_not_fit_are_refused() -> None:
    compiled = uncork.compile_model(grown())
    with pytest.raises(uncork.UncorkError):
        compiled(np.zeros((2, 3), np.float32), np.zeros((3, 1), np.float32), np.array(2))
