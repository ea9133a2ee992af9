"""Ids behind conversions to fewer bits, as converters from PyTorch write them: looked up as given,
as written, or refused.

Every model runs with every backend; the expected rows are those of the table by Python's own
indexing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import uncork
from uncork.errors import InputError
from uncork.ir.bodies import GraphBody
from uncork.ir.model import Model, Source
from uncork.ops._body import BodyInput, BodyMap, BodyOutput, JoinedOutput, SlicedInput, Slicing

TABLE = np.arange(15, dtype=np.float32).reshape(5, 3) + 1
ZEROS = [0.0, 0.0, 0.0]
#: Their low 32 bits are 1, 1, and those of 10**12 a negative number.
FAR = [2**32 + 1, 1 - 2**32, 10**12]


@pytest.fixture(params=("reference", "cpu"))
def backend(request: pytest.FixtureRequest) -> Any:
    return request.param


def rows(*ids: int) -> list[list[float]]:
    return [TABLE[i].tolist() for i in ids]


def narrowed(builder: uncork.Builder, source: Source, target: str = "i32", **more: Any) -> Source:
    return builder.add("Convert", 1, source, destination_type=target, **more)[0]


def bag_model() -> Model:
    """`ids` and `offsets` i64[?], each through a Convert to i32, into a bag; the ids as i32 are a
    result, too.
    """
    builder = uncork.Builder("bag")
    ids, offsets = (builder.parameter(name, "i64", [None]) for name in ("ids", "offsets"))
    cut = narrowed(builder, ids, name="cut")
    table = builder.constant(TABLE)
    (sums,) = builder.add(
        "EmbeddingBagOffsetsSum", 3, table, cut, narrowed(builder, offsets), name="bag"
    )
    builder.result(sums, "sums")
    return builder.model()


def gather_model(
    shape: Sequence[int | None] = (None,), between: Callable[..., Source] | None = None
) -> Model:
    """`ids` i64, through a Convert to i32 and what `between` adds after it, into Gather-8 of
    TABLE.
    """
    builder = uncork.Builder("gather")
    cut = narrowed(builder, builder.parameter("ids", "i64", shape), name="cut")
    ids = cut if between is None else between(builder, cut)
    (picked,) = builder.add(
        "Gather", 8, builder.constant(TABLE), ids, builder.constant(np.int64(0)), name="pick"
    )
    builder.result(picked, "rows")
    return builder.model()


# ---- what is read


@pytest.mark.parametrize("far", FAR)
def test_a_bag_names_the_id_that_was_given(backend: Any, far: int) -> None:
    compiled = uncork.compile_model(bag_model(), backend=backend)
    message = (
        r"^layer 'bag' \(EmbeddingBagOffsetsSum-3, id \d+\): input 'indices': "
        rf"indices\[2\] is {far}, expected 0 to 4$"
    )
    with pytest.raises(InputError, match=message):
        compiled([1, 2, far], [0])
    np.testing.assert_array_equal(compiled([1, 2], [0, 1])["sums"], rows(1, 2))


def test_offsets_are_looked_at_in_64_bits(backend: Any) -> None:
    compiled = uncork.compile_model(bag_model(), backend=backend)
    with pytest.raises(
        InputError,
        match=r"layer 'bag' .*offsets\[1\] is 4294967297, expected 0 to 2, the number of indices",
    ):
        compiled([1, 2], [0, 2**32 + 1])


@pytest.mark.parametrize("far", FAR)
def test_gather_gives_zeros_for_an_id_outside_in_64_bits(backend: Any, far: int) -> None:
    compiled = uncork.compile_model(gather_model(), backend=backend)
    np.testing.assert_array_equal(compiled([3, far, -1])["rows"], [*rows(3), ZEROS, *rows(4)])


def test_as_written_the_conversions_cut(backend: Any) -> None:
    bags = uncork.compile_model(bag_model(), backend=backend, ids="as-written")
    np.testing.assert_array_equal(bags([2**32 + 1, 2], [0, 2**32 + 1])["sums"], rows(1, 2))
    picked = uncork.compile_model(gather_model(), backend=backend, ids="as-written")
    np.testing.assert_array_equal(picked([2**32 + 1, 1 - 2**32])["rows"], rows(1, 1))


def test_an_option_that_there_is_not() -> None:
    with pytest.raises(
        uncork.ValidationError, match="ids: expected '64-bit' or 'as-written', got '32-bit'"
    ):
        uncork.compile_model(gather_model(), ids="32-bit")  # type: ignore[arg-type]


def test_load_takes_the_option(tmp_path: Path) -> None:
    uncork.write_model(gather_model(), tmp_path / "model.xml")
    np.testing.assert_array_equal(uncork.load(tmp_path / "model.xml")([2**32 + 1])[0], [ZEROS])
    np.testing.assert_array_equal(
        uncork.load(tmp_path / "model.xml", ids="as-written")([2**32 + 1])[0], rows(1)
    )


def test_segments(backend: Any) -> None:
    """Indices, segment ids and their number, of which only the last is i32 from the beginning."""
    builder = uncork.Builder("segments")
    ids, owners = (
        narrowed(builder, builder.parameter(name, "i64", [None])) for name in ("ids", "owners")
    )
    count = builder.parameter("count", "i32", [])
    (sums,) = builder.add(
        "EmbeddingSegmentsSum", 3, builder.constant(TABLE), ids, owners, count, name="segment"
    )
    builder.result(sums, "sums")
    compiled = uncork.compile_model(builder.model(), backend=backend)
    np.testing.assert_array_equal(compiled([3, 0], [0, 1], np.int32(2))["sums"], rows(3, 0))
    with pytest.raises(
        InputError, match=r"layer 'segment' .*indices\[1\] is 4294967297, expected 0 to 4"
    ):
        compiled([3, 2**32 + 1], [0, 1], np.int32(2))
    with pytest.raises(
        InputError, match=r"layer 'segment' .*segment_ids\[0\] is 4294967296, expected 0 to 1"
    ):
        compiled([3, 0], [2**32, 1], np.int32(2))


@pytest.mark.parametrize(
    ("type_name", "opset", "message"),
    [
        ("EmbeddingBagPackedSum", 3, r"indices\[0, 1\] is 4294967297"),
        ("EmbeddingBagPacked", 15, r"indices\[0, 1\] is 4294967297"),
    ],
)
def test_packed_bags(backend: Any, type_name: str, opset: int, message: str) -> None:
    builder = uncork.Builder("packed")
    ids = narrowed(builder, builder.parameter("ids", "i64", [None, 2]))
    builder.result(builder.add(type_name, opset, builder.constant(TABLE), ids)[0])
    with pytest.raises(InputError, match=message):
        uncork.compile_model(builder.model(), backend=backend)([[2, 2**32 + 1]])


def test_elements_and_tuples(backend: Any) -> None:
    builder = uncork.Builder("elements")
    ids = narrowed(builder, builder.parameter("ids", "i64", [None, 3]))
    table = builder.constant(TABLE)
    builder.result(builder.add("GatherElements", 6, table, ids, axis=0, name="elements")[0])
    with pytest.raises(InputError, match=r"layer 'elements' .*indices\[0, 2\] is 4294967297"):
        uncork.compile_model(builder.model(), backend=backend)([[0, 1, 2**32 + 1]])
    builder = uncork.Builder("tuples")
    ids = narrowed(builder, builder.parameter("ids", "i64", [None, 1]))
    builder.result(builder.add("GatherND", 8, builder.constant(TABLE), ids, name="tuples")[0])
    with pytest.raises(InputError, match=r"layer 'tuples' .*indices\[1, 0\] is 4294967297"):
        uncork.compile_model(builder.model(), backend=backend)([[0], [2**32 + 1]])


def test_lengths_of_sequences(backend: Any) -> None:
    builder = uncork.Builder("gru")
    x, lengths = builder.parameter("x", "f32", [2, 3, 1]), builder.parameter("lengths", "i64", [2])
    zeros = [
        builder.constant(np.zeros(shape, np.float32))
        for shape in ((2, 1, 1), (1, 3, 1), (1, 3, 1), (1, 3))
    ]
    layer = builder.add(
        "GRUSequence",
        5,
        x,
        zeros[0],
        narrowed(builder, lengths),
        *zeros[1:],
        hidden_size=1,
        name="gru",
    )
    builder.result(layer[1])
    compiled = uncork.compile_model(builder.model(), backend=backend)
    with pytest.raises(InputError, match=r"layer 'gru' .*sequence_lengths\[1\] is 4294967297"):
        compiled(np.ones((2, 3, 1), np.float32), [3, 2**32 + 1])


# ---- what lies between


MOVES: dict[str, tuple[list[int], Callable[[uncork.Builder, Source], Source]]] = {
    "Reshape": (
        [2, 2],
        lambda b, s: b.add("Reshape", 1, s, b.constant(np.array([-1])), special_zero=False)[0],
    ),
    "Unsqueeze and Squeeze": (
        [4],
        lambda b, s: b.add(
            "Squeeze",
            1,
            b.add("Unsqueeze", 1, s, b.constant(np.array([0])))[0],
            b.constant(np.array([0])),
        )[0],
    ),
    "Transpose": ([4, 1], lambda b, s: b.add("Transpose", 1, s, b.constant(np.array([1, 0])))[0]),
    "Concat with a constant": (
        [4],
        lambda b, s: b.add("Concat", 1, s, b.constant(np.array([0, 1], np.int32)), axis=0)[0],
    ),
    "the second half": (
        [2, 4],
        lambda b, s: b.add("Split", 1, s, b.constant(np.int64(0)), num_splits=2)[1],
    ),
    "to i64 again": ([4], lambda b, s: narrowed(b, s, "i64")),
    "a smaller type": ([4], lambda b, s: narrowed(b, narrowed(b, s, "i8"), "i16")),
    "ids picked by a constant": (
        [4],
        lambda b, s: b.add("Gather", 8, s, b.constant(np.array([0, 3])), b.constant(np.int64(0)))[
            0
        ],
    ),
    "ids or 0": (
        [4],
        lambda b, s: b.add(
            "Select", 1, b.constant(np.array([False, True, True, True])), s, b.constant(np.int32(0))
        )[0],
    ),
    "ConvertLike": (
        [4],
        lambda b, s: b.add("ConvertLike", 1, s, b.constant(np.zeros(1, np.int16)))[0],
    ),
}


@pytest.mark.parametrize("name", MOVES)
def test_moves_and_conversions_on_the_way(backend: Any, name: str) -> None:
    """The last id of each is far outside; what is read does not depend on the conversions, and the
    messages name the file's layers.
    """
    shape, between = MOVES[name]
    model = gather_model(shape, between)
    far = 2**32 + 1
    ids = np.array([2, 3, 0, far] * (int(np.prod(shape)) // 4)).reshape(shape)
    found = uncork.compile_model(model, backend=backend)(ids)["rows"]
    kept = {
        "Transpose": [2, 3, 0, far],
        "Concat with a constant": [2, 3, 0, far, 0, 1],
        "ids picked by a constant": [2, far],
    }
    wanted = [*{"ids or 0": [0, 3, 0, far]}.get(name, kept.get(name, [2, 3, 0, far]))]
    expected = [ZEROS if i == far else TABLE[i].tolist() for i in wanted]
    np.testing.assert_array_equal(found.reshape(-1, 3), expected)
    with pytest.raises(
        InputError, match=rf"layer 'pick' \(Gather-8, id \d+\): .* is {far}, expected -5 to 4"
    ):
        uncork.compile_model(model, backend=backend, strict=True)(ids)
    cut = uncork.compile_model(model, backend=backend, ids="as-written")(ids)["rows"].reshape(-1, 3)
    np.testing.assert_array_equal(cut, [TABLE[1 if i == far else i] for i in wanted])


def test_moved_on_the_way_the_message_names_the_layer_of_the_file(backend: Any) -> None:
    """A Reshape of uncut ids is still the Reshape of the file."""
    builder = uncork.Builder("reshaped")
    ids, shape = builder.parameter("ids", "i64", [None]), builder.parameter("shape", "i64", [2])
    (square,) = builder.add(
        "Reshape", 1, narrowed(builder, ids), shape, special_zero=False, name="square"
    )
    builder.result(
        builder.add("Gather", 8, builder.constant(TABLE), square, builder.constant(np.int64(0)))[0]
    )
    model = builder.model()
    number = next(node.id for node in model.nodes if node.name == "square")
    compiled = uncork.compile_model(model, backend=backend)
    np.testing.assert_array_equal(
        compiled([1, 2, 3, 2**32], [2, 2])[0], [rows(1, 2), [*rows(3), ZEROS]]
    )
    with pytest.raises(InputError, match=rf"layer 'square' \(Reshape-1, id {number}\)"):
        compiled([1, 2, 3], [2, 2])


def test_other_readers_of_the_converted_numbers_get_them_cut(backend: Any) -> None:
    builder = uncork.Builder("both")
    cut = narrowed(builder, builder.parameter("ids", "i64", [2]))
    (moved,) = builder.add(
        "Reshape", 1, cut, builder.constant(np.array([2, 1])), special_zero=False, name="moved"
    )
    (picked,) = builder.add(
        "Gather", 8, builder.constant(TABLE), moved, builder.constant(np.int64(0))
    )
    for source in (picked, moved, cut):
        builder.result(source)
    found, column, plain = uncork.compile_model(builder.model(), backend=backend)([2**32 + 1, 2])
    np.testing.assert_array_equal(found, [[ZEROS], rows(2)])
    np.testing.assert_array_equal(column, np.array([[1], [2]], np.int32), strict=True)
    np.testing.assert_array_equal(plain, np.array([1, 2], np.int32), strict=True)


def test_what_layers_compute_is_not_an_id_that_was_given(backend: Any) -> None:
    """A hash that counts on wrapping stays as its author wrote it."""
    builder = uncork.Builder("hash")
    ids = builder.parameter("ids", "i64", [2])
    (hashed,) = builder.add("Add", 1, ids, builder.constant(np.int64(2**32)))
    builder.result(
        builder.add(
            "Gather",
            8,
            builder.constant(TABLE),
            narrowed(builder, hashed),
            builder.constant(np.int64(0)),
        )[0]
    )
    np.testing.assert_array_equal(
        uncork.compile_model(builder.model(), backend=backend)([1, 2])[0], rows(1, 2)
    )
    with pytest.raises(
        InputError,
        match=r"layer 'Convert_\d+' .*data\[0\] is 4294967297, expected -2147483648 to 2147483647",
    ):
        uncork.compile_model(builder.model(), backend=backend, strict=True)([1, 2])


def test_unsigned_ids(backend: Any) -> None:
    """u64 ids reach Gather as they are, and a bag, which takes no u64, refuses what no i64 is."""
    builder = uncork.Builder("unsigned")
    ids = builder.parameter("ids", "u64", [None])
    cut = narrowed(builder, ids)
    table = builder.constant(TABLE)
    builder.result(builder.add("Gather", 8, table, cut, builder.constant(np.int64(0)))[0], "rows")
    compiled = uncork.compile_model(builder.model(), backend=backend)
    np.testing.assert_array_equal(
        compiled(np.array([1, 2**64 - 1, 2**32], np.uint64))["rows"], [*rows(1), ZEROS, ZEROS]
    )
    builder.result(
        builder.add(
            "EmbeddingBagOffsetsSum",
            3,
            table,
            cut,
            builder.constant(np.zeros(1, np.int32)),
            name="bag",
        )[0],
        "sums",
    )
    compiled = uncork.compile_model(builder.model(), backend=backend)
    np.testing.assert_array_equal(
        compiled(np.array([1, 0], np.uint64))["sums"], [TABLE[1] + TABLE[0]]
    )
    with pytest.raises(
        InputError, match=r"layer 'bag' .*indices\[1\] is 4294967296, expected 0 to 4"
    ):
        compiled(np.array([1, 2**32], np.uint64))
    with pytest.raises(
        InputError,
        match=r"data\[1\] is 18446744073709551615, expected -9223372036854775808 to "
        r"9223372036854775807",
    ):
        compiled(np.array([1, 2**64 - 1], np.uint64))


def test_ids_that_are_joined_from_inputs_of_two_types(backend: Any) -> None:
    builder = uncork.Builder("joined")
    long, short = (
        builder.parameter("long", "i64", [None]),
        builder.parameter("short", "i32", [None]),
    )
    (joined,) = builder.add("Concat", 1, narrowed(builder, long), short, axis=0)
    builder.result(
        builder.add("Gather", 8, builder.constant(TABLE), joined, builder.constant(np.int64(0)))[0]
    )
    compiled = uncork.compile_model(builder.model(), backend=backend)
    np.testing.assert_array_equal(
        compiled([3, 2**32], np.array([4], np.int32))[0], [*rows(3), ZEROS, *rows(4)]
    )


def test_ids_that_one_type_cannot_hold_stay_as_written(backend: Any) -> None:
    builder = uncork.Builder("joined")
    both = [narrowed(builder, builder.parameter(t, t, [1])) for t in ("i64", "u64")]
    (joined,) = builder.add("Concat", 1, *both, axis=0)
    builder.result(
        builder.add("Gather", 8, builder.constant(TABLE), joined, builder.constant(np.int64(0)))[0]
    )
    compiled = uncork.compile_model(builder.model(), backend=backend)
    np.testing.assert_array_equal(
        compiled(np.array([2**32 + 1]), np.array([2], np.uint64))[0], rows(1, 2)
    )


# ---- bodies and state


def if_model() -> Model:
    """If `flag`, the rows of `ids`, converted in the body, and row 3; else row 0."""
    bodies = {}
    for name in ("then_body", "else_body"):
        inner = uncork.Builder(name)
        ids = inner.parameter("ids", "i64", [None])
        (more,) = inner.add(
            "Concat", 1, narrowed(inner, ids), inner.constant(np.array([3], np.int32)), axis=0
        )
        numbers = more if name == "then_body" else inner.constant(np.array([0], np.int32))
        inner.result(
            inner.add(
                "Gather",
                8,
                inner.constant(TABLE),
                numbers,
                inner.constant(np.int64(0)),
                name="pick",
            )[0]
        )
        inputs = (BodyInput(1, 0),)
        bodies[name] = BodyMap(GraphBody(inner.model()), inputs, (BodyOutput(0, 0),))
    builder = uncork.Builder("if")
    flag, ids = builder.parameter("flag", "boolean", []), builder.parameter("ids", "i64", [None])
    builder.result(builder.add_with_bodies("If", 8, flag, ids, bodies=bodies)[0], "rows")
    return builder.model()


def test_bodies(backend: Any) -> None:
    compiled = uncork.compile_model(if_model(), backend=backend)
    np.testing.assert_array_equal(
        compiled(True, [2, 2**32 + 1])["rows"], [*rows(2), ZEROS, *rows(3)]
    )
    np.testing.assert_array_equal(compiled(False, [2, 2**32 + 1])["rows"], rows(0))
    with pytest.raises(
        InputError, match=r"layer 'pick' .*indices\[1\] is 4294967297, expected -5 to 4"
    ):
        uncork.compile_model(if_model(), backend=backend, strict=True)(True, [2, 2**32 + 1])
    cut = uncork.compile_model(if_model(), backend=backend, ids="as-written")
    np.testing.assert_array_equal(cut(True, [2, 2**32 + 1])["rows"], rows(2, 1, 3))


@pytest.mark.parametrize("carried", [False, True])
def test_bodies_that_are_repeated(backend: Any, carried: bool) -> None:
    """Ids that an iterator slices are the caller's; those that the iteration before has computed
    are not.
    """
    inner = uncork.Builder("body")
    ids = inner.parameter("ids", "i64", [1])
    inner.result(
        inner.add(
            "Gather", 8, inner.constant(TABLE), narrowed(inner, ids), inner.constant(np.int64(0))
        )[0]
    )
    inner.result(inner.add("Add", 1, ids, inner.constant(np.int64(2**32)))[0])
    turn = inner.parameter("turn", "f32", [1])
    inner.result(turn)
    given = BodyInput(0, 0) if carried else SlicedInput(0, 0, Slicing(0))
    back = ((1, 0),) if carried else ()
    outputs = (JoinedOutput(0, 0, Slicing(0)), JoinedOutput(1, 2, Slicing(0)))
    joined = BodyMap(
        GraphBody(inner.model()), (given, SlicedInput(1, 1, Slicing(0))), outputs, back
    )
    builder = uncork.Builder("iterator")
    sources = (
        builder.parameter("ids", "i64", [1 if carried else 2]),
        builder.parameter("turns", "f32", [2]),
    )
    builder.result(
        builder.add_with_bodies("TensorIterator", 1, *sources, bodies={"body": joined})[0]
    )
    compiled = uncork.compile_model(builder.model(), backend=backend)
    found = compiled([2] if carried else [2, 2**32 + 1], np.zeros(2, np.float32))[0]
    np.testing.assert_array_equal(found, rows(2, 2) if carried else [*rows(2), ZEROS])


def test_models_with_variables(backend: Any) -> None:
    builder = uncork.Builder("state")
    ids = builder.parameter("ids", "i64", [2])
    (picked,) = builder.add(
        "Gather", 8, builder.constant(TABLE), narrowed(builder, ids), builder.constant(np.int64(0))
    )
    (kept,) = builder.add(
        "ReadValue", 3, builder.constant(np.zeros((2, 3), np.float32)), variable_id="sum"
    )
    (total,) = builder.add("Add", 1, picked, kept)
    builder.add("Assign", 3, total, variable_id="sum")
    builder.result(total)
    compiled = uncork.compile_model(builder.model(), backend=backend)
    compiled([1, 2])
    np.testing.assert_array_equal(compiled([2, 2**32 + 1])[0], [TABLE[1] + TABLE[2], TABLE[2]])


def test_the_model_stays_as_it_was_read(tmp_path: Path) -> None:
    compiled = uncork.compile_model(bag_model())
    assert [node.type_name for node in compiled.model.nodes] == [
        node.type_name for node in bag_model().nodes
    ]


# ---- strict conversions


@pytest.mark.parametrize(
    ("source", "target", "good", "bad", "bounds"),
    [
        ("i64", "i32", [2**31 - 1, -(2**31)], 2**31, "-2147483648 to 2147483647"),
        ("i64", "u32", [0, 2**32 - 1], -1, "0 to 4294967295"),
        ("i32", "u64", [0, 5], -1, "0 to 18446744073709551615"),
        ("u64", "i64", [0, 2**63 - 1], 2**63, "-9223372036854775808 to 9223372036854775807"),
        ("u64", "i32", [0, 7], 2**64 - 1, "-2147483648 to 2147483647"),
        ("i64", "u8", [0, 255], 256, "0 to 255"),
        ("u8", "i8", [0, 127], 128, "-128 to 127"),
        ("i16", "u16", [0, 1], -3, "0 to 65535"),
        ("i64", "u4", [0, 15], 16, "0 to 15"),
        ("i32", "u1", [0, 1], 2, "0 to 1"),
    ],
)
@pytest.mark.parametrize("count", [1, 3, 40])
def test_strict_refuses_integers_that_a_conversion_would_change(
    backend: Any, source: str, target: str, good: list[int], bad: int, bounds: str, count: int
) -> None:
    builder = uncork.Builder("convert")
    builder.result(narrowed(builder, builder.parameter("x", source, [None]), target, name="cut"))
    strict = uncork.compile_model(builder.model(), backend=backend, strict=True)
    dtype = strict.inputs[0].element_type.dtype
    numbers = np.array((good * count)[:count], dtype)
    assert strict(numbers)[0].tolist() == numbers.tolist()
    for place in {0, count // 2, count - 1}:
        spoiled = numbers.copy()
        spoiled[place] = bad
        message = (
            rf"^layer 'cut' \(Convert-1, id 1\): input 'data': data\[{place}\] is {bad}, "
            rf"expected {bounds}, the numbers of {target}$"
        )
        with pytest.raises(InputError, match=message):
            strict(spoiled)
        uncork.compile_model(builder.model(), backend=backend)(spoiled)  # tolerated


@pytest.mark.parametrize("source", ["f32", "boolean"])
def test_strict_lets_other_conversions_be(backend: Any, source: str) -> None:
    builder = uncork.Builder("convert")
    builder.result(narrowed(builder, builder.parameter("x", source, [2]), "i8"))
    strict = uncork.compile_model(builder.model(), backend=backend, strict=True)
    given = np.array([1, 0], bool) if source == "boolean" else np.array([1.5, 300.0], np.float32)
    assert strict(given)[0].tolist() == ([1, 0] if source == "boolean" else [1, 44])


@pytest.mark.parametrize("count", [1, 5000])  # so many are not computed when the model is read
def test_strict_leaves_constants_of_the_model_alone(backend: Any, count: int) -> None:
    """Converters write the largest i64 for an open end, and cut it: that is no number of the
    call.
    """
    builder = uncork.Builder("constant")
    end = narrowed(builder, builder.constant(np.full(count, 2**63 - 1)))
    builder.result(builder.add("Add", 1, builder.parameter("x", "i32", [count]), end)[0])
    strict = uncork.compile_model(builder.model(), backend=backend, strict=True)
    assert strict(np.full(count, 3, np.int32))[0].tolist() == [2] * count


def test_strict_looks_at_the_values_of_variables(backend: Any) -> None:
    """They come from the call before, whatever the constant is that they begin with."""
    builder = uncork.Builder("state")
    (kept,) = builder.add("ReadValue", 3, builder.constant(np.int64([2])), variable_id="last")
    builder.result(narrowed(builder, kept, name="cut"))
    builder.add("Assign", 3, builder.parameter("next", "i64", [1]), variable_id="last")
    strict = uncork.compile_model(builder.model(), backend=backend, strict=True)
    assert strict([2**32 + 1])[0].tolist() == [2]
    with pytest.raises(InputError, match=r"layer 'cut' .*data\[0\] is 4294967297, expected"):
        strict([0])


def test_strict_in_an_expression(backend: Any) -> None:
    """Conversions among other element-wise layers, which run as one."""
    builder = uncork.Builder("expression")
    (doubled,) = builder.add(
        "Multiply", 1, builder.parameter("x", "i64", [None]), builder.constant(np.int64(2))
    )
    (result,) = builder.add(
        "Add", 1, narrowed(builder, doubled, name="cut"), builder.constant(np.int32(1))
    )
    builder.result(result)
    strict = uncork.compile_model(builder.model(), backend=backend, strict=True)
    assert strict([1, 2, 3])[0].tolist() == [3, 5, 7]
    with pytest.raises(
        InputError,
        match=r"layer 'cut' \(Convert-1, id \d+\): input 'data': data\[1\] is 4294967296, expected",
    ):
        strict([1, 2**31, 3])


def test_strict_promoted_types(backend: Any) -> None:
    builder = uncork.Builder("promote")
    tensor, scalar = builder.parameter("x", "i8", [2]), builder.parameter("y", "i64", [])
    options = {"promote_unsafe": True, "pytorch_scalar_promotion": True}
    builder.result(
        builder.add("ConvertPromoteTypes", 14, tensor, scalar, name="promote", **options)[1]
    )
    strict = uncork.compile_model(builder.model(), backend=backend, strict=True)
    x = np.zeros(2, np.int8)
    assert strict(x, np.int64(7))[0] == 7
    with pytest.raises(
        InputError,
        match=r"layer 'promote' .*: input 'data': data is 300, expected -128 to 127, the numbers "
        r"of i8",
    ):
        strict(x, np.int64(300))


@pytest.mark.parametrize("far", FAR)
def test_strict_as_written_names_the_conversion(backend: Any, far: int) -> None:
    strict = uncork.compile_model(bag_model(), backend=backend, strict=True, ids="as-written")
    np.testing.assert_array_equal(strict([1, 2], [0, 1])["sums"], rows(1, 2))
    with pytest.raises(
        InputError,
        match=rf"^layer 'cut' \(Convert-1, id \d+\): input 'data': data\[1\] is {far}, expected "
        r"-2147483648 to",
    ):
        strict([1, far], [0])


# ---- how it runs


def test_strict_conversions_have_kernels() -> None:
    pytest.importorskip("llvmlite")
    for source, target in (("i64", "i32"), ("u64", "i8"), ("i32", "u32")):
        builder = uncork.Builder("convert")
        builder.result(narrowed(builder, builder.parameter("x", source, [40]), target))
        (step,) = uncork.compile_model(builder.model(), strict=True).plan.steps
        assert step.kernel.startswith(f"convert_exactly_{target}_")
    builder = uncork.Builder("wider")  # nothing can be lost: nothing is looked at
    builder.result(narrowed(builder, builder.parameter("x", "i32", [40]), "i64"))
    (step,) = uncork.compile_model(builder.model(), strict=True).plan.steps
    assert step.kernel.startswith("convert_i64_")


@pytest.mark.parametrize("strict", [False, True])
def test_a_bag_with_conversions_is_one_step_for_any_number_of_ids(strict: bool) -> None:
    pytest.importorskip("llvmlite")
    compiled = uncork.compile_model(bag_model(), strict=strict)
    for count in range(2, 9):
        compiled([1] * count, [0, 1])
    plan = compiled.plan
    assert plan.made == 1
    kernel, *others = [step.kernel for step in plan.steps]
    assert not others
    assert kernel.partition(" in up to ")[0] == "bag_offsets_f32x3_i64" + (
        "_strict" if strict else ""
    )
