"""`F.embedding`, `F.embedding_bag` and `F.gru` take what PyTorch's take and give what they give."""

from __future__ import annotations

import inspect
import itertools
from typing import Any

import numpy as np
import pytest

import uncork
from uncork import functional as F

#: Row i is [i, 10 * i].
TABLE = np.array([[i, 10 * i] for i in range(5)], np.float32)


def test_embedding() -> None:
    np.testing.assert_array_equal(
        F.embedding([[1, 4], [0, 0]], TABLE), [[[1, 10], [4, 40]], [[0, 0], [0, 0]]]
    )
    np.testing.assert_array_equal(F.embedding(np.int32(3), TABLE, padding_idx=3), [3, 30])
    assert F.embedding([], TABLE).shape == (0, 2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: F.embedding([[1, 5]], TABLE),
            r"embedding: input\[0, 1\] is 5, expected 0 to 4, a row of 'weight'",
        ),
        (lambda: F.embedding([-1], TABLE), r"input\[0\] is -1, expected 0 to 4"),
        (lambda: F.embedding([1.5], TABLE), r"input: expected integers, got f64\[1\]"),
        (lambda: F.embedding([1], TABLE[0]), r"weight: expected a table \[E, d\], got f32\[2\]"),
        (lambda: F.embedding([1], TABLE, max_norm=1.0), "max_norm changes the rows of the table"),
        (
            lambda: F.embedding([1], TABLE, padding_idx=5),
            "padding_idx: expected a row of the 5, got 5",
        ),
        (lambda: F.embedding_bag([1, 2], TABLE), "offsets: expected where each bag begins"),
        (
            lambda: F.embedding_bag([[1, 2]], TABLE, [0]),
            "offsets are for an input of one dimension",
        ),
        (
            lambda: F.embedding_bag([1, 2], TABLE, [1]),
            r"offsets: expected 0 first, then never less than before and at most 2, got \[1\]",
        ),
        (lambda: F.embedding_bag([1, 2], TABLE, [0, 3]), "at most 2"),
        (lambda: F.embedding_bag([1, 2], TABLE, [0, 2, 1]), "never less than before"),
        (
            lambda: F.embedding_bag([1, 2], TABLE, [[0]]),
            r"offsets: expected one dimension, got i64\[1,1\]",
        ),
        (
            lambda: F.embedding_bag([1, 2], TABLE, [0], mode="max"),
            "expected 'sum' or 'mean', got 'max'; take the maximum",
        ),
        (
            lambda: F.embedding_bag([1, 2], TABLE, [0], per_sample_weights=np.float32([1, 1])),
            "per_sample_weights are for mode='sum'",
        ),
        (
            lambda: F.embedding_bag(
                [1, 2], TABLE, [0], mode="sum", per_sample_weights=np.float32([1])
            ),
            r"per_sample_weights: expected shape \[2\] as 'input' has, got \[1\]",
        ),
        (
            lambda: F.embedding_bag([1, 2], TABLE, [0, 3], include_last_offset=True),
            "expected a last one of at most 2",
        ),
        (
            lambda: F.embedding_bag([[[1]]], TABLE),
            r"input: expected ids \[B, k\], or \[N\] with offsets",
        ),
        (lambda: F.gru(TABLE, None, []), r"input: expected \[T, B, I\], got f32\[5,2\]"),
        (
            lambda: F.gru(TABLE[None], None, [TABLE]),
            r"params: expected 1 x 1 x 4 arrays \(layers, directions, arrays of each\), got 1",
        ),
        (
            lambda: F.gru(TABLE[None], None, [TABLE] * 4),
            r"params: expected three gates in the first dimension, got f32\[5,2\]",
        ),
        (
            lambda: F.gru(TABLE[None], TABLE, [TABLE] * 4),
            r"hx: expected shape \[1, 5, 2\], got \[5, 2\]",
        ),
        (
            lambda: F.gru(TABLE[None], None, [TABLE] * 4, dropout=0.5, train=True),
            "give train=False",
        ),
    ],
)
def test_refusals(call: Any, message: str) -> None:
    with pytest.raises(uncork.InputError, match=message):
        call()


