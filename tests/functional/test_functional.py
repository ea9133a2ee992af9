"""The functions on plain arrays: what they take, what they give back, and errors in the words of
the caller.
"""

from __future__ import annotations

import doctest
from typing import Any

import numpy as np
import pytest

from uncork import InputError, UnsupportedError, functional
from uncork import functional as F
from uncork.kernels.runtime.target import Target

TABLE = np.array([[-0.2, -0.6], [-0.1, -0.4], [-1.9, -1.8], [-1.0, 1.5], [0.8, -0.7]], np.float32)
IDS = [0, 2, 3, 4]
HALVES = [0.5, 0.5, 0.5, 0.5]
PAGE = np.array([[-1.05, -1.2], [-0.2, -0.6], [-0.1, 0.4]], np.float32)
WITH_ZEROS = np.array([[-1.05, -1.2], [0, 0], [-0.1, 0.4]], np.float32)


def near(got: Any, expected: Any) -> None:
    expected = np.asarray(expected)
    assert isinstance(got, np.ndarray)
    assert got.dtype == expected.dtype
    np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-7)


def test_examples_in_the_docstring() -> None:
    assert doctest.testmod(functional).failed == 0


def test_every_function_is_public_and_documented() -> None:
    for name in functional.__all__:
        assert getattr(functional, name).__doc__, name


# ---- embedding bags


def test_bags_by_offsets() -> None:
    near(F.embedding_bag_offsets_sum(TABLE, IDS, [0, 2, 2], 0, HALVES), PAGE)
    near(
        F.embedding_bag_offsets_sum(
            TABLE, IDS, [0, 2, 2], default_index=0, per_sample_weights=HALVES
        ),
        PAGE,
    )
    near(F.embedding_bag_offsets_sum(TABLE, IDS, [0, 2, 2], per_sample_weights=HALVES), WITH_ZEROS)
    near(
        F.embedding_bag_offsets_sum(
            TABLE, IDS, [0, 2, 2], default_index=-1, per_sample_weights=HALVES
        ),
        WITH_ZEROS,
    )
    near(F.embedding_bag_offsets(TABLE, IDS, [0, 2, 2], 0, HALVES), PAGE)
    near(F.embedding_bag_offsets(TABLE, IDS, [0, 2, 2], reduction="mean"), WITH_ZEROS)


def test_bags_of_one_size() -> None:
    ids = [[0, 2], [1, 2], [3, 4]]
    near(
        F.embedding_bag_packed_sum(TABLE, ids),
        np.array([[-2.1, -2.4], [-2, -2.2], [-0.2, 0.8]], np.float32),
    )
    near(
        F.embedding_bag_packed_sum(TABLE, ids, [[0.5, 0.5]] * 3),
        np.array([[-1.05, -1.2], [-1, -1.1], [-0.1, 0.4]], np.float32),
    )
    near(
        F.embedding_bag_packed(TABLE, ids, reduction="mean"),
        np.array([[-1.05, -1.2], [-1, -1.1], [-0.1, 0.4]], np.float32),
    )
    near(F.embedding_bag_packed(TABLE, [[], []]), np.zeros((2, 2), np.float32))


def test_segments() -> None:
    near(F.embedding_segments_sum(TABLE, IDS, [0, 0, 2, 2], 3, 0, HALVES), PAGE)
    near(
        F.embedding_segments_sum(
            TABLE, IDS, [0, 0, 2, 2], num_segments=3, per_sample_weights=HALVES
        ),
        WITH_ZEROS,
    )
    near(
        F.embedding_segments_sum(TABLE, IDS, [2, 0, 2, 0], 3),
        np.array([[-1.1, -2.5], [0, 0], [-1.2, 0.9]], np.float32),
    )
    near(F.embedding_segments_sum(TABLE, [], [], 2), np.zeros((2, 2), np.float32))


def test_ids_of_any_integer_types_together() -> None:
    ids = np.array(IDS, np.uint8)
    near(
        F.embedding_bag_offsets_sum(
            TABLE, ids, np.array([0, 2, 2], np.uint64), np.int16(0), HALVES
        ),
        PAGE,
    )
    near(
        F.embedding_segments_sum(
            TABLE, ids, np.array([0, 0, 2, 2], np.int32), np.uint32(3), np.array(0), HALVES
        ),
        PAGE,
    )


