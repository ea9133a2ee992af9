"""Large files: nothing recurses by layer, and four times the file costs about four times the time.

The ratios are loose and the limits are those of a hang: what is quadratic fails by a factor, what
is slow does not fail.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import uncork
from tests.ir._files import Net, edge, layer, parameter, port, relu, result


def chain(n: int) -> Net:
    layers = [parameter(0), *(relu(i) for i in range(1, n + 1)), result(n + 1)]
    return Net(
        layers, [edge("0:0", "1:0"), *(edge(f"{i}:1", f"{i + 1}:0") for i in range(1, n + 1))]
    )


def many_inputs(n: int) -> Net:
    layers = [
        parameter(0),
        layer(1, "Concat", [port(i, [2]) for i in range(n)], [port(n, [2 * n])], axis=0),
        result(2, [2 * n]),
    ]
    return Net(layers, [*(edge("0:0", f"1:{i}") for i in range(n)), edge(f"1:{n}", "2:0")])


def many_results(n: int) -> Net:
    layers = [
        *(parameter(i, name="x" * (i % 7)) for i in range(n)),
        *(result(n + i) for i in range(n)),
    ]
    return Net(layers, [edge(f"{i}:0", f"{n + i}:0") for i in range(n)])


def many_uses(n: int) -> Net:
    """A binary tree written from the root on: each layer's inputs come after it."""
    layers = [parameter(0), result(1)]
    layers += [
        layer(i, "Add", [port(0, [2]), port(1, [2])], [port(2, [2])]) for i in range(2, n + 2)
    ]
    edges = [edge("2:2", "1:0")]
    for i in range(2, n + 2):
        for side, child in enumerate((2 * i - 1, 2 * i)):
            edges.append(edge(f"{child}:2" if child < n + 2 else "0:0", f"{i}:{side}"))
    return Net(layers, edges)


def cycles(n: int) -> Net:
    """Every layer reads the next one and the first: n cycles, each as long as can be."""
    layers = [
        parameter(0),
        *(layer(i, "Add", [port(0, [2]), port(1, [2])], [port(2, [2])]) for i in range(1, n + 1)),
        result(n + 1),
    ]
    edges = [*(edge(f"{i + 1}:2", f"{i}:0") for i in range(1, n)), edge("0:0", f"{n}:0")]
    return Net(
        layers,
        [*edges, *(edge("1:2", f"{i}:1") for i in range(1, n + 1)), edge("1:2", f"{n + 1}:0")],
    )


def unknown(n: int) -> Net:
    """Operations that do not exist, all different."""
    layers = [
        parameter(0),
        *(layer(i, f"Operation{i}", [port(0, [2])], [port(1, [2])]) for i in range(1, n + 1)),
        result(n + 1),
    ]
    return Net(
        layers, [edge("0:0", "1:0"), *(edge(f"{i}:1", f"{i + 1}:0") for i in range(1, n + 1))]
    )


def bad_edges(n: int) -> Net:
    layers = [
        parameter(0),
        layer(1, "Concat", [port(i, [2]) for i in range(n)], [port(n, [2 * n])], axis=0),
        result(2, [2 * n]),
    ]
    return Net(layers, [edge("0:7", f"1:{n + i}") for i in range(n)])


SHAPES = {
    chain: 60_000,
    many_inputs: 20_000,
    many_results: 8_000,
    many_uses: 8_000,
    cycles: 8_000,
    unknown: 8_000,
    bad_edges: 8_000,
}


def seconds(path: Path) -> float:
    start = time.process_time()  # other processes have no share in it
    with contextlib.suppress(uncork.UncorkError):
        uncork.write_model(uncork.read_model(path), path.with_name("again.xml"))
    return time.process_time() - start


@pytest.mark.parametrize("make", SHAPES, ids=[f.__name__ for f in SHAPES])
def test_reading_and_writing_are_linear(tmp_path: Path, make: Callable[[int], Net]) -> None:
    first = seconds(make(SHAPES[make] // 4).save(tmp_path))
    second = seconds(make(SHAPES[make]).save(tmp_path))
    assert second < 120, "hangs"
    # Four times the work; sixteen times would be quadratic. The garbage collector has its share.
    assert second < 10 * first + 1


def test_a_long_chain_runs(tmp_path: Path) -> None:
    """Nor is anything recursive when it is called."""
    depth = max(20_000, 4 * sys.getrecursionlimit())
    compiled = uncork.load(chain(depth).save(tmp_path), backend="reference")
    assert compiled(np.array([-1, 2], np.float32))[0].tolist() == [0, 2]


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_many_inputs_run(tmp_path: Path, backend: Any) -> None:
    compiled = uncork.load(many_inputs(20_000).save(tmp_path), backend=backend)
    assert compiled(np.array([-1, 2], np.float32))[0].tolist() == [-1, 2] * 20_000


def test_many_ports_are_called_by_name(tmp_path: Path) -> None:
    compiled = uncork.load(many_results(2_000).save(tmp_path), backend="reference")
    assert compiled.inputs[1].name == compiled.inputs[8].name == "", (
        "a name that several inputs have is none"
    )
    assert len(compiled(*[np.zeros(2, np.float32)] * 2_000)) == 2_000