def test_embedding_bag() -> None:
    np.testing.assert_array_equal(
        F.embedding_bag([1, 3, 4], TABLE, [0, 2, 2]), [[2, 20], [0, 0], [4, 40]]
    )
    np.testing.assert_array_equal(
        F.embedding_bag([[1, 3], [4, 4]], TABLE, mode="sum"), [[4, 40], [8, 80]]
    )
    weights = np.float32([1, 0.5, 2])
    np.testing.assert_array_equal(
        F.embedding_bag([1, 4, 3], TABLE, [0, 2], mode="sum", per_sample_weights=weights),
        [[3, 30], [6, 60]],
    )
    # Of [1, 3, 3, 4] with 3 as padding the mean is that of 1 and 4.
    np.testing.assert_array_equal(
        F.embedding_bag([[1, 3, 3, 4], [3, 3, 3, 3]], TABLE, padding_idx=3), [[2.5, 25], [0, 0]]
    )
    np.testing.assert_array_equal(
        F.embedding_bag([1, 3, 4], TABLE, [0, 1, 2], include_last_offset=True), [[1, 10], [3, 30]]
    )
    assert F.embedding_bag(np.zeros((3, 0), np.int64), TABLE).tolist() == [[0, 0]] * 3


def test_gru_by_hand() -> None:
    """One step from 0 with update gate 1/2: half of tanh of the input."""
    params = [np.float32([[0], [0], [1]]), np.zeros((3, 1), np.float32)]
    y, h = F.gru(np.float32([[[0.5]], [[0.0]]]), None, params, has_biases=False)
    first = np.tanh(0.5) / 2
    np.testing.assert_allclose(y.reshape(-1), [first, first / 2], rtol=1e-6)
    np.testing.assert_allclose(h, [[[first / 2]]], rtol=1e-6)


@pytest.mark.oracle
def test_signatures_are_those_of_torch() -> None:
    torch = pytest.importorskip("torch")
    for name in ("embedding", "embedding_bag"):
        ours, theirs = (
            inspect.signature(getattr(F, name)),
            inspect.signature(getattr(torch.nn.functional, name)),
        )
        assert [(p.name, p.default) for p in ours.parameters.values()] == [
            (p.name, p.default) for p in theirs.parameters.values()
        ]


@pytest.mark.oracle
@pytest.mark.parametrize(
    ("mode", "padding", "last", "weighted"),
    list(itertools.product(("sum", "mean"), (None, 3, -2), (False, True), (False, True))),
)
def test_bags_are_those_of_torch(
    mode: str, padding: int | None, last: bool, weighted: bool
) -> None:
    torch = pytest.importorskip("torch")
    if weighted and mode == "mean":
        pytest.skip("weights are for sums")
    torch.manual_seed(5)
    table = torch.randn(7, 3)
    for ids, offsets in (
        (torch.randint(0, 7, (9,)), torch.tensor([0, 0, 4, 4, 7, 9])),
        (torch.randint(0, 7, (4, 5)), None),
    ):
        options: dict[str, Any] = {"mode": mode, "padding_idx": padding}
        options |= {"per_sample_weights": torch.randn(ids.shape)} if weighted else {}
        options |= {"include_last_offset": last} if offsets is not None else {}
        expected = torch.nn.functional.embedding_bag(ids, table, offsets, **options).numpy()
        np.testing.assert_allclose(
            F.embedding_bag(ids, table, offsets, **options), expected, rtol=1e-5, atol=1e-6
        )


@pytest.mark.oracle
@pytest.mark.parametrize(
    ("layers", "both", "batch_first", "biases"),
    list(itertools.product((1, 2), (False, True), (False, True), (False, True))),
)
def test_gru_is_that_of_torch(layers: int, both: bool, batch_first: bool, biases: bool) -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(6)
    gru = torch.nn.GRU(4, 6, layers, bias=biases, batch_first=batch_first, bidirectional=both)
    x, h0 = torch.randn(3, 5, 4), torch.randn(layers * (1 + both), 3 if batch_first else 5, 6)
    options = (gru._flat_weights, biases, layers, 0.0, False, both, batch_first)
    for hx in (h0, None):
        expected = torch.gru(x, torch.zeros_like(h0) if hx is None else hx, *options)
        for ours, theirs in zip(F.gru(x, hx, *options), expected, strict=True):
            np.testing.assert_allclose(ours, theirs.detach().numpy(), atol=2e-6)
