"""Texts and numbers of a file that are of any size: what is refused takes no more room than the
file did.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import uncork
from tests.ir._files import Net, edge, layer, parameter, port, relu, result
from uncork.errors import Problem, shortened
from uncork.types import MAX_RANK

LONG = "long" * 50_000
#: So many problems at one layer, each of which names it.
TIMES = 300


def bad_ports(count: int) -> list[str]:
    return [port("x", [1], "NOPE")] * count


def of_one_layer(**more: str) -> Net:
    """Input ports that are all wrong, on a layer with a long text in one place."""
    kind = more.pop("kind", "ReLU")
    return Net(
        [parameter(0), layer(1, kind, bad_ports(TIMES), **more), result(2)],
        [edge("0:0", "1:0"), edge("1:9", "2:0")],
    )


def in_a_body() -> Net:
    body = Net(
        [parameter(0), layer(1, "ReLU", bad_ports(TIMES), name=LONG), result(2)],
        [edge("0:0", "1:0"), edge("1:9", "2:0")],
    )
    loop = layer(
        1,
        "TensorIterator",
        [port(0, [2])],
        [port(1, [2])],
        name=LONG,
        inner=f"<body>{body.body}</body>",
    )
    return Net([parameter(0), loop, result(2)], [edge("0:0", "1:0"), edge("1:1", "2:0")])


def same_ids() -> Net:
    return Net(
        [parameter(0), relu(1, name=LONG), *[relu(1, name="other")] * TIMES, result(2)],
        [edge("0:0", "1:0"), edge("1:1", "2:0")],
    )


def edges_to_nowhere() -> Net:
    edges = [
        edge("0:0", "1:0"),
        edge("1:1", "2:0"),
        *[edge(f"1:{n + 5}", "2:0") for n in range(TIMES)],
    ]
    return Net([parameter(0), relu(1, name=LONG), result(2)], edges)


def missing_operations() -> Net:
    layers = [
        layer(n + 1, f"{LONG}{n}", [port(0, [2])], [port(1, [2])], name=LONG) for n in range(20)
    ]
    edges = [edge(f"{n}:{1 if n else 0}", f"{n + 1}:0") for n in range(21)]
    return Net([parameter(0), *layers, result(21)], edges)


def large_shapes() -> Net:
    """Each port has a reader that says otherwise."""
    wide, numbers = port(0, ["1"] * 20_000), range(50)
    readers = [layer(n + 100, "ReLU", [wide], [port(1, [2])]) for n in numbers]
    layers = [*map(parameter, numbers), *readers, *[result(n + 200) for n in numbers]]
    return Net(
        layers,
        [
            e
            for n in numbers
            for e in (edge(f"{n}:0", f"{n + 100}:0"), edge(f"{n + 100}:1", f"{n + 200}:0"))
        ],
    )


NETS = {
    "name": lambda: of_one_layer(name=LONG),
    "type": lambda: of_one_layer(kind=LONG),
    "version": lambda: of_one_layer(version=LONG),
    "body": in_a_body,
    "same ids": same_ids,
    "edges": edges_to_nowhere,
    "missing": missing_operations,
    "shapes": large_shapes,
}


@pytest.mark.parametrize("what", NETS)
def test_what_a_message_quotes_is_cut(tmp_path: Path, what: str) -> None:
    path = NETS[what]().save(tmp_path, b"")
    with pytest.raises(uncork.UncorkError) as caught:
        uncork.load(path)
    error = caught.value
    assert all(len(p.where) + len(p.message) < 9000 for p in error.problems)
    assert len(str(error)) < 600_000
    assert len(error.problems) > 10
    assert "..." in str(error)


def test_readers_of_one_port_that_say_otherwise_are_one_problem(tmp_path: Path) -> None:
    wide, numbers = port(0, ["1"] * 20_000), range(1, 51)
    layers = [
        parameter(0),
        *[layer(n, "ReLU", [wide], [port(1, [2])]) for n in numbers],
        *[result(n + 100) for n in numbers],
    ]
    edges = [e for n in numbers for e in (edge("0:0", f"{n}:0"), edge(f"{n}:1", f"{n + 100}:0"))]
    with pytest.raises(uncork.ValidationError) as caught:
        uncork.load(Net(layers, edges).save(tmp_path, b""))
    assert len(caught.value.problems) == 1
    assert len(str(caught.value)) < 9000


def test_of_very_many_problems_the_first_are_listed(tmp_path: Path) -> None:
    with pytest.raises(uncork.ValidationError) as caught:
        uncork.load(
            Net(
                [parameter(0), layer(1, "ReLU", bad_ports(3000)), result(2)], [edge("1:0", "2:0")]
            ).save(tmp_path, b"")
        )
    assert len(caught.value.problems) == 1001
    assert str(caught.value.problems[-1]).startswith("and ")
    assert str(caught.value.problems[-1]).endswith(" more problems, which are not listed")


def test_the_beginning_and_the_end_of_a_long_text_are_shown() -> None:
    assert shortened("a" * 200) == "a" * 200
    assert shortened("a" * 150 + "b" * 150) == "a" * 98 + "..." + "b" * 98
    problem = Problem("x" * 5000, "y" * 4000)
    assert (len(problem.where), len(problem.message)) == (3999, 4000)


# ---- more dimensions than arrays have


def wide_parameter(rank: int) -> Net:
    dims = [1] * rank
    add = layer(
        1,
        "Add",
        [port(0, dims, "I64"), port(1, dims, "I64")],
        [port(2, dims, "I64")],
        auto_broadcast="numpy",
    )
    return Net(
        [parameter(0, dims, "I64"), add, result(2, dims, "I64")],
        [edge("0:0", "1:0"), edge("0:0", "1:1"), edge("1:2", "2:0")],
    )


def test_as_many_dimensions_as_an_array_has(tmp_path: Path) -> None:
    data = np.full([1] * MAX_RANK, 3)
    assert uncork.load(wide_parameter(MAX_RANK).save(tmp_path, b""))(data)[0].ravel().tolist() == [
        6
    ]


@pytest.mark.parametrize("rank", [MAX_RANK + 1, 65, 70, 1000])
def test_more_dimensions_than_an_array_has(tmp_path: Path, rank: int) -> None:
    with pytest.raises(
        uncork.ValidationError,
        match=rf"layer 'layer0' .*: expected at most {MAX_RANK} dimensions, got {rank}",
    ):
        uncork.load(wide_parameter(rank).save(tmp_path, b""))


def test_layers_that_make_too_many_dimensions() -> None:
    builder = uncork.Builder("m")
    x = builder.parameter("x", "i64", [1] * MAX_RANK)
    message = f"expected at most {MAX_RANK} dimensions, got {MAX_RANK + 1}"
    with pytest.raises(uncork.ValidationError, match=message):
        builder.add("Unsqueeze", 1, x, builder.constant(np.array([0])))
    with pytest.raises(uncork.ValidationError, match=message):
        builder.add(
            "Reshape", 1, x, builder.constant(np.ones(MAX_RANK + 1, np.int64)), special_zero=False
        )


def test_a_call_that_makes_too_many_dimensions() -> None:
    builder = uncork.Builder("m")
    x = builder.parameter("x", "f32", None)
    builder.result(builder.add("Unsqueeze", 1, x, builder.constant(np.array([0])))[0])
    compiled = uncork.compile_model(builder.model())
    assert compiled(np.ones([1] * (MAX_RANK - 1), np.float32))[0].ndim == MAX_RANK
    with pytest.raises(
        uncork.InputError, match=f"expected at most {MAX_RANK} dimensions, got {MAX_RANK + 1}"
    ):
        compiled(np.ones([1] * MAX_RANK, np.float32))
