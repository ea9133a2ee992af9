"""Compiled models in `with`, copied, and awaited; layers told in one line."""

from __future__ import annotations

import asyncio
import copy

import numpy as np
import pytest

import uncork


def _shifted() -> uncork.Model:
    """x + [1, 2, .. 1000]."""
    builder = uncork.Builder("shifted")
    table = builder.constant(np.arange(1, 1001, dtype=np.float32), name="table")
    (total,) = builder.add("Add", 1, builder.parameter("x", "f32", [1000]), table, name="sum")
    builder.result(total, "total")
    return builder.model()


def _counting() -> uncork.Model:
    """A variable that counts calls."""
    builder = uncork.Builder("counting")
    zero, one = (builder.constant(np.full(1, n, np.float32)) for n in (0, 1))
    (before,) = builder.add("ReadValue", 3, zero, variable_id="count")
    (after,) = builder.add("Add", 1, before, one)
    builder.add("Assign", 3, after, variable_id="count")
    builder.result(after, "count")
    return builder.model()


def test_with_gives_memory_back_and_the_model_goes_on() -> None:
    with uncork.compile_model(_shifted()) as compiled:
        first = compiled(np.zeros(1000, np.float32))[0]
    assert first[:2].tolist() == [1, 2]
    assert compiled(np.ones(1000, np.float32))[0][:2].tolist() == [2, 3]


def test_a_copy_counts_by_itself() -> None:
    compiled = uncork.compile_model(_counting())
    assert compiled()[0] == 1
    other = copy.copy(compiled)
    assert [float(compiled()[0][0]), float(other()[0][0])] == [2, 1]


def test_calls_are_awaited_side_by_side() -> None:
    compiled = uncork.compile_model(_shifted())

    async def calls() -> list[float]:
        given = [np.full(1000, n, np.float32) for n in range(8)]
        found = await asyncio.gather(*(compiled.infer_async(x=array) for array in given))
        return [float(results["total"][0]) for results in found]

    assert asyncio.run(calls()) == [n + 1 for n in range(8)]


def test_what_a_call_refuses_is_raised_where_it_is_awaited() -> None:
    compiled = uncork.compile_model(_shifted())
    with pytest.raises(uncork.InputError, match=r"expected shape \[1000\], got \[3\]"):
        asyncio.run(compiled.infer_async(np.ones(3, np.float32)))


def test_a_layer_tells_no_values() -> None:
    nodes = {node.name: repr(node) for node in _shifted().nodes}
    assert nodes["table"] == "<Node layer 'table' (Const-1, id 0): [] -> f32[1000]>"
    assert nodes["sum"] == "<Node layer 'sum' (Add-1, id 2): [1:0, 0:0] -> f32[1000]>"
