"""Einsum of tensors of the call: what becomes a MatMul, what stays, and the results."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import uncork
from uncork.ir.build import Builder

SIZES = {"b": 2, "h": 3, "q": 5, "k": 4, "d": 7, "e": 6, "x": 2, "y": 3}


def model(equation: str, shapes: list[list[int | None]], **options: object) -> uncork.CompiledModel:
    builder = Builder("products")
    sources = [builder.parameter(f"x{i}", "f32", shape) for i, shape in enumerate(shapes)]
    builder.result(builder.add("Einsum", 7, *sources, equation=equation)[0], "y")
    return uncork.compile_model(builder.model(), threads=1, **options)


def operands(equation: str, seed: int = 0) -> list[np.ndarray]:
    generator = np.random.default_rng(seed)
    left = equation.partition("->")[0].split(",")
    parts = [[3, 2] if c == "." else [SIZES[c]] for part in left for c in part.replace("...", ".")]
    shapes, at = [], 0
    for part in left:
        count = len(part.replace("...", "."))
        shapes.append([size for sizes in parts[at : at + count] for size in sizes])
        at += count
    return [generator.standard_normal(shape).astype(np.float32) for shape in shapes]


def kernels(compiled: uncork.CompiledModel) -> list[str]:
    return [step.operation.partition("-")[0] for step in compiled.plan.steps]


@pytest.mark.parametrize("is_open", [False, True])
@pytest.mark.parametrize(
    "equation",
    [
        "qd,dk->qk",  # a product of matrices
        "qd,kd->qk",
        "dq,dk->qk",
        "qd,kd->kq",  # the operands change places
        "bhqd,bhkd->bhqk",  # scores of attention
        "bqhd,bkhd->bhqk",  # with heads beside each other
        "bhqk,bkhd->bqhd",
        "bd,bde->be",  # a vector times a matrix, in a batch
        "bde,bd->be",
        "bd,be->bde",  # nothing is summed
        "qd,kd->",  # rows and columns are summed alone
        "qd,kd->q",
        "bqd,dk->k",
        "bqxy,bkxy->bqk",  # two labels are summed
        "bqx,byk->bqxyk",
        "xqd,yke->xyqdke",
        "...qd,...dk->...qk",
        "bd,bd->b",  # no rows, no columns
        "bqd,bkd->qbk",  # the batch is not first
    ],
)
def test_products(equation: str, is_open: bool) -> None:
    """Against numpy.einsum, for two seeds: with open sizes one plan serves both."""
    given = operands(equation)
    compiled = model(equation, [[None if is_open else n for n in a.shape] for a in given])
    for seed in (0, 1):
        given = operands(equation, seed)
        wanted = np.einsum(equation, *given)
        np.testing.assert_allclose(compiled(*given)[0], wanted, rtol=1e-5, atol=1e-5)
    assert "Einsum" not in kernels(compiled)
    assert all(step.kernel != "reference" for step in compiled.plan.steps)


@pytest.mark.parametrize("is_open", [False, True])
@pytest.mark.parametrize(
    "equation",
    [
        "qd,dk,kb->qb",  # a chain of products
        "eqh,ehd,qe->qd",  # experts: the gates scale what is multiplied
        "b,q,k->bqk",
        "bq,bk,bd->qkd",
        "qx,kx,dy,bx->qkb",  # labels that one operand alone has
        "...qd,dk,...k->...q",
        "xq,qd,dk,kb,by->xy",
    ],
)
def test_several_operands(equation: str, is_open: bool) -> None:
    """Against numpy.einsum; a plan of open sizes serves others, too."""
    given = operands(equation)
    compiled = model(equation, [[None if is_open else n for n in a.shape] for a in given])
    for seed in (0, 1):
        given = operands(equation, seed)
        wanted = np.einsum(equation, *given)
        np.testing.assert_allclose(compiled(*given)[0], wanted, rtol=1e-5, atol=1e-5)
    assert "Einsum" not in kernels(compiled)
    assert all(step.kernel != "reference" for step in compiled.plan.steps)


def test_what_scales_an_operand_is_multiplied_first() -> None:
    """The outputs of experts are not made one by one: one product sums over experts, too."""
    compiled = model("eqh,ehd,qe->qd", [[6, 5, 3], [6, 3, 7], [5, 6]])
    products = [step for step in compiled.plan.steps if step.operation.startswith("MatMul")]
    assert ["[5,7]" in step.outputs for step in products] == [True]


@pytest.mark.parametrize("is_open", [False, True])
@pytest.mark.parametrize(
    "equation", ["bhq->qbh", "bhq->bq", "bhq->hb", "bhq->", "q->q", "...bq->q...b", "b...q->qb"]
)
def test_one_tensor(equation: str, is_open: bool) -> None:
    """Rearranged, and summed over what the output has not."""
    given = operands(equation)
    compiled = model(equation, [[None if is_open else n for n in a.shape] for a in given])
    for seed in (0, 1):
        given = operands(equation, seed)
        wanted = np.einsum(equation.replace("b...q->qb", "bxyq->qb"), *given)
        np.testing.assert_allclose(compiled(*given)[0], wanted, rtol=1e-5, atol=1e-5)
    assert "Einsum" not in kernels(compiled)
    assert all(step.kernel != "reference" for step in compiled.plan.steps)


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("element_type", ["f32", "f64"])
@pytest.mark.parametrize(
    ("equation", "becomes"),
    [
        ("bqd,bdxy->bqxy", "MatMul"),  # the sums run over other than the last of the data
        ("qd,dk->kq", "MatMul"),
        ("q,k->qk", "Multiply"),
        ("bq,bk->bkq", "Multiply"),
        ("bd,bd->bd", "Multiply"),
    ],
)
def test_a_constant_operand(equation: str, becomes: str, element_type: str, first: bool) -> None:
    if element_type == "f64" and becomes == "MatMul":
        pytest.skip("products of f64 have no kernel")
    builder = Builder("constant")
    given = [array.astype(element_type.replace("f", "float")) for array in operands(equation)]
    if not first:
        equation = ",".join(reversed(equation.partition("->")[0].split(","))) + (
            "->" + equation.partition("->")[2]
        )
        given.reverse()
    fixed = 0 if first else 1
    shape = [None if n == SIZES["y"] else n for n in given[1 - fixed].shape]
    x = builder.parameter("x", element_type, shape)
    sources = [x, builder.constant(given[fixed])]
    builder.result(
        builder.add("Einsum", 7, *(sources[::-1] if first else sources), equation=equation)[0], "y"
    )
    compiled = uncork.compile_model(builder.model(), threads=1)
    wanted = np.einsum(equation, *given)
    np.testing.assert_allclose(compiled(given[1 - fixed])[0], wanted, rtol=1e-5, atol=1e-5)
    assert becomes in kernels(compiled)
    assert all(step.kernel != "reference" for step in compiled.plan.steps)


def test_integers_of_one_tensor() -> None:
    """Moved as they are; sums of integers stay."""
    for equation, stays in (("bq->qb", False), ("bq->q", True)):
        builder = Builder("integers")
        x = builder.parameter("x", "i64", [None, 3])
        builder.result(builder.add("Einsum", 7, x, equation=equation)[0], "y")
        compiled = uncork.compile_model(builder.model(), threads=1)
        given = np.arange(6).reshape(2, 3) + 2**60
        wanted = given.T if equation == "bq->qb" else given[0] + given[1]
        np.testing.assert_array_equal(compiled(given)[0], wanted)
        assert ("Einsum" in kernels(compiled)) == stays


@pytest.mark.parametrize("element_type", ["i8", "u8", "i32", "i64"])
@pytest.mark.parametrize("equation", ["qd,qk->qdk", "bq,bhk->bhqk", "bq,bk->bkq", "bq,bq->b"])
def test_integers_of_two_tensors(equation: str, element_type: str) -> None:
    """They are multiplied, and wrap around; sums of integers stay."""
    generator = np.random.default_rng(2)
    named = {"i": "int", "u": "uint"}[element_type[0]] + element_type[1:]
    ends = np.iinfo(named)
    builder = Builder("integers")
    parts = equation.partition("->")[0].split(",")
    sources = [
        builder.parameter(f"x{i}", element_type, [None] * len(p)) for i, p in enumerate(parts)
    ]
    builder.result(builder.add("Einsum", 7, *sources, equation=equation)[0], "y")
    compiled = uncork.compile_model(builder.model(), threads=1)
    given = [
        generator.integers(ends.min, ends.max, [SIZES[c] for c in part], dtype=named)
        for part in parts
    ]
    wanted = np.einsum(equation, *given, dtype=named)
    np.testing.assert_array_equal(compiled(*given)[0], wanted)
    assert ("Einsum" in kernels(compiled)) == (equation == "bq,bq->b")


@pytest.mark.parametrize(
    "equation",
    ["qq->q", "qq,qk->qk"],
    ids=["diagonal", "twice"],
)
def test_what_stays(equation: str) -> None:
    given = [
        np.ones([SIZES[c] for c in p], np.float32) for p in equation.partition("->")[0].split(",")
    ]
    compiled = model(equation, [list(a.shape) for a in given])
    np.testing.assert_allclose(compiled(*given)[0], np.einsum(equation, *given), rtol=1e-6)
    assert "Einsum" in kernels(compiled)


def test_a_dimension_that_stretches_stays() -> None:
    """OpenVINO's Einsum lets a dimension of 1 stretch; a product would not."""
    compiled = model("bqd,bkd->bqk", [[2, 5, 7], [1, 4, 7]])
    a, b = np.ones((2, 5, 7), np.float32), np.ones((1, 4, 7), np.float32)
    np.testing.assert_array_equal(compiled(a, b)[0], np.full((2, 5, 4), 7, np.float32))
    assert "Einsum" in kernels(compiled)


