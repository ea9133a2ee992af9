"""Functions on arrays, called again and again: compiled calls give what first calls give, and
refuse what they refuse.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from uncork import InputError
from uncork import functional as F
from uncork.compiler import plan_set
from uncork.compiler.native_call import NativeCall
from uncork.functional._call import Call
from uncork.functional._native import _MOST_PATIENCE, _Calls

F32 = np.float32


def floats(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(F32)


def ids(*values: int) -> Any:
    return np.array(values, np.int64)


TABLE = floats(7, 5)
#: Calls as (function, positional arguments, arguments by name).
CALLS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = {
    "bags": (F.embedding_bag_offsets_sum, (TABLE, ids(1, 2, 6), ids(0, 2)), {}),
    "a default": (F.embedding_bag_offsets_sum, (TABLE, ids(1, 2, 6), ids(0, 0), 3), {}),
    "a default array": (
        F.embedding_bag_offsets_sum,
        (TABLE, ids(1, 2, 6), ids(0, 0), np.array(3)),
        {},
    ),
    "weights": (
        F.embedding_bag_offsets_sum,
        (TABLE, ids(1, 2, 6), ids(0, 0)),
        {"per_sample_weights": floats(3)},
    ),
    "both": (F.embedding_bag_offsets_sum, (TABLE, ids(1, 2), ids(0, 0), 4, floats(2)), {}),
    "names": (
        F.embedding_bag_offsets_sum,
        (),
        {"offsets": ids(0, 2), "indices": ids(1, 2, 6), "table": TABLE},
    ),
    "32 bits": (F.embedding_bag_offsets_sum, (TABLE, np.int32([1, 2]), np.int32([0, 1])), {}),
    "mixed": (F.embedding_bag_offsets_sum, (TABLE, np.int32([1, 2]), ids(0, 1)), {}),
    "f16": (F.embedding_bag_offsets_sum, (TABLE.astype(np.float16), ids(1, 2), ids(0, 1)), {}),
    "mean": (F.embedding_bag_offsets, (TABLE, ids(1, 2, 6), ids(0, 2), None, None, "mean"), {}),
    "packed": (F.embedding_bag_packed_sum, (TABLE, np.array([[1, 2], [3, 3]])), {}),
    "segments": (F.embedding_segments_sum, (TABLE, ids(1, 2, 6), ids(0, 2, 2), 4), {}),
    "segments without order": (
        F.embedding_segments_sum,
        (TABLE, ids(1, 2, 6), ids(2, 0, 2), 4),
        {},
    ),
    "gather": (F.gather, (TABLE, ids(1, -1, 9), 0), {}),
    "gather along 1": (F.gather, (TABLE, np.array([[1], [-1]]), 1), {}),
    "gather by batch": (
        F.gather,
        (floats(2, 3, 4), np.array([[1, 0], [2, 2]]), 1),
        {"batch_dims": 1},
    ),
    "axis in an array": (F.gather, (TABLE, ids(1), np.array(1)), {}),
    "a list": (F.gather, (TABLE, [1, 2], 0), {}),
    "not in C order": (F.gather, (floats(4, 7).T, ids(1), 0), {}),
    "elements": (F.gather_elements, (TABLE, np.array([[1, 2, 0, 0, 6]]), 0), {}),
    "GRU": (
        F.gru_sequence,
        (
            floats(2, 3, 4),
            floats(2, 1, 5),
            ids(3, 1),
            floats(1, 15, 4),
            floats(1, 15, 5),
            floats(1, 15),
        ),
        {},
    ),
    "LSTM": (
        F.lstm_sequence,
        (
            floats(2, 3, 4),
            floats(2, 1, 5),
            floats(2, 1, 5),
            ids(3, 1),
            floats(1, 20, 4),
            floats(1, 20, 5),
            floats(1, 20),
        ),
        {},
    ),
}


def arrays_of(result: Any) -> list[Any]:
    return list(result) if isinstance(result, tuple) else [result]


@pytest.mark.parametrize("name", CALLS)
def test_calls_again_give_the_same(name: str) -> None:
    function, args, options = CALLS[name]
    first = arrays_of(function(*args, **options))
    for _ in range(4):
        again = arrays_of(function(*args, **options))
        for a, b in zip(first, again, strict=True):
            assert a.dtype == b.dtype and a.shape == b.shape and a is not b
            np.testing.assert_allclose(
                a.astype(np.float64), b.astype(np.float64), rtol=1e-5, atol=1e-6
            )


def test_new_contents_types_and_shapes_are_seen() -> None:
    table = np.arange(12, dtype=F32).reshape(6, 2)
    for count in (1, 2, 3, 2, 1):
        for dtype in (np.int64, np.int32):
            for value in range(6):
                got = F.gather(table, np.full(count, value, dtype), 0)
                assert got.tolist() == [[2 * value, 2 * value + 1]] * count
                got = F.gather(table.astype(np.float64), np.full(count, value, dtype), 0)
                assert (
                    got.dtype == np.float64 and got.tolist() == [[2 * value, 2 * value + 1]] * count
                )


def test_the_same_array_for_two_arguments() -> None:
    both = ids(0, 1)
    table = floats(3, 2)
    for _ in range(3):
        np.testing.assert_array_equal(F.embedding_bag_offsets_sum(table, both, both), table[:2])
    np.testing.assert_array_equal(
        F.embedding_bag_offsets_sum(table, ids(2, 2), ids(0, 1)), table[[2, 2]]
    )


def test_states_of_the_same_shape_are_not_mixed_up() -> None:
    x, h, c, w, r, b = (
        floats(1, 1, 2),
        floats(1, 1, 2),
        floats(2, 1, 1).reshape(1, 1, 2),
        floats(1, 8, 2),
        floats(1, 8, 2),
        floats(1, 8),
    )
    first = F.lstm_sequence(x, h, c, ids(1), w, r, b)
    for _ in range(3):
        again = F.lstm_sequence(x, lengths=ids(1), w=w, r=r, b=b, c0=c, h0=h)
        for one, two in zip(first, again, strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-5, atol=1e-6)


def test_attributes_that_follow_from_shapes_are_not_mixed_up() -> None:
    """The hidden size of a sequence is that of its arrays; weights change from call to call."""
    for _ in range(3):
        for hidden in (5, 40, 17):
            for seed in range(3):
                generator = np.random.default_rng(seed)
                x, h, w, r, b = (
                    generator.standard_normal(shape).astype(np.float32) / 4
                    for shape in [
                        (2, 6, 3),
                        (2, 1, hidden),
                        (1, 3 * hidden, 3),
                        (1, 3 * hidden, hidden),
                        (1, 3 * hidden),
                    ]
                )
                lengths = np.array([6, 4])
                y, last = F.gru_sequence(x, h, lengths, w, r, b, direction="forward")
                state = h[:, 0].astype(np.float64)
                for t in range(6):
                    gates, own = x[:, t] @ w[0].T + b[0], state @ r[0, : 2 * hidden].T
                    z, reset = np.split(
                        1 / (1 + np.exp(-(gates[:, : 2 * hidden] + own))), 2, axis=1
                    )
                    n = np.tanh(gates[:, 2 * hidden :] + (reset * state) @ r[0, 2 * hidden :].T)
                    state = np.where((t < lengths)[:, None], (1 - z) * n + z * state, state)
                np.testing.assert_allclose(last[:, 0], state, atol=1e-5)
                np.testing.assert_allclose(y[0, 0, 5], state[0], atol=1e-5)


def test_values_are_refused_as_by_the_first_call() -> None:
    table, offsets = floats(4, 3), ids(0, 1)
    for _ in range(4):
        F.embedding_bag_offsets_sum(table, ids(1, 2), offsets)
    with pytest.raises(InputError, match=r"indices.*\[1\].*4"):
        F.embedding_bag_offsets_sum(table, ids(1, 4), offsets)
    with pytest.raises(InputError, match=r"floats|integers"):
        F.embedding_bag_offsets_sum(table, floats(2), offsets)
    for _ in range(4):
        with pytest.raises(InputError, match="embedding_segments_sum"):
            F.embedding_segments_sum(table, ids(1, 2), ids(0, 5), 2)
    for _ in range(4):
        F.gather(table, ids(7, 1), 0)
    with pytest.raises(InputError, match="7"):
        F.gather(table, ids(7, 1), 0, strict=True)


def test_an_axis_that_is_no_integer_is_refused_every_time() -> None:
    for _ in range(3):
        F.gather(TABLE, ids(1), 1)
    with pytest.raises(InputError, match="axis"):
        F.gather(TABLE, ids(1), 1.0)


def test_threads_may_share_a_function() -> None:
    table, count = floats(1000, 64), 20_000
    wrong: list[int] = []

    def work(row: int) -> None:
        where, offsets = np.full(count, row), np.arange(0, count, 2)
        for _ in range(5):
            if not np.array_equal(
                F.embedding_bag_offsets_sum(table, where, offsets),
                np.broadcast_to(table[row] * 2, (count // 2, 64)),
            ):
                wrong.append(row)

    threads = [threading.Thread(target=work, args=(row,)) for row in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_help_shows_what_callers_see() -> None:
    import inspect

    signature = inspect.signature(F.gather)
    assert list(signature.parameters) == ["data", "indices", "axis", "batch_dims", "strict"]
    assert signature.return_annotation == "Array"
    assert F.gather.__doc__ and "axis" in F.gather.__doc__


class Holder:
    """An object that is seen as an array, as a tensor of another library is: what it holds may
    change.
    """

    def __init__(self, values: Any) -> None:
        self.values = values

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.values


def holders() -> list[tuple[str, Callable[[Any], Any]]]:
    """Ways to hold an array in an object that shares its memory."""
    try:
        import torch
    except ImportError:
        return [("object", Holder)]
    return [("object", Holder), ("tensor", torch.from_numpy)]


@pytest.mark.parametrize("which", [{0}, {1}, {0, 1, 2}])
@pytest.mark.parametrize(("name", "held"), holders())
def test_what_changes_in_place_is_read_by_every_call(
    name: str, held: Callable[[Any], Any], which: set[int]
) -> None:
    table, indices = np.arange(12, dtype=F32).reshape(6, 2), np.array([1, 4, 2, 0], np.int32)
    tensors = [
        held(array) if number in which else array
        for number, array in enumerate((table, indices, np.array([0, 2])))
    ]
    for call in range(6):
        indices[0] = call
        table[5] = call
        expected = [table[call] + table[4], table[2] + table[0]]
        np.testing.assert_array_equal(F.embedding_bag_offsets_sum(*tensors), expected)
        np.testing.assert_array_equal(
            F.embedding_bag_offsets_sum(tensors[0], tensors[1], offsets=tensors[2]), expected
        )


@pytest.mark.parametrize(("name", "held"), holders())
def test_weights_that_change_in_place(name: str, held: Callable[[Any], Any]) -> None:
    """As an optimizer changes them: a GRU whose weights are all 0 gives 0 from a state of 0."""
    weights = [floats(1, 15, 4), floats(1, 15, 5), floats(1, 15)]
    given = [floats(2, 3, 4), np.zeros((2, 1, 5), F32), ids(3, 1), *map(held, weights)]
    for _ in range(3):
        assert np.abs(F.gru_sequence(*given)[1]).min() > 0
    for array in weights:
        array[...] = 0
    assert not F.gru_sequence(*given)[1].any()


def test_a_number_that_an_object_tells_is_asked_every_time() -> None:
    class Number:
        number = 0

        def __index__(self) -> int:
            return self.number

    batches, table = Number(), np.arange(6).reshape(2, 3)
    for number, shape in ((0, (2, 2, 1)), (0, (2, 2, 1)), (0, (2, 2, 1)), (1, (2, 1))):
        batches.number = number
        assert F.gather(table, np.array([[0], [2]]), 1, batches).shape == shape


# ---- numbers that are inputs


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Grows with each plan that is made, or looked at before it is."""
    pytest.importorskip("llvmlite")
    made: list[bool] = []
    plan = plan_set.planned

    def counted(*arguments: Any) -> Any:
        made.append(True)
        return plan(*arguments)

    monkeypatch.setattr(plan_set, "planned", counted)
    return made


