"""Small weights of the width that language models have: whatever the form, no call unpacks them."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import uncork
from tests.processes._children import run_child
from uncork import storage
from uncork.internal_ops.compressed_linear import CompressedLinear
from uncork.internal_ops.packed_const import PackedConst
from uncork.internal_ops.quantized_lookup import CompressedLookup
from uncork.ir.model import Model, Source
from uncork.kernels.runtime.target import LEVELS, lacking
from uncork.passes import fold_constants
from uncork.types import ElementType

COLUMNS, GROUPS, SIZE = 1152, 14, 64
INNER = GROUPS * SIZE
#: Bytes of the matrix in f32.
MADE = COLUMNS * INNER * 4


class Stored:
    """A matrix [columns, inner] of small numbers in a model, and what it is by its formula."""

    def __init__(
        self,
        stored: str,
        group: int = SIZE,
        zeros: str = "",
        scales: str = "f16",
        columns: int = COLUMNS,
        later: Sequence[str] = (),
        cut: bool = False,
        turned: bool = False,
        experts: int = 0,
    ) -> None:
        self.builder = uncork.Builder(f"{stored}, groups of {group or INNER}, zero points {zeros}")
        self.generator = np.random.default_rng(3)
        groups = INNER // group if group else 1
        shape = (columns, groups, group) if group else (columns, INNER)
        one = (*shape[:-1], 1)
        if turned:  # columns are last, as in files of GPTQ and AWQ
            shape, one = (groups, group, columns), (groups, 1, columns)
        matrix, value = self.small(stored, shape)
        if zeros:
            zero, number = self.small(zeros, one)
            (matrix,) = self.builder.add("Subtract", 1, matrix, zero)
            value = value - number
        if scales == "f16":
            number = (self.generator.uniform(1, 2, one) / 256).astype(np.float16)
            scale = self.builder.constant(number)
        elif scales == "two levels":  # of f8e4m3, and one of all, as NVFP4
            kind = ElementType.f8e4m3
            codes = self.generator.integers(40, 72, one).astype(np.uint8)
            exact = np.float32(0.0371)
            (scale,) = self.builder.add(
                "Convert", 1, self.builder.constant(codes, kind), destination_type="f32"
            )
            (scale,) = self.builder.add("Multiply", 1, scale, self.builder.constant(exact))
            (scale,) = self.builder.add("Convert", 1, scale, destination_type="f16")
            number = (storage.decode(codes, kind) * exact).astype(np.float16)
        else:
            scale, number = self.small(scales, one, around_one=True)
        (matrix,) = self.builder.add("Multiply", 1, matrix, scale)
        value = value * number.astype(np.float64)
        for kind in later:  # of each column, behind what f16 has rounded
            number = self.generator.uniform(0.5, 2, (columns, *[1] * (len(shape) - 1)))
            number = number.astype(np.float16)
            (matrix,) = self.builder.add(kind, 1, matrix, self.builder.constant(number))
            exact = number.astype(np.float64)
            value = value * exact if kind == "Multiply" else value - exact
        self.turned = turned
        self.value = value.reshape(INNER, columns).T if turned else value.reshape(columns, INNER)
        if cut:  # columns and places by turns, and cut into other columns
            order = self.builder.constant(np.array([1, 2, 0]))
            (matrix,) = self.builder.add("Transpose", 1, matrix, order)
            self.value = value.transpose(1, 2, 0).reshape(columns, INNER)
        if group:
            sizes = [INNER, columns] if turned else [columns, INNER]
            if experts:  # matrices in a tensor of three axes
                sizes = [experts, columns // experts, INNER]
            whole = self.builder.constant(np.array(sizes))
            (matrix,) = self.builder.add("Reshape", 1, matrix, whole, special_zero=False)
        (self.matrix,) = self.builder.add("Convert", 1, matrix, destination_type="f32")

    def small(
        self, stored: str, shape: tuple[int, ...], around_one: bool = False
    ) -> tuple[Source, np.ndarray]:
        """A constant of any codes that are numbers, converted, and these numbers."""
        if stored.startswith("book"):
            count = int(stored.removeprefix("book of ").removesuffix(" in bytes"))
            book = self.generator.standard_normal(count).astype(np.float16)
            codes = self.generator.integers(0, count, shape)
            codes = codes.astype(np.uint8 if count <= 256 else np.uint16)
            short = count == 16 and not stored.endswith("bytes")
            places = self.builder.constant(codes, "u4" if short else None)
            if short:  # as NNCF writes CB4
                (places,) = self.builder.add("Convert", 1, places, destination_type="u8")
            given = self.builder.constant(book), places, self.builder.constant(np.int64(0))
            (made,) = self.builder.add("Gather", 8, *given)
            return made, book[codes].astype(np.float64)
        if stored == "i8 less 8":  # in i8, as GPTQ's symmetric codes come
            codes = self.generator.integers(0, 16, shape).astype(np.int8)
            eight = self.builder.constant(np.int8(8))
            (made,) = self.builder.add("Subtract", 1, self.builder.constant(codes), eight)
            (made,) = self.builder.add("Convert", 1, made, destination_type="f16")
            return made, codes.astype(np.float64) - 8
        kind = ElementType.parse(stored.removesuffix(" and NaN"))
        if around_one:
            codes = self.generator.integers(126, 129, shape).astype(np.uint8)
        else:
            codes = self.generator.integers(0, 1 << kind.bits, shape).astype(np.uint8)
            if stored.startswith("f8"):
                codes &= 0xB7  # neither infinite nor NaN
            if stored.endswith("NaN"):
                codes[5, 7] = 0x7F
            if stored in ("i4", "i8"):
                codes = codes.astype(np.int8)
                codes = (codes ^ 8) - np.int8(8) if stored == "i4" else codes
        (made,) = self.builder.add(
            "Convert", 1, self.builder.constant(codes, kind), destination_type="f16"
        )
        return made, storage.decode(codes, kind).astype(np.float64)

    def product(self) -> Model:
        x = self.builder.parameter("x", "f32", [None, INNER])
        (y,) = self.builder.add("MatMul", 1, x, self.matrix, transpose_b=not self.turned)
        self.builder.result(y, "y")
        return self.builder.model()

    def looked_up(self) -> Model:
        ids = self.builder.parameter("ids", "i64", [None])
        (y,) = self.builder.add("Gather", 8, self.matrix, ids, self.builder.constant(np.int64(0)))
        self.builder.result(y, "y")
        return self.builder.model()


#: What products and look-ups read as it is stored.
AS_STORED: dict[str, dict[str, Any]] = {
    "u4, u4": {"stored": "u4", "zeros": "u4"},
    "u4, u4, groups of 128": {"stored": "u4", "group": 128, "zeros": "u4"},
    "u4, u4, groups of 32": {"stored": "u4", "group": 32, "zeros": "u4"},
    "u4, u4, columns": {"stored": "u4", "group": 0, "zeros": "u4"},
    "i4": {"stored": "i4"},
    "u8, u8": {"stored": "u8", "zeros": "u8"},
    "u8, u8, columns": {"stored": "u8", "group": 0, "zeros": "u8"},
    "i8, i8": {"stored": "i8", "zeros": "i8"},
    "u4, u8": {"stored": "u4", "zeros": "u8"},
    "u2, u2": {"stored": "u2", "zeros": "u2"},
    "u3, u3": {"stored": "u3", "zeros": "u3"},
    "nf4": {"stored": "nf4"},
    "f8e4m3": {"stored": "f8e4m3", "group": 0},
    "f8e5m2": {"stored": "f8e5m2", "group": 0},
    "f4e2m1, f8e8m0": {"stored": "f4e2m1", "group": 32, "scales": "f8e8m0"},
    "f8e4m3, f8e8m0": {"stored": "f8e4m3", "group": 32, "scales": "f8e8m0"},
    "f4e2m1, two levels": {"stored": "f4e2m1", "group": 16, "scales": "two levels"},
    "u4, u4, groups of 56": {"stored": "u4", "group": 56, "zeros": "u4"},
    "book of 4 bits": {"stored": "book of 16"},
    "book": {"stored": "book of 64"},
    "book of 16 bits": {"stored": "book of 3000"},
    "groups cut elsewhere": {"stored": "u4", "zeros": "u4", "cut": True},
    "i4, two scales": {"stored": "i4", "later": ["Multiply"]},
    "i4, three scales": {"stored": "i4", "later": ["Multiply", "Multiply"]},
    "u8, zero points behind scales": {"stored": "u8", "later": ["Subtract"]},
    "i4, groups of 2": {"stored": "i4", "group": 2},
    "f8e4m3 and NaN": {"stored": "f8e4m3 and NaN", "group": 0},
    "book of 4 bits in bytes": {"stored": "book of 16 in bytes"},
    "book of 16 bits for bytes": {"stored": "book of 100"},
    "i8 less 8": {"stored": "i8 less 8"},
    "u6": {"stored": "u6"},
}
#: Of which products read a copy, column after column.
TURNED: dict[str, dict[str, Any]] = {
    "u4, u4, turned": {"stored": "u4", "zeros": "u4", "turned": True},
    "i8 less 8, turned": {"stored": "i8 less 8", "turned": True},
    "u8, turned": {"stored": "u8", "turned": True},
}
#: Which are several matrices.
EXPERTS: dict[str, dict[str, Any]] = {
    "u4, u4, experts": {"stored": "u4", "zeros": "u4", "experts": 8},
    "i8, experts": {"stored": "i8", "experts": 8},
    "nf4, experts": {"stored": "nf4", "experts": 8},
    "f4e2m1, f8e8m0, experts": {"stored": "f4e2m1", "group": 32, "scales": "f8e8m0", "experts": 8},
}


def error_of(result: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference, of the largest number; those are NaN that have to be."""
    np.testing.assert_array_equal(np.isnan(result), np.isnan(expected))
    return float(np.nanmax(abs(result - expected)) / np.nanmax(abs(expected)))