def test_no_elements() -> None:
    """Sums of nothing are 0."""
    compiled = model("qd,dk->qk", [[None, None], [None, None]])
    got = compiled(np.ones((2, 0), np.float32), np.ones((0, 3), np.float32))[0]
    np.testing.assert_array_equal(got, np.zeros((2, 3), np.float32))


def test_attention_by_einsum_is_one_step() -> None:
    builder = Builder("attention")
    q, k, v = (builder.parameter(name, "f32", [None, 8, None, 16]) for name in "qkv")
    (scores,) = builder.add("Einsum", 7, q, k, equation="bhqd,bhkd->bhqk")
    (scaled,) = builder.add("Multiply", 1, scores, builder.constant(np.float32(0.25)))
    (weights,) = builder.add("SoftMax", 8, scaled, axis=-1)
    builder.result(builder.add("Einsum", 7, weights, v, equation="bhqk,bhkd->bhqd")[0], "y")
    compiled = uncork.compile_model(builder.model(), threads=1)
    generator = np.random.default_rng(3)
    given = [generator.standard_normal((2, 8, 12, 16)).astype(np.float32) for _ in range(3)]
    scores_of = np.einsum("bhqd,bhkd->bhqk", given[0], given[1]) * 0.25
    exact = np.exp(scores_of - scores_of.max(-1, keepdims=True))
    wanted = np.einsum("bhqk,bhkd->bhqd", exact / exact.sum(-1, keepdims=True), given[2])
    np.testing.assert_allclose(compiled(*given)[0], wanted, rtol=1e-4, atol=1e-5)
    assert kernels(compiled) == ["FusedAttention"]


