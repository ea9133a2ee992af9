"""Products with several stored matrices: all of a stack, and those that the call chooses.

What is expected is NumPy's product in f64 of the numbers that codes, zero points and scales are.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import uncork
from tests.passes.test_real_width import from_a_file, unpacked_nowhere
from uncork import storage
from uncork.errors import InputError
from uncork.ir.build import Builder
from uncork.ir.model import Source
from uncork.types import ElementType

EXPERTS, COLUMNS, INNER = 6, 160, 512


class Experts:
    """A stack of matrices of small numbers, [experts, columns, inner] or with the last two the
    other way round, in a model, and what they are.
    """

    def __init__(
        self, stored: str, group: int, zeros: bool, turned: bool = False, columns: int = COLUMNS
    ) -> None:
        self.builder = Builder("experts")
        generator = np.random.default_rng(3)
        kind = ElementType.parse(stored)
        last = (columns,) if turned else ()
        first = (EXPERTS,) if turned else (EXPERTS, columns)
        shape = (*first, INNER // group, group, *last)
        one = (*first, INNER // group, 1, *last)
        codes = generator.integers(0, 1 << kind.bits, shape).astype(np.uint8)
        value = storage.decode(codes, kind).astype(np.float16).astype(np.float64)
        matrix = self._half(codes, stored)
        if zeros:
            points = generator.integers(0, 1 << kind.bits, one).astype(np.uint8)
            (matrix,) = self.builder.add("Subtract", 1, matrix, self._half(points, stored))
            value = value - points
        scales = (generator.uniform(1, 2, one) / 256).astype(np.float16)
        (matrix,) = self.builder.add("Multiply", 1, matrix, self.builder.constant(scales))
        whole = (*first, INNER, *last)
        value = (value * scales.astype(np.float64)).reshape(whole)
        shape_of = self.builder.constant(np.array(whole))
        (matrix,) = self.builder.add("Reshape", 1, matrix, shape_of, special_zero=False)
        (self.matrix,) = self.builder.add("Convert", 1, matrix, destination_type="f32")
        self.turned = turned
        #: [experts, inner, columns]
        self.value = value if turned else value.swapaxes(1, 2)

    def _half(self, codes: np.ndarray, stored: str) -> Source:
        constant = self.builder.constant(codes, stored)
        return self.builder.add("Convert", 1, constant, destination_type="f16")[0]

    def chosen(self, shape: list[int], type_name: str = "i64", version: int = 8) -> Source:
        index = self.builder.parameter("index", type_name, shape)
        zero = self.builder.constant(np.int64(0))
        return self.builder.add("Gather", version, self.matrix, index, zero)[0]

    def product(self, data: list[int | None], matrix: Source) -> Source:
        x = self.builder.parameter("x", "f32", data)
        return self.builder.add("MatMul", 1, x, matrix, transpose_b=not self.turned)[0]

    def compiled(self, result: Source, **options: object) -> uncork.CompiledModel:
        self.builder.result(result, "y")
        return uncork.compile_model(self.builder.model(), **options)  # type: ignore[arg-type]


def rows_of(shape: list[int | None], count: int) -> np.ndarray:
    sizes = [count if size is None else size for size in shape]
    return np.random.default_rng(count).standard_normal(sizes).astype(np.float32)


def is_stored(compiled: uncork.CompiledModel) -> bool:
    """Whether kernels multiply with the codes, and nothing is left to references."""
    steps = compiled.plan.steps
    products = [step for step in steps if "CompressedLinear" in step.operation]
    return bool(products) and all(step.kernel != "reference" for step in products)


FORMS = [("u4", 64, True), ("u4", 32, False), ("u8", 512, True), ("nf4", 128, False)]


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize(
    "data",
    [
        *([EXPERTS, None, INNER], [None, INNER], [1, None, INNER], [2, EXPERTS, None, INNER]),
        *([None, EXPERTS, None, INNER], [None, 2, 1, 4, INNER]),
    ],
    ids=str,
)
@pytest.mark.parametrize("threads", [1, 2])
def test_all(
    data: list[int | None], form: tuple[str, int, bool], turned: bool, threads: int
) -> None:
    experts = Experts(*form, turned)
    compiled = experts.compiled(
        experts.product(data, experts.matrix), threads=threads, decompression="f32"
    )
    for count in (1, 3, 30):
        x = rows_of(data, count)
        expected = x.astype(np.float64) @ experts.value
        result = compiled(x)["y"]
        assert result.shape == expected.shape
        assert abs(result - expected).max() <= 2e-6 * abs(expected).max()
    assert is_stored(compiled)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize(
    ("data", "index"),
    [
        ([None, INNER], []),
        ([2, None, INNER], [1]),
        ([None, INNER], [3]),
        ([3, None, INNER], [3]),
        ([2, None, INNER], [2, 2]),
        ([None, 3, None, INNER], [3]),
        ([None, 1, None, INNER], [3]),
        ([None, 2, 1, None, INNER], [2, 1]),
    ],
    ids=str,
)
@pytest.mark.parametrize("activations", ["f32", "i8"])
def test_chosen(
    data: list[int | None],
    index: list[int],
    form: tuple[str, int, bool],
    turned: bool,
    activations: str,
) -> None:
    experts = Experts(*form, turned)
    compiled = experts.compiled(
        experts.product(data, experts.chosen(index)),
        decompression="f32",
        activations=activations if form[0] != "nf4" else "f32",
    )
    generator = np.random.default_rng(1)
    for count in (1, 3, 30):
        x = rows_of(data, count)
        numbers = generator.integers(-EXPERTS, EXPERTS, index)
        expected = x.astype(np.float64) @ experts.value[numbers]
        result = compiled({"x": x, "index": numbers})["y"]
        limit = 2e-6 if activations == "f32" else 2e-2
        assert result.shape == expected.shape
        assert abs(result - expected).max() <= limit * abs(expected).max()
    assert is_stored(compiled)


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_what_no_matrix_has(backend: str) -> None:
    experts = Experts("u4", 64, True)
    compiled = experts.compiled(
        experts.product([None, INNER], experts.chosen([3], "i32", 7)), backend=backend
    )
    x = rows_of([None, INNER], 2)
    numbers = np.array([0, EXPERTS, -1], np.int32)
    result = compiled({"x": x, "index": numbers})["y"]
    expected = x.astype(np.float64) @ experts.value[0]
    assert abs(result[0] - expected).max() <= 2e-3 * abs(expected).max()
    # Gather gives zeros there, and version 7 for negative numbers, too
    assert not result[1:].any()


def test_what_no_matrix_has_may_be_refused() -> None:
    experts = Experts("u4", 64, True)
    compiled = experts.compiled(experts.product([None, INNER], experts.chosen([])), strict=True)
    x = rows_of([None, INNER], 2)
    compiled({"x": x, "index": np.int64(EXPERTS - 1)})
    with pytest.raises(InputError, match=f"-{EXPERTS} to {EXPERTS - 1}"):
        compiled({"x": x, "index": np.int64(EXPERTS)})


def test_the_end_of_the_products() -> None:
    experts = Experts("u4", 64, True)
    builder = experts.builder
    y = experts.product([EXPERTS, None, INNER], experts.matrix)
    bias = np.random.default_rng(5).standard_normal((EXPERTS, 1, COLUMNS)).astype(np.float32)
    gate = builder.parameter("gate", "f32", [EXPERTS, None, COLUMNS])
    (y,) = builder.add("Multiply", 1, y, gate)
    (y,) = builder.add("Add", 1, y, builder.constant(bias))
    (y,) = builder.add("ReLU", 1, y)
    compiled = experts.compiled(y, decompression="f32")
    x, g = rows_of([EXPERTS, None, INNER], 5), rows_of([EXPERTS, None, COLUMNS], 5)
    expected = np.maximum(x.astype(np.float64) @ experts.value * g + bias, 0)
    result = compiled({"x": x, "gate": g})["y"]
    assert abs(result - expected).max() <= 2e-6 * abs(expected).max()


def test_rows_are_not_taken_of_some_matrices_before_a_product_with_all() -> None:
    experts = Experts("u4", 64, True)
    builder = experts.builder
    y = experts.product([EXPERTS, None, INNER], experts.matrix)
    pick = builder.constant(np.int64(4))
    (y,) = builder.add("Gather", 8, y, pick, builder.constant(np.int64(0)))
    compiled = experts.compiled(y, decompression="f32")
    x = rows_of([EXPERTS, None, INNER], 3)
    expected = x[4].astype(np.float64) @ experts.value[4]
    assert abs(compiled(x)["y"] - expected).max() <= 2e-6 * abs(expected).max()


@pytest.mark.parametrize("chosen", [False, True])
def test_no_call_unpacks_matrices_of_real_width(chosen: bool, tmp_path: object) -> None:
    experts = Experts("u4", 64, True, columns=1440)
    matrix = experts.chosen([2]) if chosen else experts.matrix
    count = 2 if chosen else EXPERTS
    y = experts.product([count, None, INNER], matrix)
    experts.builder.result(y, "y")
    compiled = from_a_file(experts.builder.model(), tmp_path)
    x = rows_of([count, None, INNER], 2)
    given = {"x": x, "index": np.array([5, 2])} if chosen else {"x": x}
    result = unpacked_nowhere(compiled, given)  # type: ignore[arg-type]
    values = experts.value[[5, 2]] if chosen else experts.value
    expected = x.astype(np.float64) @ values
    assert abs(result - expected).max() <= 2e-3 * abs(expected).max()
