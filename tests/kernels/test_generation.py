"""Range and Eye of sizes that only the call knows."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import uncork
from uncork.ir.model import Source
from uncork.types import ElementType

I64 = np.int64


def length_of(builder: uncork.Builder, data: Source) -> Source:
    """The size of a vector, as a scalar."""
    (sizes,) = builder.add("ShapeOf", 3, data)
    (size,) = builder.add("Squeeze", 1, sizes, builder.constant(np.array([0])))
    return size


def planned(builder: uncork.Builder) -> uncork.CompiledModel:
    return uncork.compile_model(builder.model(), threads=1)


def has_no_reference(compiled: uncork.CompiledModel) -> bool:
    return compiled.plan.made == 1 and all(s.kernel != "reference" for s in compiled.plan.steps)


@pytest.mark.parametrize("real", ["f32", "f64"])
@pytest.mark.parametrize("step", [1.0, -1.0, -2.0])
def test_whole_numbers_from_floats(real: str, step: float) -> None:
    """PyTorch counts positions backwards, from a length on, in floats."""
    builder = uncork.Builder("positions")
    x = builder.parameter("x", "f32", [None])
    (size,) = builder.add("Convert", 1, length_of(builder, x), destination_type=real)
    number = np.dtype(real.replace("f", "float")).type
    limits = (number(0), None) if step > 0 else (None, number(-1))
    start, stop = (size if n is None else builder.constant(n) for n in limits)
    by = builder.constant(number(step))
    builder.result(builder.add("Range", 4, start, stop, by, output_type="i64")[0])
    compiled = planned(builder)
    for count in (1, 2, 7, 30):
        got = compiled(np.zeros(count, np.float32))[0]
        wanted = range(0, count, int(step)) if step > 0 else range(count, -1, int(step))
        np.testing.assert_array_equal(got, np.array(wanted, I64))
        assert got.dtype == I64
    assert has_no_reference(compiled)


@pytest.mark.parametrize("kind", ["f32", "i32", "f16", "u8", "nf4"])
@pytest.mark.parametrize("diagonal", [0, 2, -1, 50, -(2**62)])
@pytest.mark.parametrize("batch", [None, [2, 1]])
def test_eye(kind: str, diagonal: int, batch: list[int] | None) -> None:
    builder = uncork.Builder("eye")
    x, y = builder.parameter("x", "f32", [None]), builder.parameter("y", "f32", [None])
    given = [length_of(builder, x), length_of(builder, y), builder.constant(I64(diagonal))]
    given += [] if batch is None else [builder.constant(np.array(batch))]
    builder.result(builder.add("Eye", 9, *given, output_type=kind)[0])
    compiled = planned(builder)
    for rows, columns in ((3, 3), (1, 4), (5, 2), (1, 1), (9, 17)):
        got = compiled(np.zeros(rows, np.float32), np.zeros(columns, np.float32))[0]
        wanted = [[float(j - i == diagonal) for j in range(columns)] for i in range(rows)]
        np.testing.assert_array_equal(got, np.broadcast_to(wanted, got.shape))
        assert got.shape == (*(batch or ()), rows, columns)
        assert kind == "nf4" or got.dtype == ElementType[kind].dtype
    assert has_no_reference(compiled)