@pytest.mark.parametrize("is_open", [False, True])
def test_projections_of_heads_are_products_with_their_biases(is_open: bool) -> None:
    """Attention as Keras writes it: weights with an axis of heads, biases of each head."""
    generator = np.random.default_rng(3)

    def numbers(*shape: int) -> np.ndarray:
        return (generator.standard_normal(shape) / 4).astype(np.float32)

    b, width, heads, size = Builder("heads"), 32, 2, 16
    x = b.parameter("x", "f32", [None, None, width] if is_open else [2, 9, width])
    projected = []
    for _ in range(3):
        (y,) = b.add(
            "Einsum", 7, x, b.constant(numbers(width, heads, size)), equation="abc,cde->abde"
        )
        projected += b.add("Add", 1, y, b.constant(numbers(heads, size)))
    query, key, value = projected
    (query,) = b.add("Multiply", 1, query, b.constant(np.float32(0.25)))
    (scores,) = b.add("Einsum", 7, key, query, equation="aecd,abcd->acbe")
    (weights,) = b.add("SoftMax", 8, scores, axis=-1)
    (y,) = b.add("Einsum", 7, weights, value, equation="acbe,aecd->abcd")
    (y,) = b.add("Einsum", 7, y, b.constant(numbers(heads, size, width)), equation="abcd,cde->abe")
    (y,) = b.add("Add", 1, y, b.constant(numbers(width)))
    b.result(b.add("Add", 1, y, x)[0], "y")
    compiled = uncork.compile_model(b.model(), threads=1)
    slow = uncork.compile_model(b.model(), backend="reference")
    data = numbers(2, 9, width)
    np.testing.assert_allclose(compiled(data)[0], slow(data)[0], rtol=0, atol=1e-5)
    steps = [name for name in kernels(compiled) if name != "View"]
    assert steps == ["FusedLinear"] * 3 + ["FusedAttention", "FusedLinear"]


@pytest.mark.parametrize("is_open", [False, True])
@pytest.mark.parametrize(
    ("equation", "shape"),
    [
        ("abc,cd->abd", (7, 5)),
        ("abc,dc->abd", (5, 7)),
        ("abc,cde->abde", (7, 2, 5)),
        ("abc,dec->abde", (2, 5, 7)),
        ("abc,dce->abde", (2, 7, 5)),  # the constant is put in order
        ("abc,bcd->ad", (4, 7, 5)),
        ("abc,c->ab", (7,)),
        ("abc,acd->abd", (3, 7, 5)),  # a matrix for each index
        ("abc,bcd->abd", (4, 7, 5)),  # data would have to be moved
        ("abc,bd->acd", (4, 5)),
        ("abc,cd->dab", (7, 5)),
    ],
)
def test_products_by_constants(equation: str, shape: tuple[int, ...], is_open: bool) -> None:
    generator = np.random.default_rng(4)
    matrix = generator.standard_normal(shape).astype(np.float32)
    data = generator.standard_normal((3, 4, 7)).astype(np.float32)
    builder = Builder("constants")
    x = builder.parameter("x", "f32", [None, None, None] if is_open else [3, 4, 7])
    (y,) = builder.add("Einsum", 7, x, builder.constant(matrix), equation=equation)
    builder.result(y, "y")
    result = uncork.compile_model(builder.model(), threads=1)(data)[0]
    expected = np.einsum(equation, data.astype(np.float64), matrix.astype(np.float64))
    np.testing.assert_allclose(result, expected, rtol=0, atol=1e-5)