def sums(count: int, indices: Any, segments: Any, default: int | None = None) -> Any:
    """Segments of rows of the table, by hand."""
    wanted = np.zeros((count, 5), F32)
    for index, segment in zip(indices, segments, strict=True):
        wanted[segment] += TABLE[index]
    if default is not None:
        wanted[[n for n in range(count) if n not in segments]] = TABLE[default]
    return wanted


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("default", [None, 2])
def test_ever_new_numbers_of_segments(
    planned: list[bool], dtype: type[np.generic], named: bool, default: int | None
) -> None:
    """They need one plan, which the first call makes."""
    generator = np.random.default_rng(5)
    some = () if default is None else (default,)

    def agrees(count: int) -> None:
        size = int(generator.integers(1, 30))
        indices = generator.integers(0, 7, size).astype(dtype)
        segments = np.sort(generator.integers(0, count, size)).astype(dtype)
        if named:
            options = {"num_segments": count, **({"default_index": default} if some else {})}
            got = F.embedding_segments_sum(TABLE, indices, segments, **options)
        else:
            got = F.embedding_segments_sum(TABLE, indices, segments, count, *some)
        np.testing.assert_allclose(got, sums(count, indices, segments, default), rtol=1e-5)

    agrees(1001)
    planned.clear()
    for count in (1002, 1003, 3, 700, 1001, 5, 4, 2000, 1002, 1):
        agrees(count)
    assert not planned
    with pytest.raises(InputError, match=r"segment_ids\[1\] is 9, expected 0 to 8"):
        F.embedding_segments_sum(TABLE, *np.array([[1, 2], [0, 9]], dtype), 9, *some)
    with pytest.raises(InputError, match="'num_segments': expected 0 or more, got -4"):
        F.embedding_segments_sum(TABLE, *np.array([[1, 2], [0, 9]], dtype), -4, *some)
    planned.clear()
    for count in (9, 10):
        agrees(count)
    assert not planned


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("default", [None, 2])
def test_numbers_of_segments_that_stay(
    monkeypatch: pytest.MonkeyPatch, named: bool, default: int | None
) -> None:
    """An entry that knows them serves calls of any other sizes, and of these numbers only."""
    pytest.importorskip("llvmlite")
    settled: list[dict[int, Any]] = []
    embedded = NativeCall.embedded

    def watched(
        call: NativeCall, arguments: Any, positions: Any, known: Any = None, way: int = 0
    ) -> NativeCall:
        if known:
            settled.append(known)
        return embedded(call, arguments, positions, known, way)

    monkeypatch.setattr(NativeCall, "embedded", watched)
    generator = np.random.default_rng(7)
    some = {} if default is None else {"default_index": default}

    def agrees(count: Any, most: int = 30) -> None:
        size = int(generator.integers(1, most))
        indices = generator.integers(0, 7, size)
        segments = generator.integers(0, count, size)
        if named:
            got = F.embedding_segments_sum(TABLE, indices, segments, num_segments=count, **some)
        else:
            got = F.embedding_segments_sum(TABLE, indices, segments, count, *some.values())
        np.testing.assert_allclose(
            got, sums(int(count), indices, segments, default), rtol=1e-4, atol=1e-5
        )

    for count in (6, 1000, 6):
        for times in range(2 * _MOST_PATIENCE):
            agrees(count, 30 if times < 600 else 500)
        assert settled
        settled.clear()
    for count in (6, 1000, 6, np.int64(6), np.array(6), 7, 6, 6):
        agrees(count)
    for wrong in (True, 6.0, np.float32(6), None, "6"):
        with pytest.raises(InputError, match="'num_segments'"):
            F.embedding_segments_sum(TABLE, ids(1, 2), ids(0, 1), wrong, *some.values())
    with pytest.raises(InputError, match=r"segment_ids\[1\] is 6, expected 0 to 5"):
        F.embedding_segments_sum(TABLE, ids(1, 2), ids(0, 6), 6, *some.values())
    agrees(6)


