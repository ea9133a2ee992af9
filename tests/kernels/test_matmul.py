"""Products of matrices: sizes around the edges of panels and row blocks, and the fusion of bias and
activation.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import uncork
from tests.kernels._run import run_native, spec_of
from uncork.compiler.compile import compile_model
from uncork.kernels.codegen.emit import Kernel
from uncork.kernels.gemm.microkernel import Microkernel, RegisterTile
from uncork.kernels.kernel_plan import KernelPlan
from uncork.kernels.runtime.target import Target
from uncork.ops import find
from uncork.types import ElementType

#: The error of a product, by its type.
EXACT = {"f32": 1e-5, "f64": 1e-13}


def spec(array: np.ndarray, element_type: str = "f32"):
    return spec_of(array, ElementType.parse(element_type))


@pytest.mark.parametrize("rows", [1, 2, 7, 8, 9, 17])
@pytest.mark.parametrize("columns", [1, 2, 15, 16, 17, 31, 33, 47, 48, 49, 96, 97])
@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize("element_type", EXACT)
def test_sizes(rows: int, columns: int, transpose_b: bool, element_type: str) -> None:
    generator = np.random.default_rng(rows * 100 + columns)
    inner = 13
    dtype = ElementType.parse(element_type).dtype
    a = generator.standard_normal((rows, inner)).astype(dtype)
    b = generator.standard_normal((columns, inner) if transpose_b else (inner, columns)).astype(
        dtype
    )
    operation = find("MatMul", 1)(transpose_b=transpose_b)
    specs = [spec(a, element_type), spec(b, element_type)]
    results, choice = run_native(operation, specs, shift=4)
    assert isinstance(choice, KernelPlan), choice
    wide = a.astype(np.longdouble) @ (b.T if transpose_b else b).astype(np.longdouble)
    error = EXACT[element_type]
    np.testing.assert_allclose(results[0], wide.astype(np.float64), rtol=error, atol=error)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("element_type", EXACT)
@pytest.mark.parametrize("end", ["", "mask", "bias"])
def test_few_rows_by_matrices_of_the_call(turned: bool, element_type: str, end: str) -> None:
    """As decoding and scoring have them: the matrix is not brought into panels, and a plan for any
    number of rows asks how many there are.
    """
    random, dtype = np.random.default_rng(1), ElementType.parse(element_type).dtype
    for opened in (False, True):
        for rows, inner, columns in ((1, 64, 50), (4, 5, 16), (5, 13, 7), (8, 9, 33), (9, 17, 8)):
            a = random.standard_normal((2, 3, rows, inner)).astype(dtype)
            w = random.standard_normal((2, 1, columns, inner)).astype(dtype)
            expected = a @ w.swapaxes(2, 3)
            w = w if turned else np.ascontiguousarray(w.swapaxes(2, 3))
            b = uncork.Builder("scores")
            given = [
                b.parameter(name, element_type, [None] * 4 if opened else x.shape)
                for name, x in (("a", a), ("w", w))
            ]
            (y,) = b.add("MatMul", 1, *given, transpose_b=turned)
            more = []
            if end:
                shape = expected.shape if end == "mask" else (columns,)
                more = [random.standard_normal(shape).astype(dtype)]
                expected = expected + more[0]
                if end == "bias":
                    other, more = b.constant(more[0]), []
                else:
                    other = b.parameter("other", element_type, [None] * 4 if opened else shape)
                (y,) = b.add("Add", 1, y, other)
            b.result(y, "y")
            for threads in (1, 3):
                compiled = compile_model(b.model(), threads=threads)
                error = EXACT[element_type]
                got = compiled(a, w, *more)["y"]
                np.testing.assert_allclose(got, expected, rtol=error, atol=error)
            names = " ".join(step.kernel for step in compiled.plan.steps)
            few = rows <= (8 if turned else 4)
            assert ("_either" if opened else "_few") in names or not (opened or few), names


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("element_type", EXACT)
@pytest.mark.parametrize("opened", [False, True])
def test_a_column_is_a_row_by_the_matrix(turned: bool, element_type: str, opened: bool) -> None:
    """Weighted sums of rows, as pooling by attention has them: the matrix is read as it lies."""
    random, dtype = np.random.default_rng(2), ElementType.parse(element_type).dtype
    for batches, one, rows, inner in (((2, 3), (2, 1), 50, 7), ((5,), (5,), 1, 4), ((), (), 33, 9)):
        a = random.standard_normal((*batches, rows, inner)).astype(dtype)
        v = random.standard_normal((*one, inner, 1)).astype(dtype)
        bias = random.standard_normal((*batches, rows, 1)).astype(dtype)
        expected = np.maximum(a @ v + bias, 0)
        a = np.ascontiguousarray(a.swapaxes(-1, -2)) if turned else a
        b = uncork.Builder("sums")
        x, y, z = (
            b.parameter(name, element_type, [None] * array.ndim if opened else array.shape)
            for name, array in (("a", a), ("v", v), ("bias", bias))
        )
        (y,) = b.add("MatMul", 1, x, y, transpose_a=turned)
        b.result(b.add("ReLU", 1, b.add("Add", 1, y, z)[0])[0], "y")
        for threads in (1, 3):
            compiled = compile_model(b.model(), threads=threads)
            error = EXACT[element_type]
            np.testing.assert_allclose(compiled(a, v, bias)["y"], expected, rtol=error, atol=error)
        if not opened and rows > 1:
            assert "_few" in " ".join(step.kernel for step in compiled.plan.steps)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("rows", [None, 1, 3, 20])
@pytest.mark.parametrize("columns", [None, 5, 40])
def test_sums_of_no_numbers_are_zeros(turned: bool, rows: int | None, columns: int | None) -> None:
    """A plan of open sizes takes an inner size of 0, after calls that left numbers behind."""
    b = uncork.Builder("sums")
    x = b.parameter("x", "f32", [rows, None])
    w = b.parameter("w", "f32", [columns, None] if turned else [None, columns])
    b.result(b.add("MatMul", 1, x, w, transpose_b=turned)[0], "y")
    compiled = compile_model(b.model(), threads=1)
    m, n = rows or 4, columns or 6
    for inner in (3, 0, 33, 0):
        matrix = np.ones((n, inner) if turned else (inner, n), np.float32)
        got = compiled(np.ones((m, inner), np.float32), matrix)["y"]
        np.testing.assert_array_equal(got, np.full((m, n), inner, np.float32))


@pytest.mark.parametrize("rows", [2, 8, 9, 17])
@pytest.mark.parametrize("inner", [1, 350])
def test_large_matrices_are_asked_for_ahead(rows: int, inner: int) -> None:
    """The last panel asks for what lies behind the matrix: nobody may own that."""
    columns = (1 << 18) // inner + 49
    generator = np.random.default_rng(rows)
    a = generator.standard_normal((rows, inner)).astype(np.float32)
    b = generator.standard_normal((inner, columns)).astype(np.float32)
    results, choice = run_native(find("MatMul", 1)(), [spec(a), spec(b)], shift=4)
    assert isinstance(choice, KernelPlan) and "_ahead" in choice.kernel, choice
    np.testing.assert_allclose(results[0], a.astype(np.float64) @ b, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("registers", [16, 32])
@pytest.mark.parametrize("vectors", [1, 2, 3, 4])
def test_sums_fit_the_registers(registers: int, vectors: int) -> None:
    """With what is the fewer beside them, a vector of each or a factor of each row, and one of the
    others.
    """
    features = "+sse2,+avx,+avx2,+fma" + (",+avx512f" if registers == 32 else "")
    target = Target.of("x86_64", "x86-64", features)
    assert target.vector_registers == registers
    tile = RegisterTile(target.lanes, vectors)
    kernel = Kernel("sums", [], target)
    made = Microkernel(kernel, "block", tile, (), lambda k, row: None)
    kernel.finish()
    assert made.sizes[-1] == 1
    for rows in made.sizes:
        _, _, body = kernel.text().partition(f'@"block_{rows}"')
        sums = body.partition("\n}")[0].count(f"alloca <{target.lanes} x float>")
        assert sums >= rows * vectors
        assert sums + min(rows, vectors) + 1 <= registers


@pytest.mark.parametrize("transpose_b", [False, True])
def test_batches_of_the_call(transpose_b: bool) -> None:
    generator = np.random.default_rng(5)
    a = generator.standard_normal((2, 3, 5, 7)).astype(np.float32)
    b = generator.standard_normal((2, 3, 20, 7) if transpose_b else (2, 3, 7, 20)).astype(
        np.float32
    )
    results, choice = run_native(find("MatMul", 1)(transpose_b=transpose_b), [spec(a), spec(b)])
    assert isinstance(choice, KernelPlan), choice
    np.testing.assert_allclose(
        results[0], a @ (np.swapaxes(b, -1, -2) if transpose_b else b), rtol=1e-5, atol=1e-5
    )


#: Shapes of both, and whether each is transposed: vectors, batches that stretch, one matrix for
#: all, sums longer than a panel's.
PRODUCTS = [
    ((7, 5), (7, 20), True, False),
    ((3, 7, 5), (20, 7), True, True),
    ((7,), (7,), False, False),
    ((7,), (3, 7, 4), False, False),
    ((3, 5, 7), (7,), False, False),
    ((2, 1, 5, 7), (1, 3, 7, 6), False, False),
    ((1, 3, 5, 7), (2, 3, 7, 6), False, False),
    ((7, 5), (2, 3, 6, 7), True, True),
    ((2, 3), (3, 2), False, False),
    ((40, 70), (130, 70), False, True),
    ((9, 20000), (20000, 33), False, False),
]


@pytest.mark.parametrize("element_type", EXACT)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize(("left", "right", "transpose_a", "transpose_b"), PRODUCTS)
def test_products_of_all_kinds(
    left: tuple[int, ...],
    right: tuple[int, ...],
    transpose_a: bool,
    transpose_b: bool,
    constant: bool,
    threads: int,
    element_type: str,
) -> None:
    generator = np.random.default_rng(len(left))
    dtype = ElementType.parse(element_type).dtype
    a, b = (generator.standard_normal(shape).astype(dtype) for shape in (left, right))
    builder = uncork.Builder("product")
    x = builder.parameter("x", element_type, list(left))
    y = builder.constant(b) if constant else builder.parameter("y", element_type, list(right))
    (last,) = builder.add("MatMul", 1, x, y, transpose_a=transpose_a, transpose_b=transpose_b)
    builder.result(last, "z")
    compiled = compile_model(builder.model(), threads=threads)
    assert [step.kernel[:6] for step in compiled.plan.steps] == ["matmul"]
    first = np.swapaxes(a, -1, -2) if transpose_a else a
    second = np.swapaxes(b, -1, -2) if transpose_b else b
    wide = np.matmul(first.astype(np.longdouble), second.astype(np.longdouble)).astype(np.float64)
    got = np.asarray(compiled(a)["z"] if constant else compiled(a, b)["z"])
    assert got.shape == wide.shape
    terms = np.matmul(np.abs(first), np.abs(second))  # what rounding is proportional to
    largest = max(1.0, float(terms.max()))
    np.testing.assert_allclose(got, wide, rtol=0, atol=0.02 * EXACT[element_type] * largest)


def network(activation: str, columns: int, bias_shape: tuple[int, ...]) -> uncork.Model:
    generator = np.random.default_rng(columns)
    builder = uncork.Builder("linear")
    x = builder.parameter("x", "f32", [None, 6])
    (product,) = builder.add(
        "MatMul", 1, x, builder.constant(generator.standard_normal((6, columns)).astype(np.float32))
    )
    (last,) = builder.add(
        "Add",
        1,
        builder.constant(generator.standard_normal(bias_shape).astype(np.float32)),
        product,
    )
    if activation:
        (last,) = builder.add(activation, 1, last)
    builder.result(last, "y")
    return builder.model()


@pytest.mark.parametrize("activation", ["", "ReLU", "Sigmoid", "Tanh"])
@pytest.mark.parametrize("columns", [1, 16, 50])
def test_bias_and_activation_are_part_of_the_product(activation: str, columns: int) -> None:
    model = network(activation, columns, (1, columns))
    fast, slow = compile_model(model), compile_model(model, backend="reference")
    assert len(fast.plan.steps) == 1
    x = np.random.default_rng(1).standard_normal((9, 6)).astype(np.float32) * 3
    np.testing.assert_allclose(fast(x)["y"], slow(x)["y"], rtol=2e-6, atol=2e-7)


def test_a_bias_for_each_element_ends_the_product() -> None:
    model = network("ReLU", 4, (3, 4))
    compiled = compile_model(model)
    assert len(compiled.plan.steps) == 1
    x = np.ones((3, 6), np.float32)
    np.testing.assert_allclose(
        compiled(x)["y"], compile_model(model, backend="reference")(x)["y"], rtol=1e-5
    )


@pytest.mark.parametrize(
    ("name", "function"), [("Sigmoid", lambda x: 1 / (1 + np.exp(-x))), ("Tanh", np.tanh)]
)
def test_activations_over_the_whole_range(name: str, function) -> None:
    """Through a product with the identity: the activation alone decides the error."""
    builder = uncork.Builder("activation")
    x = builder.parameter("x", "f32", [None, 1])
    (product,) = builder.add("MatMul", 1, x, builder.constant(np.ones((1, 16), np.float32)))
    (last,) = builder.add(name, 1, product)
    builder.result(last, "y")
    sizes = np.concatenate(
        [10.0 ** np.arange(-30, 3), np.linspace(0.01, 20, 999), [0.0, 88, 89, 200, np.inf, np.nan]]
    )
    values = np.concatenate([sizes, -sizes]).astype(np.float32)
    got = compile_model(builder.model())(values[:, np.newaxis])["y"][:, 3]
    with np.errstate(over="ignore"):
        expected = function(values.astype(np.float64))
    normal = ~(np.abs(expected) < 1e-37)
    np.testing.assert_allclose(got[normal], expected[normal], rtol=5e-7)
    np.testing.assert_allclose(got[~normal], expected[~normal], atol=1e-37)
