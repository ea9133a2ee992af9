"""Calling a compiled model: by which names, with which results, and to whom the arrays belong. With
every backend.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import uncork
from tests.ir._files import Net, edge, parameter, relu, result
from tests.ir._models import BUILT, INPUTS

BACKENDS = ("reference", "cpu")


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> Any:
    return request.param


def lookup(backend: Any, **more: Any) -> uncork.CompiledModel:
    """Rows of a constant table; the table itself, its first rows and the input are results too."""
    builder = uncork.Builder("lookup")
    table = builder.constant(np.arange(12, dtype=np.float32).reshape(4, 3), name="table")
    ids = builder.parameter("ids", "i64", [None])
    (rows,) = builder.add(
        "Gather",
        8,
        table,
        ids,
        builder.constant(np.int64(0)),
        name="gather",
        tensor_names=["rows", "embedding"],
    )
    builder.result(rows)
    builder.result(table, "whole")
    builder.result(ids, "same ids")
    builder.result(rows)
    (shaped,) = builder.add(
        "Reshape", 1, table, builder.constant(np.array([3, 4])), special_zero=False
    )
    builder.result(shaped, "shaped")
    return uncork.compile_model(builder.model(), backend=backend, **more)


IDS = np.array([2, 0])


def test_inputs_by_position_name_mapping_and_keyword(backend: Any) -> None:
    compiled = lookup(backend)
    for out in (
        compiled(IDS),
        compiled({"ids": IDS}),
        compiled(ids=IDS),
        compiled([2, 0]),
        compiled({"same ids": IDS}),
    ):
        assert out[0].tolist() == [[6, 7, 8], [0, 1, 2]]
    assert compiled(np.int32([2, 0]))["same ids"].dtype == np.int64


def test_outputs_by_every_name(backend: Any) -> None:
    out = lookup(backend)(IDS)
    for name in ("rows", "embedding"):
        assert out[name] is out[0]
    assert out["whole"] is out[1]
    with pytest.raises(KeyError, match="did you mean 'rows'"):
        out["row"]
    assert len(out) == 5
    assert len(set(out.keys())) == 5


def test_layer_names_serve_too(tmp_path: Path, backend: Any) -> None:
    layers = [
        parameter(0, name="in", names="tensor in"),
        relu(1, name="layer"),
        result(2, name="out"),
    ]
    compiled = uncork.load(
        Net(layers, [edge("0:0", "1:0"), edge("1:1", "2:0")]).save(tmp_path), backend=backend
    )
    x = np.array([-1, 1], np.float32)
    for given in ("in", "tensor in"):
        for got in ("layer", "out"):
            assert compiled({given: x})[got].tolist() == [0, 1]


def test_names_of_version_10(tmp_path: Path, backend: Any) -> None:
    layers = [parameter(0, name="in"), relu(1, name="layer"), result(2, name="out")]
    compiled = uncork.load(
        Net(layers, [edge("0:0", "1:0"), edge("1:1", "2:0")], version=10).save(tmp_path),
        backend=backend,
    )
    assert compiled.inputs[0].names == ("in",)
    assert compiled.outputs[0].names == ("layer", "out")


def test_results_are_the_callers_own(backend: Any) -> None:
    """Whatever is written into a result, or afterwards into an input, changes nothing else."""
    compiled = lookup(backend)
    given = IDS.copy()
    first = compiled(given)
    kept = [a.copy() for a in first]
    arrays = list(first)
    for number, a in enumerate(arrays):
        assert a.flags.writeable
        assert a.flags.owndata
        assert not np.shares_memory(a, given)
        for b in arrays[number + 1 :]:
            assert not np.shares_memory(a, b)
        a[...] = 99
    assert given.tolist() == IDS.tolist()
    for a, b in zip(compiled(given), kept, strict=True):
        np.testing.assert_array_equal(a, b)
    second = compiled(given)
    given[:] = 3
    for a, b in zip(second, kept, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_second_call_leaves_the_first_results(backend: Any) -> None:
    compiled = lookup(backend)
    first = compiled([1])
    compiled([3])
    assert first["rows"].tolist() == [[3, 4, 5]]


def test_constants_of_the_file_are_not_written_to(tmp_path: Path, backend: Any) -> None:
    path = tmp_path / "model.xml"
    uncork.write_model(lookup("reference").model, path)
    before = path.with_suffix(".bin").read_bytes()
    compiled = uncork.load(path, backend=backend)
    compiled(IDS)["whole"][...] = 7
    assert compiled(IDS)["whole"][0].tolist() == [0, 1, 2]
    assert path.with_suffix(".bin").read_bytes() == before


def test_a_constant_that_is_a_result_is_a_copy(backend: Any) -> None:
    """Also where a kernel leaves the whole call to the references, as that of sorted segments
    does.
    """
    builder = uncork.Builder("constant")
    ids, segments = (builder.parameter(name, "i64", [3]) for name in ("ids", "segments"))
    table = builder.constant(np.array([[0, 1], [2, 3], [4, 5]], np.float32))
    (sums,) = builder.add(
        "EmbeddingSegmentsSum", 3, table, ids, segments, builder.constant(np.array(3))
    )
    builder.result(table, "table")
    builder.result(sums, "sums")
    compiled = uncork.compile_model(builder.model(), backend=backend)
    for order in ([2, 1, 0], [0, 1, 2]) * 2:
        results = compiled(np.array([0, 1, 2]), np.array(order))
        assert results["sums"].tolist() == [[2 * n, 2 * n + 1] for n in order]
        assert results["table"].tolist() == [[0, 1], [2, 3], [4, 5]]
        results["table"][...] = 99


def test_inputs_may_be_read_only_and_are_not_changed(backend: Any) -> None:
    ids = IDS.copy()
    ids.flags.writeable = False
    out = lookup(backend)(ids)
    assert out["same ids"].flags.writeable
    assert out[0].tolist() == [[6, 7, 8], [0, 1, 2]]


def test_calls_from_several_threads(backend: Any) -> None:
    compiled = lookup(backend)
    wrong: list[object] = []

    def call(n: int) -> None:
        for _ in range(50):
            got = compiled([n] * (n + 1))["rows"]
            if got.tolist() != [[3 * n, 3 * n + 1, 3 * n + 2]] * (n + 1):
                wrong.append((n, got))

    threads = [threading.Thread(target=call, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_errors_of_a_call_name_the_layer_or_the_input(backend: Any) -> None:
    compiled = uncork.compile_model(BUILT["bags"](), backend=backend)
    with pytest.raises(
        uncork.InputError,
        match=r"^layer 'bags' \(EmbeddingBagOffsetsSum-3, id 3\): .*indices\[1\] is 10",
    ):
        compiled(np.array([1, 10]), np.array([0]))
    with pytest.raises(
        uncork.InputError, match=r"^input 'ids': expected shape \[\?\], got \[1, 1\]"
    ):
        compiled(np.array([[1]]), np.array([0]))
    with pytest.raises(uncork.InputError, match=r"^input 'offsets': expected i64, got f32"):
        compiled(np.array([1]), np.array([0], np.float32))
    with pytest.raises(
        uncork.InputError, match=r"^2 of 2 inputs missing: ids i64\[\?\], offsets i64\[\?\]$"
    ):
        compiled()
    # And it still works.
    assert compiled([1], [0])["sums"].shape == (1, 3)


def test_strict_makes_errors_of_tolerated_oddities(backend: Any) -> None:
    assert lookup(backend)([7])["rows"].tolist() == [[0, 0, 0]]
    with pytest.raises(
        uncork.InputError, match=r"layer 'gather' .*indices\[0\] is 7, expected -4 to 3"
    ):
        lookup(backend, strict=True)([7])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"backend": "gpu"}, "backend: expected 'cpu' or 'reference', got 'gpu'"),
        (
            {"precision": "f16"},
            "precision: expected 'f32', 'bf16', 'bf16x3' or 'fast', got 'f16'",
        ),
        ({"threads": 0}, "threads: expected a number of at least 1, got 0"),
        ({"threads": "all"}, "threads: expected a number of at least 1, got 'all'"),
        ({"loop_limit": -1}, "loop_limit: expected a number of at least 0, got -1"),
    ],
)
def test_options_that_do_not_exist(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(uncork.ValidationError, match=message):
        uncork.compile_model(BUILT["bags"](), **options)
    uncork.write_model(BUILT["bags"](), tmp_path / "model.xml")
    with pytest.raises(uncork.ValidationError) as caught:
        uncork.load(tmp_path / "model.xml", **options)
    assert str(caught.value).endswith(message)


def test_a_model_may_be_given_by_its_path(tmp_path: Path, backend: Any) -> None:
    path = tmp_path / "model.xml"
    uncork.write_model(BUILT["bags"](), path)
    for given in (path, str(path)):
        assert uncork.compile_model(given, backend=backend)([1], [0])[0].shape == (1, 3)


def test_state_belongs_to_the_compiled_model(backend: Any) -> None:
    compiled = uncork.compile_model(BUILT["state"](), backend=backend)
    one = np.array([1, 2], np.float32)
    assert [compiled(one)[0].tolist() for _ in range(3)] == [[1, 2], [2, 4], [3, 6]]
    other = compiled.new_request()
    assert other(one)[0].tolist() == [1, 2]
    assert compiled(one)[0].tolist() == [4, 8]
    compiled.reset_state()
    out = compiled(one)[0]
    out[:] = 100
    assert compiled(one)[0].tolist() == [2, 4]
    with pytest.raises(uncork.InputError, match="expected shape"):
        compiled(np.zeros(3, np.float32))
    assert compiled(one)[0].tolist() == [3, 6], "a call that failed assigned nothing"


def test_dynamic_shapes_from_call_to_call(backend: Any) -> None:
    compiled = lookup(backend)
    for n in (0, 1, 5, 2, 0):
        assert compiled(np.zeros(n, np.int64))["rows"].shape == (n, 3)


def test_what_prints(backend: Any) -> None:
    compiled = uncork.compile_model(BUILT["bags"](), backend=backend)
    assert repr(compiled) == "<CompiledModel 'bags': ids i64[?], offsets i64[?] -> a,b f32[?,3]>"
    assert "EmbeddingBagOffsetsSum-3" in str(compiled.plan)


@pytest.mark.parametrize("name", BUILT)
def test_backends_agree(name: str) -> None:
    first, second = (
        uncork.compile_model(BUILT[name](), backend=b)(*INPUTS[name]) for b in BACKENDS
    )
    for a, b in zip(first, second, strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        if a.dtype.kind == "f":
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
        else:
            np.testing.assert_array_equal(a, b)
