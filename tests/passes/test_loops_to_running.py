"""Loops that carry a product or a sum so far: what becomes a step, what stays, and the results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import uncork
from uncork.ir.bodies import GraphBody
from uncork.ops._body import BodyInput, BodyMap, JoinedOutput, SlicedInput, Slicing
from uncork.passes.loops_to_running import loops_to_running

BACK = (-1, 0, -1)


def model(**other: Any) -> uncork.Model:
    """The loop over the parts of a tensor; `other` changes a detail."""
    detail: dict[str, Any] = {
        "shape": [None, None, 4], "axis": 1, "kind": "f32", "layer": "Multiply", "begins": 1,
        "turned": False, "exclusive": False, "walk": (0, -1, 1), "back": None, "size": 1,
        "from": "part", "scattered": 1, "more": False,
    }  # fmt: skip
    assert not other.keys() - detail.keys()
    detail.update(other)
    kind, axis = detail["kind"], detail["axis"]
    sizes = [detail["size"] if d == axis else n for d, n in enumerate(detail["shape"])]
    own = 1 if detail["scattered"] == 1 else None
    begun = [own if d == axis else n for d, n in enumerate(detail["shape"])]
    inner = uncork.Builder("turn")
    part, before = inner.parameter("part", kind, sizes), inner.parameter("before", kind, begun)
    given = (before, part) if detail["turned"] else (part, before)
    if detail["from"] == "itself":
        given = (before, before)
    (product,) = inner.add(detail["layer"], 1, *given)
    if detail["more"]:
        (product,) = inner.add("Abs", 1, product)
    inner.result(product)
    inner.result(before if detail["exclusive"] else product)

    b = uncork.Builder("running")
    data = b.parameter("data", kind, detail["shape"])
    dtype = {"f32": np.float32, "i64": np.int64, "i32": np.int32}[kind]
    (shape,) = b.add("ShapeOf", 3, data)
    (shape,) = b.add(
        "ScatterElementsUpdate",
        12,
        shape,
        *(b.constant(np.array(v, np.int64)) for v in ([axis], [detail["scattered"]], 0)),
    )
    (first,) = b.add("Broadcast", 3, b.constant(np.array(detail["begins"], dtype)), shape)
    walk = Slicing(axis, *detail["walk"], detail["size"])
    put = walk if detail["back"] is None else Slicing(axis, *detail["back"], detail["size"])
    joined = BodyMap(
        GraphBody(inner.model()),
        (SlicedInput(0, 0, walk), BodyInput(1, 1)),
        (JoinedOutput(0, 1, put),),
        ((0, 1),),
    )
    b.result(
        b.add_with_bodies("TensorIterator", 1, data, first, bodies={"body": joined})[0], "so_far"
    )
    return b.model()


def kinds(given: uncork.Model) -> set[str]:
    return {node.type_name for node in loops_to_running(given).nodes}


@pytest.mark.parametrize("kind", ["f32", "i64", "i32"])
@pytest.mark.parametrize("layer", ["Multiply", "Add"])
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_results_are_those_of_numpy(
    kind: str, layer: str, axis: int, exclusive: bool, reverse: bool
) -> None:
    given = model(
        kind=kind, layer=layer, axis=axis, exclusive=exclusive, begins=int(layer == "Multiply"),
        walk=BACK if reverse else (0, -1, 1), shape=[None, None, None], turned=exclusive,
    )  # fmt: skip
    assert ("RunningProduct" if layer == "Multiply" else "CumSum") in kinds(given)
    assert "TensorIterator" not in kinds(given)
    compiled = uncork.compile_model(given)
    accumulate = np.cumprod if layer == "Multiply" else np.cumsum
    for sizes in ((2, 3, 4), (1, 1, 1), (3, 37, 17), (2, 0, 3), (41, 2, 40)):
        data = np.random.default_rng(5).uniform(-1.4, 1.4, sizes) * (3 if kind != "f32" else 1)
        data = data.round().astype(kind.replace("i", "int")) if kind != "f32" else data
        ordered = np.flip(data, axis) if reverse else data
        expected = accumulate(ordered, axis, data.dtype)
        if exclusive and sizes[axis]:
            expected = np.roll(expected, 1, axis)
            np.moveaxis(expected, axis, 0)[0] = layer == "Multiply"
        expected = np.flip(expected, axis) if reverse else expected
        found = compiled(data.astype(np.float32) if kind == "f32" else data)[0]
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-5)


def test_whole_numbers_wrap() -> None:
    data = np.full((1, 40, 4), 3, np.int32)
    found = uncork.compile_model(model(kind="i32"))(data)[0]
    assert [int(n) for n in found[0, :, 0]] == [
        (3**k + 2**31) % 2**32 - 2**31 for k in range(1, 41)
    ]


def test_a_size_that_is_known() -> None:
    given = model(shape=[2, 6, 4])
    assert "RunningProduct" in kinds(given)
    data = np.random.default_rng(6).random((2, 6, 4), np.float32)
    found = uncork.compile_model(given)(data)[0]
    np.testing.assert_allclose(found, np.cumprod(data, 1), rtol=1e-5)


@pytest.mark.parametrize(
    "detail",
    [
        {"layer": "Maximum"},
        {"begins": 2},
        {"layer": "Add", "begins": 1},
        {"walk": (1, -1, 1)},
        {"walk": (0, -1, 2)},
        {"back": BACK},
        {"from": "itself"},
        {"more": True},
        {"scattered": 2},
    ],
)
def test_others_stay(detail: dict[str, Any]) -> None:
    given = model(**detail)
    assert loops_to_running(given) is given