@pytest.mark.parametrize(("name", "held"), holders())
def test_a_number_that_stays_beside_objects_that_hold_arrays(
    name: str, held: Callable[[Any], Any]
) -> None:
    """These are seen as arrays at each call; nothing is remembered of which argument they were."""
    table = np.arange(40).reshape(8, 5)
    for turn in range(3 * _MOST_PATIENCE):
        indices, segments = (np.arange(5) + turn) % 8, np.arange(5) % 3
        some = table if turn % 7 < 2 else held(table)
        got = F.embedding_segments_sum(some, indices, segments, 3)
        wanted = [
            sum(table[i] for i, s in zip(indices, segments, strict=True) if s == n)
            for n in range(3)
        ]
        np.testing.assert_array_equal(np.asarray(got), wanted)


def test_threads_that_share_a_number_that_stays() -> None:
    wanted = {count: sums(count, ids(1, 2, 6), ids(0, 2, 2)) for count in (4, 1234)}
    wrong: list[str] = []

    def work(count: int) -> None:
        for _ in range(400):
            got = F.embedding_segments_sum(TABLE, ids(1, 2, 6), ids(0, 2, 2), count)
            if not np.allclose(got, wanted[count]):
                wrong.append(f"{count}: {got}")

    threads = [threading.Thread(target=work, args=(count,)) for count in (4, 1234, 4, 1234)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("kind", [list, tuple])
@pytest.mark.parametrize("named", [False, True])
def test_ever_new_lists_of_ids(
    planned: list[bool], monkeypatch: pytest.MonkeyPatch, kind: type, named: bool
) -> None:
    """They are looked up as arrays are, by kernels of one plan, which the first call makes."""

    def agrees(*indices: int) -> None:
        segments = kind(range(len(indices)))
        arguments: dict[str, Any] = {
            "table": TABLE,
            "indices": kind(indices),
            "segment_ids": segments,
            "num_segments": len(indices) + 1,
        }
        got = (
            F.embedding_segments_sum(**arguments)
            if named
            else F.embedding_segments_sum(*arguments.values())
        )
        np.testing.assert_allclose(got, sums(len(indices) + 1, indices, segments), rtol=1e-6)
        np.testing.assert_array_equal(F.gather(TABLE, kind(indices), 0), TABLE[list(indices)])

    agrees(6, 2)
    planned.clear()
    with monkeypatch.context() as without_references:
        without_references.delattr(Call, "evaluate")
        for indices in ((1, 2), (2, 1), (3, 3, 3), (0,), (6, 5, 4, 3, 2, 1, 0)):
            agrees(*indices)
    assert not planned
    with pytest.raises(InputError, match=r"'indices': indices\[1\] is 7, expected 0 to 6"):
        F.embedding_segments_sum(TABLE, kind([1, 7]), kind([0, 1]), 2)
    with pytest.raises(InputError, match="'indices': expected an array, got"):
        F.gather(TABLE, kind([[1, 2], [3]]), 0)
    with pytest.raises(InputError, match="'indices': expected integers, got f64"):
        F.gather(TABLE, kind([1.0, 2.0]), 0)
    assert F.gather(TABLE, kind([]), 0).shape == (0, 5)


def test_a_number_in_an_array_has_a_kernel(planned: list[bool]) -> None:
    for count in (4, 9, 4, 100):
        indices, segments = np.int32([1, 2, 6]), np.int32([0, 2, 2])
        got = F.embedding_segments_sum(TABLE, indices, segments, np.array(count))
        np.testing.assert_allclose(got, sums(count, indices, segments), rtol=1e-6)
        if count == 9:
            planned.clear()
    assert not planned


def test_numbers_that_kernels_are_made_for_are_not_mixed_up() -> None:
    """An axis is such a number, and batch_dims is no input at all."""
    data = floats(3, 3, 4)
    at = np.array([[2, 0], [1, 1], [0, 2]])
    for _ in range(3):
        for axis in (0, 1, 2, 1, -1):
            wanted = np.take(data, at, axis)
            np.testing.assert_array_equal(F.gather(data, at, axis), wanted)
        for axis in (1, 2):
            wanted = np.stack(
                [np.take(one, row, axis - 1) for one, row in zip(data, at, strict=True)]
            )
            np.testing.assert_array_equal(F.gather(data, at, axis, 1), wanted)


def test_a_call_that_is_refused_first_leaves_others_their_kernel(planned: list[bool]) -> None:
    data = floats(11, 3)
    with pytest.raises(InputError, match="one value for each of 'indices', got"):
        F.embedding_segments_sum(data, ids(1, 2), ids(0), 1234)
    for count in (2, 3, 4):
        places = np.arange(count)
        got = F.embedding_segments_sum(data, places, places, 1234)
        np.testing.assert_array_equal(got[:count], data[:count])
        if count == 2:
            planned.clear()
    assert not planned


@pytest.mark.parametrize("axis", [1, np.array(1), np.array(-2, np.int32)])
def test_an_axis_in_an_array_is_a_number(planned: list[bool], axis: Any) -> None:
    """Ever new sizes need no plan."""
    for count in (2, 3, 4, 9, 30):
        data, at = floats(5, count + 3, 6), np.arange(count)
        np.testing.assert_array_equal(F.gather(data, at, axis), data[:, :count])
        if count == 3:
            planned.clear()
    assert not planned


def test_only_the_sizes_that_kernels_need_are_numbers(planned: list[bool]) -> None:
    """Rows of a table are long; how many of them a bag has, and what else is copied, is open."""
    for count in (2, 3, 4, 9, 30):
        indices = np.arange(7 * count).reshape(7, count) % 7
        wanted = TABLE[indices].sum(1)
        np.testing.assert_allclose(
            F.embedding_bag_packed_sum(TABLE, indices), wanted, rtol=1e-5, atol=1e-5
        )
        data, at = floats(5, 4, count), np.array([[1, 2]] * count)
        np.testing.assert_array_equal(F.gather_nd(data, at), data[at[:, 0], at[:, 1]])
        if count == 3:
            planned.clear()
    assert not planned


SETTINGS = {
    "axes of a sum": (lambda x, a: F.reduce_mean(x, a), [1], lambda x: x.mean(1)),
    "an order": (lambda x, a: F.transpose(x, a), [1, 0], lambda x: x.T),
    "axes of a norm": (
        lambda x, a: F.normalize_l2(x, a, eps=1e-12, eps_mode="add"),
        [1],
        lambda x: x / np.sqrt((x * x).sum(1, keepdims=True)),
    ),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_axes_in_an_array_have_a_kernel_from_their_second_call_on(
    planned: list[bool], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Whatever the sizes are; other axes have another plan."""
    call, axes, expected = SETTINGS[name]
    referred: list[str] = []
    evaluate = Call.evaluate

    def told(self: Call) -> Any:
        referred.append(self.function)
        return evaluate(self)

    monkeypatch.setattr(Call, "evaluate", told)
    for columns in (4, 3, 9, 5):
        x = floats(6, columns)
        np.testing.assert_allclose(call(x, np.array(axes)), expected(x), rtol=1e-5, atol=1e-6)
    assert len(referred) <= 1
    x = floats(5, 5)
    others = np.arange(x.ndim)[: len(axes)]  # which nobody has given
    assert not np.array_equal(call(x, others), expected(x))


def test_lists_as_attributes_have_a_kernel(
    planned: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A list may be another when it comes again."""
    monkeypatch.setattr(Call, "evaluate", None)
    settings: dict[str, Any] = {"pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1]}
    x, strides = floats(1, 2, 5, 7), [1, 1]
    for stride in (1, 2, 1):
        strides[:] = stride, 1
        got = F.convolution(x, np.ones((1, 2, 1, 1), F32), strides=strides, **settings)
        np.testing.assert_allclose(got[0, 0], x[0, :, ::stride].sum(0), rtol=1e-6, atol=1e-6)


def test_values_that_differ_at_every_call_have_no_plans(planned: list[bool]) -> None:
    """A plan for certain values is made when they come again."""
    x, axes = floats(4, 9), np.array([0, 1])
    for shift in range(12):
        expected = np.roll(x, (shift, 1), (0, 1))
        np.testing.assert_array_equal(F.roll(x, np.array([shift, 1]), axes), expected)
    assert len(planned) <= 3, "for any values"


def test_integers_that_i64_does_not_hold_are_no_settings() -> None:
    """They stay in their array, whose type a tuple of numbers would not have."""
    large = np.array([0, 1, 2**63 + 5], np.uint64)
    expected = [[1, 0], [0, 1], [0, 0]]
    for _ in range(3):
        np.testing.assert_array_equal(F.one_hot(large, 2, 1.0, 0.0, axis=-1), expected)


def test_calls_by_name_and_by_position_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once one of them was made, neither is looked at in Python; defaults may be said."""
    pytest.importorskip("llvmlite")
    table, where = floats(9, 3), ids(2, 8, -1)
    for _ in range(2 * _MOST_PATIENCE):
        F.gather(table, where, 0)
    expected = table[where]

    def refused(*_: Any) -> Any:
        raise AssertionError("a call that is known")

    monkeypatch.setattr(_Calls, "__call__", refused)
    for got in (
        F.gather(table, where, 0),
        F.gather(table, where, axis=0),
        F.gather(indices=where, axis=0, data=table, batch_dims=0, strict=False),
    ):
        np.testing.assert_array_equal(got, expected)
    with pytest.raises(AssertionError, match="known"):
        F.gather(table, where, 0, strict=True)