def from_a_file(model: Model, tmp_path: object, target: str | None = None) -> uncork.CompiledModel:
    path = tmp_path / "m.xml"  # type: ignore[operator]
    uncork.write_model(model, path)
    return uncork.load(path, threads=1, target=target)


def unpacked_nowhere(compiled: uncork.CompiledModel, *inputs: np.ndarray) -> np.ndarray:
    """The result of a call of kernels alone, which takes no memory for the matrix."""
    compiled(*inputs)
    left = [step.reason for step in compiled.plan.steps if step.kernel == "reference"]
    assert not left, left
    tracemalloc.start()
    try:
        result = np.asarray(compiled(*inputs)["y"])
        assert tracemalloc.get_traced_memory()[1] < MADE // 8
    finally:
        tracemalloc.stop()
    return result


@pytest.mark.parametrize("name", [*AS_STORED, *TURNED])
@pytest.mark.parametrize("rows", [1, 20])
def test_products(name: str, rows: int, tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = Stored(**(AS_STORED | TURNED)[name])
    # by no limit of memory
    monkeypatch.setattr(fold_constants, "available", lambda: (0, "no machine"))
    compiled = from_a_file(stored.product(), tmp_path)
    x = np.random.default_rng(4).standard_normal((rows, INNER)).astype(np.float32)
    result = unpacked_nowhere(compiled, x)
    assert error_of(result, x.astype(np.float64) @ stored.value.T) <= 1e-3
    kinds = {step.operation for step in compiled.plan.steps}
    assert "CompressedLinear-0" in kinds, kinds


@pytest.mark.skipif(bool(lacking(LEVELS["x86-64-v2"])), reason="of another machine")
@pytest.mark.parametrize("name", [*AS_STORED, *TURNED])
def test_processors_without_conversions_of_halves(name: str, tmp_path: object) -> None:
    stored = Stored(**(AS_STORED | TURNED)[name])
    builder = stored.builder
    x = builder.parameter("x", "f32", [None, INNER])
    (y,) = builder.add("MatMul", 1, x, stored.matrix, transpose_b=not stored.turned)
    builder.result(y, "y")
    if not stored.turned:
        ids, zero = builder.parameter("ids", "i64", [None]), builder.constant(np.int64(0))
        builder.result(builder.add("Gather", 8, stored.matrix, ids, zero)[0], "rows")
    compiled = from_a_file(builder.model(), tmp_path, "x86-64-v2")
    data = np.random.default_rng(4).standard_normal((3, INNER)).astype(np.float32)
    for rows in (1, 3):
        given = {"x": data[:rows]} | ({} if stored.turned else {"ids": np.arange(rows)})
        result = np.asarray(compiled(given)["y"])
        assert error_of(result, data[:rows].astype(np.float64) @ stored.value.T) <= 1e-3
    assert not [step.reason for step in compiled.plan.steps if step.kernel == "reference"]


@pytest.mark.parametrize("name", AS_STORED)
@pytest.mark.parametrize("activations", ["i16", "i8"])
def test_products_of_rounded_rows(name: str, activations: str, tmp_path: object) -> None:
    stored = Stored(**AS_STORED[name])
    path = tmp_path / "m.xml"  # type: ignore[operator]
    uncork.write_model(stored.product(), path)
    compiled = uncork.load(path, threads=1, decompression="f32", activations=activations)  # type: ignore[arg-type]
    for rows in (1, 2, 5, 20):
        x = np.random.default_rng(rows).standard_normal((rows, INNER)).astype(np.float32)
        result = unpacked_nowhere(compiled, x)
        error = error_of(result, x.astype(np.float64) @ stored.value.T)
        # Numbers of nf4 are rounded to f16 by the file.
        assert error < {"i16": 4e-4, "i8": 2e-2}[activations]
        (step,) = [step for step in compiled.plan_for(x=[rows, INNER]).steps if step.note]
        assert ("rows in" in step.note) == ("dot_" in step.kernel), step.note


@pytest.mark.parametrize("how", ["weights first", "turned data", "a vector", "pixels"])
def test_products_that_are_written_otherwise(
    how: str, tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = Stored("u4", zeros="u4")
    builder, matrix = stored.builder, stored.matrix
    monkeypatch.setattr(fold_constants, "available", lambda: (0, "no machine"))
    shape = {"a vector": [INNER], "pixels": [2, INNER, 3, 5]}.get(how, [INNER, 7])
    given = [None if size in (2, 7) else size for size in shape]
    x = builder.parameter("x", "f32", given)
    if how == "pixels":
        sizes = builder.constant(np.array([COLUMNS, INNER, 1, 1]))
        (filters,) = builder.add("Reshape", 1, matrix, sizes, special_zero=False)
        places = {"strides": [1, 1], "dilations": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0]}
        (y,) = builder.add("Convolution", 1, x, filters, **places)
    elif how == "weights first":
        (y,) = builder.add("MatMul", 1, matrix, x)
    else:
        turned = how == "turned data"
        (y,) = builder.add("MatMul", 1, x, matrix, transpose_a=turned, transpose_b=True)
    builder.result(y, "y")
    data = np.random.default_rng(4).standard_normal(shape).astype(np.float32)
    result = unpacked_nowhere(from_a_file(builder.model(), tmp_path), data)
    wide = data.astype(np.float64)
    expected = {
        "weights first": lambda: stored.value @ wide,
        "turned data": lambda: wide.T @ stored.value.T,
        "a vector": lambda: stored.value @ wide,
        "pixels": lambda: np.einsum("nchw,oc->nohw", wide, stored.value),
    }[how]()
    assert error_of(result, expected) <= 1e-3


@pytest.mark.parametrize("name", AS_STORED)
def test_look_ups(name: str, tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = Stored(**AS_STORED[name])
    monkeypatch.setattr(fold_constants, "available", lambda: (0, "no machine"))
    compiled = from_a_file(stored.looked_up(), tmp_path)
    ids = np.array([0, COLUMNS - 1, 7, 500, 7, -1])
    result = unpacked_nowhere(compiled, ids)
    expected = stored.value[ids]
    # Of differences what was rounded before them counts: half a unit of f16 below 2.
    few = 6e-4 if "behind" in name else 1e-4
    np.testing.assert_allclose(result, expected, rtol=2e-3, atol=few)
    assert all("Convert" not in step.operation for step in compiled.plan.steps)


def test_a_matrix_that_rows_are_looked_up_in_and_multiplied_by(tmp_path: object) -> None:
    stored = Stored("u4", zeros="u4")
    ids = stored.builder.parameter("ids", "i64", [None])
    builder = stored.builder
    (rows,) = builder.add("Gather", 8, stored.matrix, ids, builder.constant(np.int64(0)))
    (y,) = builder.add("MatMul", 1, rows, stored.matrix, transpose_b=True)
    builder.result(y, "y")
    places = np.array([3, 1100, 3])
    result = unpacked_nowhere(from_a_file(builder.model(), tmp_path), places)
    expected = stored.value[places] @ stored.value.T
    assert abs(result - expected).max() <= 2e-3 * abs(expected).max()


@pytest.mark.parametrize("what", ["product", "looked_up"])
def test_nobody_keeps_unpacked_codes(what: str, tmp_path: object) -> None:
    stored = Stored("u4", zeros="u4")
    compiled = from_a_file(getattr(stored, what)(), tmp_path)
    compiled(np.zeros((1, INNER), np.float32) if what == "product" else np.zeros(1, np.int64))
    packed = [
        node.operation for node in compiled.model.nodes if isinstance(node.operation, PackedConst)
    ]
    assert len(packed) == 2
    assert all("value" not in vars(constant) for constant in packed)
    operations = [node.operation for node in compiled.executor.prepared.nodes]
    codes = [op.weights.codes for op in operations if isinstance(op, CompressedLinear)]
    codes += [op.table.codes for op in operations if isinstance(op, CompressedLookup)]
    assert [array.nbytes for array in codes] == [COLUMNS * INNER // 2]


def test_the_values_that_a_pass_asks_for_are_not_kept() -> None:
    constant = PackedConst.of(ElementType.i4, (2, 2), np.array([0x2F, 0x81], np.uint8))
    assert constant.unpacked().tolist() == [[-1, 2], [1, -8]]
    assert "value" not in vars(constant)
    assert constant.value.tolist() == [[-1, 2], [1, -8]]
    assert "value" in vars(constant)


#: Columns of matrices in files that are mapped.
LARGE = 32 * COLUMNS
#: The growth of a process is that of the file, and a fifth; and what the allocator rounds up to.
MEMORY = """
import gc, os, sys
import numpy as np, uncork

def status(name):
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) << 10

def call(path):
    compiled = uncork.load(path, threads=1)
    given = {"ids": np.array([0, 7, 500])} if len(compiled.inputs) > 1 else {}
    for rows in (1, 20):
        compiled({"x": np.ones((rows, INNER), np.float32), **given})
    return compiled

call("small.xml")  # which compiles the kernels
gc.collect()
open("/proc/self/clear_refs", "w").write("5")  # the largest size begins anew
before = status("VmRSS")
kept = call("large.xml")
print(status("VmHWM") - before, sum(os.path.getsize("large" + end) for end in (".xml", ".bin")))
""".replace("INNER", str(INNER))


# What varies along an axis that is cut elsewhere is repeated for each number.
@pytest.mark.skipif(not os.access("/proc/self/clear_refs", os.W_OK), reason="asks Linux")
@pytest.mark.parametrize(
    "name", [*(name for name in AS_STORED if "cut" not in name), *TURNED, *EXPERTS]
)
def test_memory_is_that_of_the_file(name: str, tmp_path: Path) -> None:
    """What loading a model and calling it add to a process, pages of the mapped file among it, is
    at most a fifth above the file.
    """
    for size, columns in (("small", COLUMNS), ("large", LARGE)):
        stored = Stored(**(AS_STORED | TURNED | EXPERTS)[name], columns=columns)
        builder = stored.builder
        x = builder.parameter("x", "f32", [None, INNER])
        (y,) = builder.add("MatMul", 1, x, stored.matrix, transpose_b=not stored.turned)
        builder.result(y, "y")
        if not stored.turned and name not in EXPERTS:
            ids = builder.parameter("ids", "i64", [None])
            zero = builder.constant(np.int64(0))
            builder.result(builder.add("Gather", 8, stored.matrix, ids, zero)[0], "rows")
        uncork.write_model(builder.model(), tmp_path / f"{size}.xml")
    done = run_child(MEMORY, home=tmp_path, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    grown, file = map(int, done.stdout.split())
    if "two levels" in name:  # scales are as the layers compute them, in f16 for those of 8 bits
        file += LARGE * INNER // 16
    assert grown < 1.2 * file + (4 << 20), f"{grown:,} bytes for a file of {file:,}"