@pytest.mark.parametrize(
    "dtype", ["f2", "f4", "f8", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", ">f4", ">i4"]
)
def test_the_result_has_the_type_of_the_table(dtype: str) -> None:
    table = np.arange(10).reshape(5, 2).astype(dtype)
    native = np.dtype(dtype).newbyteorder("=")
    near(F.embedding_bag_offsets_sum(table, [1, 2, 4], [0, 2]), np.array([[6, 8], [8, 9]], native))
    near(
        F.embedding_bag_offsets_sum(table, [1, 2, 4], [0, 2], per_sample_weights=[1, 2, 1]),
        np.array([[10, 13], [8, 9]], native),
    )


def test_lists_have_numpys_types() -> None:
    near(F.embedding_bag_offsets_sum([[0.1], [0.2]], [0, 1], [0]), np.array([[0.1 + 0.2]]))
    near(F.embedding_bag_offsets_sum([[1], [2]], [0, 1], [0]), np.array([[3]]))
    near(F.gather([1, 2, 3], [2, 0], 0), np.array([3, 1]))


def test_a_view_is_read_as_it_is_and_nothing_is_written() -> None:
    wide = np.arange(24, dtype=np.float32).reshape(4, 6)
    table, ids = wide[::2, 1::2], np.arange(8)[1:3][::-1] - 1
    before = wide.copy()
    wide.flags.writeable = False
    near(F.embedding_bag_offsets_sum(table, ids, [0]), np.array([[14, 18, 22]], np.float32))
    np.testing.assert_array_equal(wide, before)


def test_the_result_is_the_callers_own() -> None:
    table = TABLE.copy()
    for result in (
        F.embedding_bag_offsets_sum(table, [1], [0]),
        F.gather(table, [0, 1, 2, 3, 4], 0),
    ):
        result[:] = 7
        np.testing.assert_array_equal(table, TABLE)


def test_a_single_term_keeps_the_sign_of_its_zero() -> None:
    table = np.array([[-0.0, 0.0]], np.float32)
    for result in (
        F.embedding_bag_offsets_sum(table, [0], [0]),
        F.embedding_bag_packed_sum(table, [[0]]),
        F.embedding_segments_sum(table, [0], [0], 1),
        F.embedding_bag_offsets(table, [0], [0], reduction="mean"),
        F.embedding_bag_offsets_sum(table, [], [0], 0),
    ):
        assert np.signbit(result).tolist() == [[True, False]]
    assert np.signbit(F.embedding_bag_offsets_sum(table, [0, 0], [0, 2])).tolist() == [
        [True, False],
        [False, False],
    ]


def test_bfloat16_arrays_are_known_by_name() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    table = np.array([[256], [1]], ml_dtypes.bfloat16)
    result = F.embedding_bag_offsets_sum(
        table, [0, 1, 1], [0], per_sample_weights=np.ones(3, ml_dtypes.bfloat16)
    )
    assert result.dtype == table.dtype
    assert float(result[0, 0]) == 258
    assert (
        float(F.embedding_bag_offsets_sum(table, [0, 1], [0], per_sample_weights=[1, 2])[0, 0])
        == 258
    )
    codes = np.array([1, 2, 3], ml_dtypes.float8_e4m3fn)
    assert F.gather(codes, [2, 0], 0).tolist() == [3, 1]
    with pytest.raises(
        InputError, match="'per_sample_weights': expected bf16 as 'table' has, got f32"
    ):
        F.embedding_bag_offsets_sum(table, [0], [0], per_sample_weights=np.ones(1, np.float32))


# ---- gathering


def test_gathering() -> None:
    data = np.array([[1, 2, 3], [4, 5, 6]], np.int16)
    near(F.gather(data, [2, 0], 1), np.array([[3, 1], [6, 4]], np.int16))
    near(
        F.gather(data, [[2, -1], [0, 7]], axis=-1, batch_dims=1),
        np.array([[3, 3], [4, 0]], np.int16),
    )
    near(F.gather(data, -1, 0), np.array([4, 5, 6], np.int16))
    near(F.gather(data, np.array([2**63], np.uint64), 0), np.zeros((1, 3), np.int16))
    near(F.gather_elements(data, [[0, 1, -1]], 0), np.array([[1, 5, 6]], np.int16))
    near(F.gather_nd(data, [[0, 1], [1, -1]]), np.array([2, 6], np.int16))
    near(F.gather_nd(data, [[1], [0]], batch_dims=1), np.array([2, 4], np.int16))


def test_gathering_strings() -> None:
    result = F.gather(["a", "日本", "c"], [1, 9], 0)
    assert result.tolist() == ["日本", ""]
    assert result.dtype.kind == "U"


# ---- recurrent layers: with weights of 0 every gate is 1/2 and every new value 0


def test_gru() -> None:
    x, h0 = np.zeros((2, 2, 1), np.float32), np.full((2, 1, 1), 8, np.float32)
    w, r, b = (
        np.zeros((1, 3, 1), np.float32),
        np.zeros((1, 3, 1), np.float32),
        np.zeros((1, 3), np.float32),
    )
    y, h = F.gru_sequence(x, h0, [2, 1], w, r, b)
    near(y, np.array([[[[4], [2]]], [[[4], [0]]]], np.float32))
    near(h, np.array([[[2]], [[4]]], np.float32))
    b[0, 2] = 3  # the new value, once clipped to 1/2
    y, h = F.gru_sequence(
        x, h0, [2, 0], w, r, b, direction="reverse", activations=("relu", "relu"), clip=0.5
    )
    near(y, np.array([[[[0.5], [0.5]]], [[[0], [0]]]], np.float32))
    near(h, np.array([[[0.5]], [[0]]], np.float32))
    near(F.gru_cell(x[:, 0], h0[:, 0], w[0], r[0]), np.full((2, 1), 4, np.float32))
    wide = np.array([0, 0, 1, 2], np.float32)  # z = r = 1/2: n = relu(1/2 * 2 + 1) = 2
    near(
        F.gru_cell(
            x[:, 0], h0[:, 0], w[0], r[0], wide, ("sigmoid", "relu"), linear_before_reset=True
        ),
        np.full((2, 1), 5, np.float32),
    )


def test_precisions_are_those_of_load(monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = SEQUENCE
    with pytest.raises(
        InputError, match=r"^gru_sequence: precision: expected one of f32, bf16, .*, got 'f16'$"
    ):
        F.gru_sequence(*arguments, precision="f16")
    expected = F.gru_sequence(*arguments)
    older = Target.of("x86_64", "generic", "")
    monkeypatch.setattr("uncork.compiler.compile.kernel_target", lambda tiles, name: older)
    with pytest.raises(
        UnsupportedError, match=r"^gru_sequence: precision 'bf16' needs a CPU with AVX512-BF16"
    ):
        F.gru_sequence(*arguments, precision="bf16")
    # What is fastest here is f32.
    for one, two in zip(F.gru_sequence(*arguments, precision="fast"), expected, strict=True):
        near(one, two)


def test_lstm() -> None:
    x, state = np.zeros((1, 2, 1), np.float32), np.full((1, 1, 1), 8, np.float32)
    w, r, b = (
        np.zeros((1, 4, 1), np.float32),
        np.zeros((1, 4, 1), np.float32),
        np.zeros((1, 4), np.float32),
    )
    y, h, c = F.lstm_sequence(
        x, state, state, [2], w, r, b, activations=("sigmoid", "tanh", "relu")
    )
    near(y, np.array([[[[2], [1]]]], np.float32))
    near(h, np.array([[[1]]], np.float32))
    near(c, np.array([[[2]]], np.float32))
    h, c = F.lstm_cell(
        x[:, 0], state[0], state[0], w[0], r[0], activations=("sigmoid", "tanh", "relu")
    )
    near(h, np.array([[2]], np.float32))
    near(c, np.array([[4]], np.float32))


def test_rnn() -> None:
    x = np.array([[[1], [2]]], np.float64)
    y, h = F.rnn_sequence(x, [[[1]]], [2], [[[2]]], [[[3]]], [[1]], activations=("relu",))
    near(y, np.array([[[[6], [23]]]], np.float64))
    near(h, np.array([[[23]]], np.float64))
    near(F.rnn_cell([[1.0]], [[1]], [[2]], [[3]], [1], activations="relu"), np.array([[6.0]]))


# ---- refusals

SEQUENCE = [
    np.zeros((1, 2, 3), np.float32),
    np.zeros((1, 1, 4), np.float32),
    [2],
    np.zeros((1, 12, 3), np.float32),
]
SEQUENCE += [np.zeros((1, 12, 4), np.float32), np.zeros((1, 12), np.float32)]


def replaced(position: int, value: Any) -> list[Any]:
    return [*SEQUENCE[:position], value, *SEQUENCE[position + 1 :]]


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        (
            F.embedding_bag_offsets_sum,
            [TABLE, [0, 7], [0]],
            r"^embedding_bag_offsets_sum: input 'indices': indices\[1\] is 7, expected 0 to 4",
        ),
        (
            F.embedding_bag_offsets_sum,
            [TABLE, [2**32 + 1], [0]],
            r"indices\[0\] is 4294967297, expected 0 to 4",
        ),
        (
            F.embedding_bag_offsets_sum,
            [TABLE, [0.0], [0]],
            r"'indices': expected integers, got f64\[1\]; ids and counts are never rounded",
        ),
        (
            F.embedding_bag_offsets_sum,
            [TABLE, np.zeros(0), [0]],
            r"'indices': expected integers, got f64\[0\]",
        ),
        (
            F.embedding_bag_offsets_sum,
            [TABLE, [True], [0]],
            r"'indices': expected integers, got boolean\[1\]",
        ),
        (
            F.embedding_bag_offsets_sum,
            [TABLE, ["0"], [0]],
            r"'indices': expected integers, got string\[1\]",
        ),
        (
            F.embedding_bag_offsets_sum,
            [TABLE, [2**64], [0]],
            "'indices': expected integers, got integers of more than 64 bits",
        ),
        (
            F.embedding_bag_offsets_sum,
            [TABLE, np.array([2**63], np.uint64), [0]],
            "'indices': expected i64, got u64.* 9223372036854775808 at",
        ),
        (
            F.embedding_bag_offsets_sum,
            [TABLE, [[0], [0, 1]], [0]],
            "'indices': expected an array, got list",
        ),
        (
            F.embedding_bag_offsets_sum,
            [TABLE, [0], None],
            "^embedding_bag_offsets_sum: input 'offsets' is missing$",
        ),
        (
            F.embedding_bag_offsets_sum,
            [TABLE, [0], [0, 2]],
            r"'offsets': offsets\[1\] is 2, expected 0 to 1",
        ),
        (
            F.embedding_bag_offsets_sum,
            [TABLE, [0], [0, 1], 5],
            "'default_index': expected -1 .zeros. or 0 to 4, got 5: bag 1 is empty",
        ),
        (
            F.embedding_bag_offsets_sum,
            [TABLE, [0], [0, 1], 0.5],
            r"'default_index': expected integers, got f64\[\]",
        ),
        (
            F.embedding_bag_offsets_sum,
            [TABLE, [0], [0], None, np.ones(1)],
            "'per_sample_weights': expected f32 as 'table' has, got f64",
        ),
        (
            F.embedding_bag_offsets_sum,
            [TABLE.astype("i4"), [0], [0], None, [0.5]],
            r"'per_sample_weights': expected i32, got f64\[1\]",
        ),
        (
            F.embedding_bag_offsets_sum,
            [TABLE, [0], [0], None, [1, 2]],
            r"'per_sample_weights': expected shape \[1\], .* got \[2\]",
        ),
        (
            F.embedding_bag_offsets_sum,
            [TABLE > 0, [0], [0]],
            "'table': expected one of f64.* got boolean",
        ),
        (
            F.embedding_bag_offsets_sum,
            [np.float32(1), [0], [0]],
            "'table': expected rows in 1 to 8 dimensions",
        ),
        (
            F.embedding_bag_offsets_sum,
            [None, [0], [0]],
            "'table': expected an array of numbers or strings, got NoneType",
        ),
        (
            F.embedding_bag_offsets_sum,
            [TABLE.astype(complex), [0], [0]],
            "'table': expected an array of numbers or strings, got complex128",
        ),
        (F.embedding_bag_offsets_sum, [TABLE[:0], [0], [0]], "expected none: 'table' has no rows"),
        (
            F.embedding_bag_offsets,
            [TABLE, [0], [0], None, None, "max"],
            "attribute 'reduction': expected one of sum, mean, got 'max'$",
        ),
        (
            F.embedding_bag_offsets,
            [TABLE, [0], [0], None, [1.0], "mean"],
            "'per_sample_weights': a mean takes no weights",
        ),
        (
            F.embedding_bag_packed_sum,
            [TABLE, [0]],
            r"^embedding_bag_packed_sum: input 'indices': expected 2 dimensions, got shape \[1\]",
        ),
        (
            F.embedding_bag_packed,
            [TABLE, [[0, -1]]],
            r"^embedding_bag_packed: input 'indices': indices\[0, 1\] is -1",
        ),
        (
            F.embedding_segments_sum,
            [TABLE, [0], [3], 3],
            r"^embedding_segments_sum: input 'segment_ids': segment_ids\[0\] is 3",
        ),
        (
            F.embedding_segments_sum,
            [TABLE, [0], [0], -1],
            "'num_segments': expected 0 or more, got -1",
        ),
        (
            F.embedding_segments_sum,
            [TABLE, [0], [0], 3.0],
            r"'num_segments': expected integers, got f64\[\]",
        ),
        (
            F.embedding_segments_sum,
            [TABLE, [0], [0], [3]],
            r"'num_segments': expected a scalar, got shape \[1\]",
        ),
        (F.embedding_segments_sum, [TABLE, [0], [0], 2**42], "more than this machine's memory"),
        (
            F.embedding_segments_sum,
            [TABLE, [0], [0], 2**63 - 1],
            "'num_segments': 9223372036854775807 rows are more than an array can have",
        ),
        (F.gather, [TABLE, [0], 2], "^gather: axis 2 is outside -2..1 for rank 2$"),
        (F.gather, [TABLE, [0.5], 0], "'indices': expected integers, got f64"),
        (F.gather, [TABLE, [0], 0, 1.0], "'batch_dims': expected an integer, got 1.0"),
        (
            F.gather_elements,
            [TABLE, [[5, 0]], 0],
            r"^gather_elements: input 'indices': indices\[0, 0\] is 5",
        ),
        (F.gather_elements, [TABLE, [[0, 0]], None], "'axis': expected an integer, got None"),
        (F.gather_nd, [TABLE, [5]], "^gather_nd: input 'indices'"),
        (F.gru_sequence, replaced(1, None), "^gru_sequence: input 'h0' is missing$"),
        (
            F.gru_sequence,
            replaced(1, np.float32(0)),
            "'h0': expected a last dimension of the hidden size, at least 1, got shape ..",
        ),
        (
            F.gru_sequence,
            replaced(2, [3]),
            r"^gru_sequence: input 'lengths': lengths\[0\] is 3, expected 0 to 2",
        ),
        (F.gru_sequence, replaced(2, [1.0]), "'lengths': expected integers, got f64"),
        (F.gru_sequence, replaced(2, None), "'lengths' is missing"),
        (
            F.gru_sequence,
            replaced(3, np.zeros((1, 12, 2), np.float32)),
            "^gru_sequence: input 'w': expected .*input_size = 3",
        ),
        (
            F.gru_sequence,
            replaced(4, np.zeros((1, 12, 4))),
            "'r': expected f32 as 'x' has, got f64",
        ),
        (
            F.gru_sequence,
            [*SEQUENCE, "sideways"],
            "^gru_sequence: attribute 'direction': expected one of forward, reverse, bidirectional",
        ),
    ],
)
def test_refusals_name_the_argument(function: Any, arguments: list[Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        function(*arguments)


def test_an_unknown_activation_is_unsupported() -> None:
    with pytest.raises(
        UnsupportedError, match="gru_sequence: attribute 'activations': 'elu' is not supported"
    ):
        F.gru_sequence(*SEQUENCE, activations=("sigmoid", "elu"))


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        (
            F.embedding_bag_offsets_sum,
            [TABLE, [0, 1], [1]],
            r"'offsets': offsets\[0\] is 1, expected 0",
        ),
        (
            F.embedding_bag_offsets,
            [TABLE, [0, 1], [1]],
            r"'offsets': offsets\[0\] is 1, expected 0",
        ),
        (
            F.embedding_segments_sum,
            [TABLE, [0, 1], [1, 0], 2],
            r"'segment_ids': segment_ids\[1\] is 0, expected sorted ids",
        ),
        (F.gather, [TABLE, [0, 9], 0], r"'indices': indices\[1\] is 9, expected -5 to 4"),
    ],
)
def test_strict(function: Any, arguments: list[Any], message: str) -> None:
    function(*arguments)
    with pytest.raises(InputError, match=message):
        function(*arguments, strict=True)


def test_strict_takes_what_is_in_order() -> None:
    near(F.embedding_segments_sum(TABLE, IDS, [0, 0, 2, 2], 3, 0, HALVES, strict=True), PAGE)
    near(F.embedding_bag_offsets_sum(TABLE, IDS, [0, 2, 2], 0, HALVES, strict=True), PAGE)
    near(F.embedding_bag_offsets_sum(TABLE, [], [], strict=True), np.zeros((0, 2), np.float32))
    near(F.embedding_bag_packed_sum(TABLE, [[4]], strict=True), TABLE[4:])
