"""Attention that models spell with products and a softmax, and what moves its tensors: one step,
which gives what the layers give.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("llvmlite")

import uncork
from uncork.ir.model import Model, Source

Array = np.ndarray


def numbers(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed + sum(shape)).standard_normal(shape).astype(np.float32)


def constant(builder: uncork.Builder, *values: int) -> Source:
    return builder.constant(np.array(values, np.int64))


def kernels(model: Model, *inputs: Array) -> list[str]:
    """The kernels of the plan after a call, whose results are those of the references."""
    compiled, reference = (
        uncork.compile_model(model, threads=1),
        uncork.compile_model(model, backend="reference"),
    )
    expected, results = reference(*inputs), compiled(*inputs)
    for position in range(len(expected)):
        np.testing.assert_allclose(results[position], expected[position], rtol=2e-4, atol=2e-5)
    return [step.kernel for step in compiled.plan.steps if step.kernel != "view"]


def attends(found: list[str]) -> bool:
    """It is a kernel of attention, and none that makes scores, or weights of them."""
    return any("attention" in name for name in found) and not any(
        word in name for name in found for word in ("softmax", "linear")
    )


def spelled(
    builder: uncork.Builder,
    query: Source,
    key: Source,
    value: Source,
    *,
    transposed: bool = True,
    scaled: Callable[[Source], Source] = lambda scores: scores,
    masked: Callable[[Source], Source] = lambda scores: scores,
    axis: int = -1,
) -> tuple[Source, Source]:
    """The result and the weights."""
    (scores,) = builder.add("MatMul", 1, query, key, transpose_b=transposed)
    (weights,) = builder.add("SoftMax", 8, masked(scaled(scores)), axis=axis)
    return builder.add("MatMul", 1, weights, value)[0], weights


def parameters(builder: uncork.Builder, *shapes: list[int | None]) -> list[Source]:
    return [builder.parameter(f"x{i}", "f32", shape) for i, shape in enumerate(shapes)]


QUERY, KEYS = [2, 3, 7, 16], [2, 3, 20, 16]
INPUTS = [numbers(*QUERY), numbers(*KEYS, seed=1), numbers(*KEYS, seed=2)]


@pytest.mark.parametrize("scale", ["", "multiply", "divide", "number first"])
@pytest.mark.parametrize("mask", [None, [7, 20], [2, 1, 1, 20], [1, 3, 7, 1], [20]])
@pytest.mark.parametrize("mask_first", [False, True])
def test_products_and_a_softmax(scale: str, mask: list[int] | None, mask_first: bool) -> None:
    builder = uncork.Builder()
    query, key, value = parameters(builder, QUERY, KEYS, KEYS)
    more = [] if mask is None else [numbers(*mask, seed=3)]
    given = builder.parameter("mask", "f32", mask) if mask is not None else None

    def scaled(scores: Source) -> Source:
        number = builder.constant(np.float32(4.0 if scale == "divide" else 0.3))
        if not scale:
            return scores
        operands = (number, scores) if scale == "number first" else (scores, number)
        return builder.add("Divide" if scale == "divide" else "Multiply", 1, *operands)[0]

    def masked(scores: Source) -> Source:
        if given is None:
            return scores
        return builder.add("Add", 1, *((given, scores) if mask_first else (scores, given)))[0]

    builder.result(spelled(builder, query, key, value, scaled=scaled, masked=masked)[0], "y")
    assert attends(kernels(builder.model(), *INPUTS, *more))


@pytest.mark.parametrize("rank", [0, 1, 4, 5])
@pytest.mark.parametrize("operation", ["Multiply", "Divide"])
def test_a_factor_of_any_rank_that_stretches_nothing(rank: int, operation: str) -> None:
    builder = uncork.Builder()
    query, key, value = parameters(builder, QUERY, KEYS, KEYS)
    factor = builder.constant(np.full([1] * rank, 4, np.float32))

    def scaled(scores: Source) -> Source:
        return builder.add(operation, 1, scores, factor)[0]

    builder.result(spelled(builder, query, key, value, scaled=scaled)[0], "y")
    assert attends(kernels(builder.model(), *INPUTS)) == (rank < 5)


@pytest.mark.parametrize("by", ["transpose_b", "transpose", "as it lies"])
def test_keys_that_are_transposed(by: str) -> None:
    builder = uncork.Builder()
    query, key, value = parameters(
        builder, QUERY, [2, 3, 16, 20] if by == "as it lies" else KEYS, KEYS
    )
    arrays = [*INPUTS]
    if by == "as it lies":
        arrays[1] = np.ascontiguousarray(arrays[1].swapaxes(-1, -2))
    if by == "transpose":
        (key,) = builder.add("Transpose", 1, key, constant(builder, 0, 1, 3, 2))
    builder.result(spelled(builder, query, key, value, transposed=by == "transpose_b")[0], "y")
    found = kernels(builder.model(), *arrays)
    assert attends(found)
    assert len(found) == 1


@pytest.mark.parametrize("operation", [False, True])
def test_heads_beside_each_other(operation: bool) -> None:
    """Nothing is moved: neither what comes in nor what goes out."""
    builder = uncork.Builder()
    flat = parameters(builder, [2, None, 48], [2, None, 48], [2, None, 48])
    heads = []
    for source in flat:
        (split,) = builder.add(
            "Reshape", 1, source, constant(builder, 0, 0, 3, 16), special_zero=True
        )
        heads += builder.add("Transpose", 1, split, constant(builder, 0, 2, 1, 3))
    if operation:
        (sums,) = builder.add("ScaledDotProductAttention", 13, *heads, causal=False)
    else:
        sums, _ = spelled(builder, *heads)
    (together,) = builder.add("Transpose", 1, sums, constant(builder, 0, 2, 1, 3))
    builder.result(
        builder.add("Reshape", 1, together, constant(builder, 0, 0, 48), special_zero=True)[0], "y"
    )
    found = kernels(
        builder.model(), numbers(2, 9, 48), numbers(2, 30, 48), numbers(2, 30, 48, seed=1)
    )
    assert attends(found)
    assert len(found) == 1


@pytest.mark.parametrize("how", ["Broadcast", "Tile"])
@pytest.mark.parametrize("put_in", ["Unsqueeze", "Reshape"])
@pytest.mark.parametrize("targets", [1, 9])
def test_repeated_keys_and_values(how: str, put_in: str, targets: int) -> None:
    builder = uncork.Builder()
    query, key, value = parameters(builder, [2, 6, None, 16], [2, 3, 20, 16], [2, 3, 20, 16])
    wide = []
    for source in (key, value):
        if put_in == "Unsqueeze":
            (one,) = builder.add("Unsqueeze", 1, source, constant(builder, 2))
        else:
            (one,) = builder.add(
                "Reshape", 1, source, constant(builder, 2, 3, 1, 20, 16), special_zero=False
            )
        if how == "Broadcast":
            (many,) = builder.add(
                "Broadcast", 3, one, constant(builder, 2, 3, 2, 20, 16), mode="bidirectional"
            )
        else:
            (many,) = builder.add("Tile", 1, one, constant(builder, 1, 1, 2, 1, 1))
        wide += builder.add("Reshape", 1, many, constant(builder, 2, 6, 20, 16), special_zero=False)
    builder.result(spelled(builder, query, *wide)[0], "y")
    found = kernels(builder.model(), numbers(2, 6, targets, 16), INPUTS[1], INPUTS[2])
    assert attends(found)
    assert len(found) == 1


def windows(
    heads: int,
    bias: list[int] | None,
    mask: list[int] | None,
    *,
    open_sizes: bool = False,
    rows: int = 6,
    pictures: int = 3,
    number: int = 4,
    times: int = 1,
) -> Model:
    """Attention within windows of 6 places, in heads beside each other: a bias is added for the
    places, and a mask, so many times, to the scores of windows, of which each picture has 4.
    """
    builder = uncork.Builder("windows")
    batches = None if open_sizes else pictures * number
    (whole,) = parameters(builder, [batches, rows, 3, heads, 16])
    (turned,) = builder.add("Transpose", 1, whole, constant(builder, 2, 0, 3, 1, 4))
    zero = builder.constant(np.int64(0))
    query, key, value = (
        builder.add("Gather", 8, turned, builder.constant(np.int64(i)), zero)[0] for i in range(3)
    )

    def masked(scores: Source) -> Source:
        if bias is not None:
            (scores,) = builder.add("Add", 1, scores, builder.constant(numbers(*bias, seed=7)))
        seen = constant(builder, -1, number, heads, rows, rows)
        (scores,) = builder.add("Reshape", 1, scores, seen, special_zero=False)
        if mask is not None:
            for seed in range(8, 8 + times):
                values = np.where(numbers(*mask, seed=seed) > 0, 0, -10).astype(np.float32)
                (scores,) = builder.add("Add", 1, scores, builder.constant(values))
        back = constant(builder, -1, heads, rows, rows)
        return builder.add("Reshape", 1, scores, back, special_zero=False)[0]

    result, _ = spelled(builder, query, key, value, masked=masked)
    (beside,) = builder.add("Transpose", 1, result, constant(builder, 0, 2, 1, 3))
    builder.result(beside, "y")
    return builder.model()


@pytest.mark.parametrize("open_sizes", [False, True])
@pytest.mark.parametrize(
    ("heads", "bias", "mask"),
    [
        (3, [1, 3, 6, 6], [1, 4, 1, 6, 6]),
        (1, [1, 6, 6], [4, 1, 6, 6]),
        (2, None, [1, 4, 2, 6, 6]),
        (4, [6, 6], [1, 1, 1, 6, 6]),
        (3, [1, 3, 1, 6], [4, 1, 1, 6]),
    ],
)
@pytest.mark.parametrize("times", [1, 2])
def test_masks_for_each_window(
    heads: int, bias: list[int] | None, mask: list[int], open_sizes: bool, times: int
) -> None:
    """Swin adds one mask; Swin2SR adds two, one behind the other."""
    model = windows(heads, bias, mask, open_sizes=open_sizes, times=times)
    found = kernels(model, numbers(12, 6, 3, heads, 16))
    assert attends(found)
    assert len(found) == 1, "masks are added when the model is planned"


def test_windows_of_several_numbers_of_pictures_and_threads() -> None:
    """One plan for all, by one thread and by several; many rows, and so few that another kernel
    takes them.
    """
    for rows in (6, 3, 50):
        model = windows(3, [3, rows, rows], [1, 4, 1, rows, rows], open_sizes=True, rows=rows)
        reference = uncork.compile_model(model, backend="reference")
        for threads in (1, 3):
            compiled = uncork.compile_model(model, threads=threads)
            for pictures in (1, 2, 5):
                data = numbers(4 * pictures, rows, 3, 3, 16)
                (expected,), (result,) = reference(data), compiled(data)
                np.testing.assert_allclose(result, expected, rtol=2e-4, atol=2e-5)


def test_the_mask_of_a_window_by_hand() -> None:
    """Two windows of a picture, of which the second sees its first place alone: its results are the
    values of that place.
    """
    data = numbers(4, 6, 3, 1, 16)
    builder = uncork.Builder()
    (whole,) = parameters(builder, [None, 6, 3, 1, 16])
    (turned,) = builder.add("Transpose", 1, whole, constant(builder, 2, 0, 3, 1, 4))
    zero = builder.constant(np.int64(0))
    parts = [
        builder.add("Gather", 8, turned, builder.constant(np.int64(i)), zero)[0] for i in range(3)
    ]
    mask = np.zeros((1, 2, 1, 6, 6), np.float32)
    mask[0, 1, :, :, 1:] = -np.inf

    def masked(scores: Source) -> Source:
        seen, back = constant(builder, -1, 2, 1, 6, 6), constant(builder, -1, 1, 6, 6)
        (apart,) = builder.add("Reshape", 1, scores, seen, special_zero=False)
        (added,) = builder.add("Add", 1, builder.constant(mask), apart)
        return builder.add("Reshape", 1, added, back, special_zero=False)[0]

    builder.result(spelled(builder, *parts, masked=masked)[0], "y")
    model = builder.model()
    assert attends(kernels(model, data))
    (result,) = uncork.compile_model(model, threads=1)(data)
    for window in (1, 3):
        value = data[window, :1, 2, 0]
        np.testing.assert_allclose(result[window, 0], np.repeat(value, 6, 0), rtol=1e-6)


def test_several_masks() -> None:
    """Two are added: one for the heads, one for the keys of each batch."""
    builder = uncork.Builder()
    query, key, value, shown = parameters(builder, QUERY, KEYS, KEYS, [2, 1, 1, 20])

    def masked(scores: Source) -> Source:
        for more in (builder.constant(numbers(3, 7, 20)), shown):
            (scores,) = builder.add("Add", 1, scores, more)
        return scores

    builder.result(spelled(builder, query, key, value, masked=masked)[0], "y")
    found = kernels(builder.model(), *INPUTS, numbers(2, 1, 1, 20))
    assert attends(found)


@pytest.mark.parametrize("why", ["no way back", "two ways to see windows"])
def test_masks_through_views_that_are_something_else(why: str) -> None:
    """They stay as they were written, and right."""
    builder = uncork.Builder()
    query, key, value = parameters(builder, *[[12, 3, 6, 16]] * 3)
    arrays = [numbers(12, 3, 6, 16, seed=i) for i in range(3)]

    def through(scores: Source, seen: list[int], mask: list[int], back: list[int]) -> Source:
        shape, again = constant(builder, *seen), constant(builder, *back)
        (apart,) = builder.add("Reshape", 1, scores, shape, special_zero=False)
        (added,) = builder.add("Add", 1, apart, builder.constant(numbers(*mask)))
        return builder.add("Reshape", 1, added, again, special_zero=False)[0]

    def masked(scores: Source) -> Source:
        own = [12, 3, 6, 6]
        if why == "two ways to see windows":
            scores = through(scores, [4, 3, 3, 6, 6], [1, 3, 1, 6, 6], own)
        if why == "no way back":
            return through(scores, [12, 3, 2, 3, 6], [2, 1, 6], own)
        return through(scores, [3, 4, 3, 6, 6], [1, 4, 1, 6, 6], own)

    builder.result(spelled(builder, query, key, value, masked=masked)[0], "y")
    assert not any("attention" in name for name in kernels(builder.model(), *arrays))


def test_parts_of_one_tensor() -> None:
    """Queries, keys and values of one product, as vision transformers have them."""
    builder = uncork.Builder()
    (whole,) = parameters(builder, [2, 11, 3, 4, 16])
    (turned,) = builder.add("Transpose", 1, whole, constant(builder, 2, 0, 3, 1, 4))
    zero = builder.constant(np.int64(0))
    parts = [
        builder.add("Gather", 8, turned, builder.constant(np.int64(i)), zero)[0] for i in (0, 1, -1)
    ]
    builder.result(spelled(builder, *parts)[0], "y")
    found = kernels(builder.model(), numbers(2, 11, 3, 4, 16))
    assert attends(found)
    assert len(found) == 1


@pytest.mark.parametrize(
    "why", ["weights", "axis", "mask", "divisor", "axis of the mask", "scores"]
)
def test_what_is_something_else(why: str) -> None:
    """It stays as it was written, and right."""
    builder = uncork.Builder()
    query, key, value = parameters(builder, [1, 3, 20, 16], [1, 3, 20, 16], [1, 3, 20, 16])
    arrays = [numbers(1, 3, 20, 16, seed=i) for i in range(3)]
    wide = builder.constant(numbers(2, 3, 20, 20))
    (double,) = builder.add("Add", 1, value, value)
    changes: dict[str, dict[str, object]] = {
        "weights": {},
        "axis": {"axis": 2},
        "mask": {"masked": lambda scores: builder.add("Add", 1, scores, wide)[0]},
        "divisor": {
            "scaled": lambda scores: builder.add(
                "Divide", 1, builder.constant(np.float32(9)), scores
            )[0]
        },
        "axis of the mask": {"masked": lambda scores: builder.add("Add", 1, scores, scores)[0]},
        "scores": {
            "scaled": lambda scores: builder.add(
                "Multiply", 1, scores, builder.constant(numbers(20))
            )[0]
        },
    }
    result, weights = spelled(builder, query, key, double, **changes[why])
    builder.result(result, "y")
    if why == "weights":
        builder.result(weights, "weights")
    assert not any("attention" in name for name in kernels(builder.model(), *arrays))


@st.composite
def spellings(draw: st.DrawFn) -> tuple[Model, list[Array]]:
    """A model whose heads are moved in some way, with sizes that are open or not."""
    sizes = {
        "batch": draw(st.integers(1, 3)),
        "rows": draw(st.sampled_from([1, 3, 5, 50])),
        "keys": draw(st.sampled_from([1, 4, 17, 70])),
    }
    heads, size, depth = (
        draw(st.integers(1, 3)),
        draw(st.sampled_from([1, 4, 16, 21])),
        draw(st.sampled_from([1, 8, 19])),
    )
    builder = uncork.Builder()
    seen: list[Source] = []
    arrays: list[Array] = []
    for name, rows, width in (
        ("query", "rows", size),
        ("key", "keys", size),
        ("value", "keys", depth),
    ):
        order = draw(
            st.sampled_from([(0, 1, 2, 3), (0, 2, 1, 3), (0, 2, 3, 1), (1, 0, 2, 3), (2, 0, 1, 3)])
        )
        made = [sizes["batch"], heads, sizes[rows], width]
        open_too = [draw(st.booleans()), False, draw(st.booleans()), False]
        back = np.argsort(order)
        shape = [made[back_] for back_ in (order.index(axis) for axis in range(4))]
        is_open = [open_too[order.index(axis)] for axis in range(4)]
        source = builder.parameter(
            name, "f32", [None if o else s for s, o in zip(shape, is_open, strict=True)]
        )
        if order != (0, 1, 2, 3):
            (source,) = builder.add("Transpose", 1, source, constant(builder, *order))
        seen.append(source)
        arrays.append(numbers(*shape, seed=int(back[0]) + len(arrays)))
    result, _ = spelled(builder, *seen)
    if draw(st.booleans()):
        (result,) = builder.add(
            "Transpose", 1, result, constant(builder, *draw(st.permutations(range(4))))
        )
    builder.result(result, "y")
    return builder.model(), arrays


@settings(deadline=None, max_examples=40)
@given(spellings())
def test_any_spelling(case: tuple[Model, list[Array]]) -> None:
    model, arrays = case
    kernels(model, *arrays)


# ---- masks that select


def hidden(
    masks: list[list[int]],
    least: float = -np.inf,
    all_of_a_row: bool = False,
    hides: tuple[int, ...] = (),
) -> tuple[Model, list[Array]]:
    """Scores where all masks hold, or where they do not if they are some of these, which hide, and
    a number elsewhere; with the inputs.
    """
    builder = uncork.Builder()
    query, key, value = parameters(builder, QUERY, KEYS, KEYS)
    random, arrays = np.random.default_rng(0), list(INPUTS)
    given = []
    for number, shape in enumerate(masks):
        given.append(builder.parameter(f"mask{number}", "boolean", shape))
        array = random.random(shape) < 0.7
        array[..., 0] = not all_of_a_row
        arrays.append(array)
    if all_of_a_row:
        arrays[-1][...] = False
    for mask in hides:
        arrays[len(INPUTS) + mask] = ~arrays[len(INPUTS) + mask]
    number = builder.constant(np.float32(least))

    def masked(scores: Source) -> Source:
        for i, mask in enumerate(given):
            both = (number, scores) if i in hides else (scores, number)
            (scores,) = builder.add("Select", 1, mask, *both)
        return scores

    builder.result(spelled(builder, query, key, value, masked=masked)[0])
    return builder.model(), arrays


@pytest.mark.parametrize(
    "masks", [[[7, 20]], [[2, 1, 1, 20], [7, 20]], [[1, 3, 7, 1], [2, 1, 7, 20]]]
)
@pytest.mark.parametrize("all_of_a_row", [False, True])
@pytest.mark.parametrize("hides", [(), (0,), (1,), (0, 1)])
@pytest.mark.parametrize("least", [-np.inf, np.finfo(np.float32).min, -1e4, 0.5])
def test_masks_that_select_scores(
    masks: list[list[int]], all_of_a_row: bool, hides: tuple[int, ...], least: float
) -> None:
    """Where a mask hides all of a row by -infinity, its probabilities are no numbers, with both; by
    a number, all are alike. A mask that hides is what torch's `masked_fill` has.
    """
    hides = tuple(mask for mask in hides if mask < len(masks))
    model, arrays = hidden(masks, least, all_of_a_row, hides)
    assert attends(kernels(model, *arrays))


def test_a_mask_that_hides_by_hand() -> None:
    """Queries of zeros fit all keys as well: of the values that a mask does not hide the means."""
    model, (_, keys, values, mask) = hidden([[7, 20]], hides=(0,))
    result = uncork.compile_model(model)(np.zeros(QUERY, np.float32), keys, values, mask)[0]
    expected = [[[head[~row].mean(0) for row in mask] for head in sentence] for sentence in values]
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


def test_a_row_that_is_hidden_by_a_number_is_the_mean() -> None:
    """By hand, by kernels for many queries and for few: all scores are alike there, and else only
    those that the mask shows count.
    """
    for targets in (2, 7):
        builder = uncork.Builder()
        rows = [1, 1, 20, 16]
        query, key, value = parameters(builder, [1, 1, targets, 16], rows, rows)
        mask = builder.parameter("mask", "boolean", [1, 1, 1, 20])
        (whole,) = builder.add("Broadcast", 3, mask, constant(builder, 1, 1, targets, 20))
        least = builder.constant(np.finfo(np.float32).min)

        def masked(
            scores: Source,
            built: uncork.Builder = builder,
            given: Sequence[Source] = (whole, least),
        ) -> Source:
            return built.add("Select", 1, *given, scores)[0]

        builder.result(spelled(builder, query, key, value, masked=masked)[0])
        compiled = uncork.compile_model(builder.model(), threads=1)
        values = numbers(1, 1, 20, 16)
        zeros = np.zeros((1, 1, targets, 16), np.float32)
        for hides in (np.arange(20) >= 0, np.arange(20) > 3):
            result = compiled(zeros, np.ones_like(values), values, hides[None, None, None])[0]
            mean = (values if hides.all() else values[:, :, ~hides]).mean(2)
            np.testing.assert_allclose(result[0, 0], [mean[0, 0]] * targets, rtol=1e-5, atol=1e-6)
        kinds = [step.kernel for step in compiled.plan.steps]
        assert len(kinds) == 2, "what is not hidden, and attention: no mask is stretched"


@pytest.mark.parametrize("hides", [(), (0, 1, 2)])
def test_masks_that_select_otherwise_stay(hides: tuple[int, ...]) -> None:
    for model, arrays in (
        hidden([[7, 20]], least=np.inf, hides=hides[:1]),
        hidden([[7, 20]], least=np.nan, hides=hides[:1]),
        hidden([[7, 20]] * 4, hides=hides),
    ):
        assert not attends(kernels(model, *arrays))


@pytest.mark.parametrize("capped", [False, True])
@pytest.mark.parametrize("mask", [False, True])
@pytest.mark.parametrize("rows", [1, 7, None])
def test_several_factors_and_a_cap(capped: bool, mask: bool, rows: int | None) -> None:
    """As Gemma 2 has it: a number times the tanh of scaled scores, then the mask."""
    builder = uncork.Builder()
    query, key, value = parameters(builder, [2, 3, rows, 16], KEYS, KEYS)
    given = builder.parameter("mask", "f32", [2, 1, 1, 20]) if mask else None

    def scaled(scores: Source) -> Source:
        (scores,) = builder.add("Multiply", 1, scores, builder.constant(np.float32(2.5)))
        (scores,) = builder.add("Divide", 1, scores, builder.constant(np.float32([[4.0]])))
        if capped:
            (scores,) = builder.add("Tanh", 1, scores)
            (scores,) = builder.add("Multiply", 1, builder.constant(np.float32(3.0)), scores)
        return scores

    def masked(scores: Source) -> Source:
        return scores if given is None else builder.add("Add", 1, scores, given)[0]

    builder.result(spelled(builder, query, key, value, scaled=scaled, masked=masked)[0], "y")
    arrays = [numbers(2, 3, rows or 9, 16), *INPUTS[1:], *([numbers(2, 1, 1, 20)] if mask else [])]
    assert len(kernels(builder.model(), *arrays)) == 1


def test_a_cap_of_its_own_number_and_none() -> None:
    """The tanh alone is a cap of 1; two of them are more than attention has."""
    for count, fused in ((1, True), (2, False)):
        builder = uncork.Builder()
        query, key, value = parameters(builder, QUERY, KEYS, KEYS)

        def scaled(scores: Source, builder: uncork.Builder = builder, count: int = count) -> Source:
            for _ in range(count):
                (scores,) = builder.add("Tanh", 1, scores)
            return scores

        builder.result(spelled(builder, query, key, value, scaled=scaled)[0], "y")
        assert attends(kernels(builder.model(), *INPUTS)) == fused


@pytest.mark.parametrize(
    ("shape", "fused"),
    [([3, 1, 1], True), ([7, 1], True), ([2, 1, 7, 1], True), ([20], False), ([3, 1, 20], False)],
)
@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("first", [False, True])
def test_factors_of_heads_and_rows_scale_queries(
    shape: list[int], fused: bool, known: bool, first: bool
) -> None:
    """As Swin v2 has it: a factor for each head, and then numbers that are added."""
    builder = uncork.Builder()
    query, key, value = parameters(builder, QUERY, KEYS, KEYS)
    factor = numbers(*shape)
    given = builder.constant(factor) if known else builder.parameter("f", "f32", shape)

    def scaled(scores: Source) -> Source:
        return builder.add("Multiply", 1, *((given, scores) if first else (scores, given)))[0]

    def masked(scores: Source) -> Source:
        return builder.add("Add", 1, scores, builder.constant(numbers(3, 7, 20, seed=4)))[0]

    builder.result(spelled(builder, query, key, value, scaled=scaled, masked=masked)[0], "y")
    assert attends(kernels(builder.model(), *INPUTS, *([] if known else [factor]))) == fused


def test_factors_that_stretch_queries_stay_where_they_are() -> None:
    builder = uncork.Builder()
    query, key, value = parameters(builder, [7, 16], KEYS, KEYS)
    (rows,) = builder.add("Unsqueeze", 1, query, constant(builder, 0, 1))

    def scaled(scores: Source) -> Source:
        return builder.add("Multiply", 1, scores, builder.constant(numbers(3, 1, 1)))[0]

    builder.result(spelled(builder, rows, key, value, scaled=scaled)[0], "y")
    assert not attends(kernels(builder.model(), numbers(7, 16), *INPUTS[1:]))


@pytest.mark.parametrize("rows", [3, 20, None])
@pytest.mark.parametrize("mask", [False, True])
@pytest.mark.parametrize("moved", [False, True])
@pytest.mark.parametrize("values", ["", "transposed", "late"])
def test_queries_and_values_that_are_transposed(
    rows: int | None, mask: bool, moved: bool, values: str
) -> None:
    """As SqueezeBERT has them, whose channels come first; moved, they lie as attention reads.
    Values may come from layers behind the weights.
    """
    builder = uncork.Builder()
    shape = [2, rows, 3, 16] if moved else [2, 3, 16, rows]
    own = [2, 3, 16, 20] if values else KEYS
    query, key, value = parameters(builder, shape, [2, 3, 16, 20], own)
    turned = query
    if moved:
        (turned,) = builder.add("Transpose", 1, query, constant(builder, 0, 2, 3, 1))
    (scores,) = builder.add("MatMul", 1, turned, key, transpose_a=True)
    more = []
    if mask:
        more = [numbers(2, 1, 1, 20)]
        (scores,) = builder.add("Add", 1, scores, builder.parameter("mask", "f32", [2, 1, 1, 20]))
    (weights,) = builder.add("SoftMax", 8, scores, axis=-1)
    if values == "late":
        (value,) = builder.add("ReduceSum", 1, value, constant(builder, 0), keep_dims=True)
    builder.result(builder.add("MatMul", 1, weights, value, transpose_b=bool(values))[0], "y")
    given = [8 if size is None else size for size in shape]
    arrays = [numbers(*given), numbers(2, 3, 16, 20), numbers(*own, seed=2), *more]
    found = kernels(builder.model(), *arrays)
    assert attends(found)
    assert len(found) == 1 + (not moved) + bool(values) + (values == "late")


def test_a_bias_that_is_seen_in_the_sizes_of_the_scores() -> None:
    """As ProphetNet has it: sizes of scores are known without these."""
    builder = uncork.Builder()
    query, key, value = parameters(builder, [2, 3, None, 16], [2, 3, None, 16], [2, 3, None, 16])
    ones = builder.add("ReduceSum", 1, query, constant(builder, 3), keep_dims=False)[0]
    other = builder.add("ReduceSum", 1, key, constant(builder, 3), keep_dims=False)[0]
    outer = [
        builder.add("Unsqueeze", 1, source, constant(builder, axis))[0]
        for source, axis in ((ones, 3), (other, 2))
    ]
    (bias,) = builder.add("Multiply", 1, *outer)
    (rows,) = builder.add("Reshape", 1, bias, constant(builder, -1), special_zero=False)

    def masked(scores: Source) -> Source:
        (sizes,) = builder.add("ShapeOf", 3, scores, output_type="i64")
        (seen,) = builder.add("Reshape", 1, rows, sizes, special_zero=False)
        return builder.add("Add", 1, scores, seen)[0]

    builder.result(spelled(builder, query, key, value, masked=masked)[0])
    for rows_, keys in ((7, 20), (1, 3)):
        arrays = [numbers(2, 3, size, 16, seed=size) / 4 for size in (rows_, keys, keys)]
        assert attends(kernels(builder.model(), *arrays))


@pytest.mark.parametrize("mask", [[2, 1, 7, 20], [2, 1, 1, 20], [1, 1, 7, 20], [2, 3, 7, 20]])
@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("behind", [False, True])
def test_heads_that_are_batches_but_where_masks_are_added(
    mask: list[int], own: bool, behind: bool
) -> None:
    """As BART and CLIP have them, whose mask is one for all heads of a sentence; and BLOOM, whose
    scores have numbers of their own added before, and whose softmax is of the heads apart.
    """
    builder = uncork.Builder()
    whole = [6, 7, 16], [6, 20, 16]
    query, key, value = parameters(builder, whole[0], whole[1], whole[1])
    given = builder.parameter("mask", "f32", mask)
    arrays = [numbers(6, 7, 16), numbers(6, 20, 16), numbers(6, 20, 16, seed=1), numbers(*mask)]
    (scores,) = builder.add("MatMul", 1, query, key, transpose_b=True)
    if own:
        arrays.append(numbers(6, 1, 20, seed=2))
        first = builder.parameter("own", "f32", [6, 1, 20])
        (scores,) = builder.add("Add", 1, first, scores)

    def shaped(source: Source, *sizes: int) -> Source:
        return builder.add("Reshape", 1, source, constant(builder, *sizes), special_zero=True)[0]

    (scores,) = builder.add("Add", 1, shaped(scores, -1, 3, 7, 20), given)
    if behind:
        (weights,) = builder.add("SoftMax", 8, scores, axis=-1)
        weights = shaped(weights, -1, 7, 20)
    else:
        (weights,) = builder.add("SoftMax", 8, shaped(scores, -1, 7, 20), axis=-1)
    builder.result(builder.add("MatMul", 1, weights, value)[0], "y")
    assert attends(kernels(builder.model(), *arrays))
