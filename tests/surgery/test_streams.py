"""`surgery.streaming`: what streams gives what the whole sequence gives, and what does not is
refused by its name. Expected values are those of the whole sequence, by the references.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import uncork
from tests._openvino import OpenVino
from uncork.ir.model import Source
from uncork.surgery import check_stream, stream_info, streaming
from uncork.surgery.streams.rules import NO_RULE, how_it_streams, rule_of

Array = np.ndarray[Any, Any]
Body = Callable[["Made", Source], Source]
RANDOM = np.random.default_rng(0)


class Made(uncork.Builder):
    """A builder of layers with one output each, and of constants."""

    def layer(self, type_name: str, opset: int, *inputs: Source, **attributes: Any) -> Source:
        return self.add(type_name, opset, *inputs, **attributes)[0]

    def c(self, value: Any) -> Source:
        return self.constant(np.asarray(value))

    def w(self, *shape: int) -> Source:
        return self.c(np.random.default_rng(sum(shape)).standard_normal(shape).astype("f4") * 0.5)


def model(body: Body, shape: Sequence[int | None] = (1, None, 4)) -> uncork.Model:
    """A model of one input `x`, and of the output `y` that the body makes."""
    made = Made("made")
    made.result(body(made, made.parameter("x", "f32", shape)), "y")
    return made.model()


def gru(b: Made, x: Source, direction: str = "forward", initial: Source | None = None) -> Source:
    ways = 2 if direction == "bidirectional" else 1
    shape = b.layer("ShapeOf", 3, x, output_type="i64")
    length = b.layer("Gather", 8, shape, b.c([1]), b.c(0), batch_dims=0)
    initial = b.w(1, ways, 3) if initial is None else initial
    weights = [b.w(ways, 9, 4), b.w(ways, 9, 3), b.w(ways, 9)]
    y = b.layer(
        *("GRUSequence", 5, x, initial, length, *weights), hidden_size=3, direction=direction
    )
    return b.layer("Squeeze", 1, y, b.c([1])) if ways == 1 else y


def causal(b: Made, x: Source, before: int = 2, after: int = 0, stride: int = 1) -> Source:
    """A convolution of kernel 3 over frames in axis 1."""
    turned = b.layer("Transpose", 1, x, b.c([0, 2, 1]))
    options: dict[str, Any] = {"strides": [stride], "dilations": [1], "auto_pad": "explicit"}
    pads: dict[str, Any] = {"pads_begin": [before], "pads_end": [after]}
    y = b.layer("Convolution", 1, turned, b.w(4, 4, 3), **options, **pads)
    return b.layer("Transpose", 1, y, b.c([0, 2, 1]))


def whole(of: uncork.Model, x: Array) -> Array:
    return np.asarray(uncork.compile_model(of, backend="reference")(x)[0])


def played(of: uncork.Model, x: Array, sizes: Sequence[int], axis: int = 1) -> list[Array]:
    """What each call gives, of frames one behind the other."""
    compiled = uncork.compile_model(of)
    got, at = [], 0
    for size in sizes:
        part = np.take(x, range(at, at + size), axis)
        got.append(np.array(compiled(part)[0]))
        at += size
    return got


STREAMS: dict[str, tuple[Body, int]] = {
    "GRU": (gru, 0),
    "causal convolution": (causal, 0),
    "look-ahead of a convolution": (lambda b, x: causal(b, x, 1, 1), 1),
    "residual around look-ahead": (
        lambda b, x: b.layer("Add", 1, x, causal(b, x, 1, 1)),
        1,
    ),
    "look-ahead before a GRU": (lambda b, x: gru(b, causal(b, x, 0, 2)), 2),
    "padding before a bias": (
        lambda b, x: causal(
            b,
            b.layer(
                *(
                    "Add",
                    1,
                    b.layer("Pad", 12, x, b.c([0, 2, 0]), b.c([0, 0, 0]), pad_mode="constant"),
                ),
                b.w(1, 1, 4),
            ),
            0,
        ),
        0,
    ),
    "difference of frames": (
        lambda b, x: b.layer(
            "Subtract",
            1,
            x,
            b.layer(
                *("Slice", 8),
                b.layer("Pad", 12, x, b.c([0, 1, 0]), b.c([0, 0, 0]), pad_mode="constant"),
                *(b.c([0]), b.c([-1]), b.c([1]), b.c([1])),
            ),
        ),
        0,
    ),
    "shift by a Concat": (
        lambda b, x: b.layer("Concat", 1, b.w(1, 1, 4), x, axis=1),
        0,
    ),
    "running sum": (lambda b, x: b.layer("CumSum", 3, x, b.c(1)), 0),
    "running sum of before": (lambda b, x: b.layer("CumSum", 3, x, b.c(1), exclusive=True), 0),
    "softmax of a frame": (lambda b, x: b.layer("SoftMax", 8, x, axis=2), 0),
}


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_gives_what_the_whole_sequence_gives(name: str) -> None:
    body, delay = STREAMS[name]
    of = model(body)
    made = streaming(of, "x", axis=1)
    info = stream_info(made)
    assert info.delay == delay
    x = RANDOM.standard_normal((1, 60, 4)).astype(np.float32)
    (output,) = info.outputs
    expected = whole(of, x)[:, max(0, output.shift) :]
    for sizes in ([1] * 40, [7, 1, 20, 2, 10]):
        got = np.concatenate(played(made, x, sizes), 1)[:, delay:]
        assert got.shape[1] == 40 - delay
        np.testing.assert_allclose(got, expected[:, : 40 - delay], rtol=2e-5, atol=2e-6)


def test_openvino_runs_a_stream_as_well(tmp_path: Path, openvino: OpenVino) -> None:
    """One call of its own has the initial state: the first frames of the whole sequence."""
    for name in ("GRU", "causal convolution", "running sum", "look-ahead before a GRU"):
        of = model(STREAMS[name][0])
        uncork.write_model(streaming(of, "x", axis=1), tmp_path / "s.xml")
        x = RANDOM.standard_normal((1, 12, 4)).astype(np.float32)
        delay = STREAMS[name][1]
        got = openvino.run(tmp_path / "s.xml", [x])[0][:, delay:]
        expected = whole(of, x)[:, : 12 - delay]
        np.testing.assert_allclose(got, expected, rtol=2e-4, atol=2e-5)


def test_a_running_sum_is_exact_by_hand() -> None:
    made = streaming(model(lambda b, x: b.layer("CumSum", 3, x, b.c(1)), (1, None)), "x", 1)
    got = played(made, np.array([[1, 2, 3, 4, 5]], np.float32), [2, 1, 2])
    assert [part.tolist() for part in got] == [[[1, 3]], [[6]], [[10, 15]]]


def test_the_last_state_is_that_of_the_last_frame() -> None:
    def body(b: Made, x: Source) -> Source:
        return b.layer("Gather", 8, gru(b, x), b.c([-1]), b.c(1), batch_dims=0)

    of = model(body)
    made = streaming(of, "x", 1)
    assert stream_info(made).outputs[0].kind == "latest"
    x = RANDOM.standard_normal((1, 9, 4)).astype(np.float32)
    for calls, part in zip((2, 5, 9), played(made, x, [2, 3, 4]), strict=True):
        np.testing.assert_allclose(part, whole(of, x[:, :calls]), rtol=1e-5, atol=1e-6)


def test_strides_ask_for_a_multiple_of_frames() -> None:
    of = model(lambda b, x: causal(b, x, 2, 0, stride=2))
    made = streaming(of, "x", 1)
    info = stream_info(made)
    assert (info.multiple, info.outputs[0].every) == (2, 2)
    compiled = uncork.compile_model(made)
    assert np.asarray(compiled(np.zeros((1, 4, 4), np.float32))[0]).shape == (1, 2, 4)
    with pytest.raises(uncork.UncorkError, match="are a multiple of 2"):
        compiled(np.zeros((1, 3, 4), np.float32))
    with pytest.raises(uncork.InputError, match=r"expected a multiple of 2 frames a call.*got 3"):
        streaming(of, "x", 1, frames=3)
    assert streaming(of, "x", 1, frames=4).inputs[0].shape.static == (1, 4, 4)


def test_an_open_batch_and_fixed_lengths_stream() -> None:
    of = model(causal, (None, 30, 4))
    made = streaming(of, "x", 1, frames=(1, 16))
    assert str(made.inputs[0].shape) == "[?,1..16,4]"
    x = RANDOM.standard_normal((3, 30, 4)).astype(np.float32)
    got = np.concatenate(played(made, x, [16, 1, 13]), 1)
    np.testing.assert_allclose(got, whole(of, x), rtol=1e-5, atol=1e-6)
    with pytest.raises(uncork.InputError, match=r"\[\?,1\.\.16,4\]"):
        uncork.compile_model(made)(x)


def test_positions_go_on() -> None:
    def body(b: Made, x: Source) -> Source:
        shape = b.layer("ShapeOf", 3, x, output_type="i64")
        count = b.layer("Gather", 8, shape, b.c(1), b.c(0), batch_dims=0)
        return b.layer("Range", 4, b.c(0), count, b.c(1), output_type="i64")

    made = streaming(model(body, (1, None)), "x", 1)
    got = played(made, np.zeros((1, 6), np.float32), [1, 3, 2])
    assert [part.tolist() for part in got] == [[0], [1, 2, 3], [4, 5]]


def test_several_inputs_with_time_in_different_axes() -> None:
    b = Made("two")
    x, z = b.parameter("x", "f32", [1, None, 2]), b.parameter("z", "f32", [1, 2, None])
    b.result(b.layer("Add", 1, x, b.layer("Transpose", 1, z, b.c([0, 2, 1]))), "y")
    made = streaming(b.model(), {"x": 1, "z": 2})
    assert stream_info(made).inputs == {"x": 1, "z": 2}


def test_a_fixed_frame_has_no_open_size() -> None:
    made = streaming(model(gru), "x", 1, frames=1)
    assert all(p.spec.shape.is_static for node in made.nodes for p in node.outputs)


def layers_of_the_page() -> dict[str, tuple[Body, str]]:
    """What is refused, and the words of the refusal behind the layer's name."""

    def over_time(kind: str) -> Body:
        return lambda b, x: b.layer(kind, 1, x, b.c([1]), keep_dims=True)

    def scaled(b: Made, x: Source) -> Source:
        shape = b.layer("ShapeOf", 3, x, output_type="i64")
        length = b.layer("Gather", 8, shape, b.c([1]), b.c(0), batch_dims=0)
        return b.layer("Divide", 1, x, b.layer("Convert", 1, length, destination_type="f32"))

    def gathered(b: Made, x: Source) -> Source:
        return b.layer("Gather", 8, x, b.c([0]), b.c(1), batch_dims=0)

    def dense(b: Made, x: Source) -> Source:
        return b.layer("MatMul", 1, x, x, transpose_a=True)

    def reflected(b: Made, x: Source) -> Source:
        return b.layer("Pad", 12, x, b.c([0, 1, 0]), b.c([0, 0, 0]), pad_mode="reflect")

    def reshaped(b: Made, x: Source) -> Source:
        return b.layer("Reshape", 1, x, b.c([1, 4, -1]), special_zero=False)

    def every_other(b: Made, x: Source) -> Source:
        return b.layer("Slice", 8, x, b.c([0]), b.c([2**31 - 1]), b.c([2]), b.c([1]))

    def first(b: Made, x: Source) -> Source:
        return b.layer("Slice", 8, x, b.c([0]), b.c([3]), b.c([1]), b.c([1]))

    def last_of_same(b: Made, x: Source) -> Source:
        return b.layer("Gather", 8, causal(b, x, 1, 1), b.c([-1]), b.c(1), batch_dims=0)

    def both(b: Made, x: Source) -> Source:
        return gru(b, x, "bidirectional")

    def mixed(b: Made, x: Source) -> Source:
        return b.layer("Add", 1, gathered_last(b, x), x)

    def gathered_last(b: Made, x: Source) -> Source:
        return b.layer("Gather", 8, x, b.c([-1]), b.c(1), batch_dims=0)

    def joined(b: Made, x: Source) -> Source:
        return b.layer("Concat", 1, x, x, axis=1)

    def rates(b: Made, x: Source) -> Source:
        slow = causal(b, x, 2, 0, stride=2)
        options: dict[str, Any] = {"strides": [2], "dilations": [1]}
        turned = b.layer("Transpose", 1, slow, b.c([0, 2, 1]))
        pads: dict[str, Any] = {"pads_begin": [0], "pads_end": [0]}
        up = b.layer("ConvolutionBackpropData", 1, turned, b.w(4, 4, 2), **options, **pads)
        return b.layer("ConvolutionBackpropData", 1, up, b.w(4, 4, 2), **options, **pads)

    return {
        "mean": (over_time("ReduceMean"), "takes the mean of all frames"),
        "largest": (over_time("ReduceMax"), "takes the largest of all frames"),
        "softmax": (
            lambda b, x: b.layer("SoftMax", 8, x, axis=1),
            "makes probabilities along time: known after the last frame only",
        ),
        "both": (both, "is bidirectional: it reads the sequence from its end"),
        "reversed sum": (
            lambda b, x: b.layer("CumSum", 3, x, b.c(1), reverse=True),
            "sums from the end of the sequence",
        ),
        "length": (scaled, "reckons with the length of the whole sequence"),
        "first frame": (gathered, "picks frames by their place from the beginning"),
        "dense over time": (dense, "adds up over all frames"),
        "reflection": (reflected, "pads time by mode reflect"),
        "reshape": (reshaped, "which mixes frames"),
        "every other": (every_other, "takes one frame in 2"),
        "first frames": (first, "ends at a frame of its own"),
        "last of look-ahead": (last_of_same, "gives the last frame of a sequence whose end"),
        "last to all": (mixed, "gives every frame what is known after the last one only"),
        "twice": (joined, "joins two sequences along time"),
        "faster": (rates, "makes more frames than go into the model"),
        "no rule": (
            lambda b, x: b.layer("NonZero", 3, x, output_type="i64"),
            "mixes frames in a way that no rule describes",
        ),
    }


REFUSED = layers_of_the_page()


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_stream_is_refused_by_its_name(name: str) -> None:
    body, words = REFUSED[name]
    of = model(body)
    with pytest.raises(uncork.UnsupportedError) as caught:
        streaming(of, "x", 1)
    (problem,) = caught.value.problems
    assert words in problem.message
    assert "; " in problem.message, "says what could be done"
    assert problem.layer in {node.name for node in of.nodes}


def test_a_refused_layer_that_no_output_needs_does_not_count() -> None:
    def body(b: Made, x: Source) -> Source:
        first = b.layer("Gather", 8, x, b.c([0]), b.c(1), batch_dims=0)
        like = b.layer("ShapeOf", 3, first, output_type="i64")  # zeros_like(x[:, :1])
        zeros = b.layer("Broadcast", 3, b.c(np.float32(0)), like)
        return b.layer("Concat", 1, zeros, x, axis=1)

    assert stream_info(streaming(model(body), "x", 1)).outputs[0].shift == 1


def test_every_problem_is_told() -> None:
    b = Made("two")
    x = b.parameter("x", "f32", [1, None, 4])
    for name in ("a", "b"):
        b.result(b.layer("ReduceMean", 1, x, b.c([1]), keep_dims=False, name=name), name)
    with pytest.raises(uncork.UnsupportedError, match=r"2 problems:\n.*'a'.*\n.*'b'"):
        streaming(b.model(), "x", 1)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"input": "z"}, "the model has no input 'z'"),
        ({"axis": 3}, r"input 'x': expected an axis of its 3 .*, got 3"),
        ({"frames": 0}, "expected frames as a number of at least 1"),
        ({"frames": (4, 2)}, "expected frames as a number of at least 1"),
        ({"input": {}}, "expected an input that has time"),
        ({"inputs": {"x": np.zeros((1, 0, 4), "f4")}}, "too few for a stream"),
        ({"inputs": {"w": np.zeros((1, 9, 4), "f4")}}, "the model has no input 'w'"),
        ({"inputs": {}}, r"expected an array for each input .* got none for \['x'\]"),
    ],
)
def test_wrong_arguments(given: dict[str, Any], message: str) -> None:
    with pytest.raises(uncork.InputError, match=message):
        streaming(model(gru), **{"input": "x", "axis": 1, **given})


def test_a_length_that_layers_fix_is_refused() -> None:
    of = model(lambda b, x: b.layer("Add", 1, x, b.w(1, 20, 4)), (1, None, 4))
    with pytest.raises(uncork.UnsupportedError, match="take 20 frames and no other number"):
        streaming(of, "x", 1)


def of_lengths(shorter: bool, kind: str = "i64") -> uncork.Model:
    """A GRU of rows whose lengths are an input; with `shorter`, of one frame less."""
    b = Made("lengths")
    x, n = b.parameter("x", "f32", [2, None, 4]), b.parameter("n", kind, [2])
    weights = [b.w(1, 9, 4), b.w(1, 9, 3), b.w(1, 9)]
    lengths = (
        b.layer("Subtract", 1, n, b.c(np.array(1, kind.replace("i", "int")))) if shorter else n
    )
    y, last = b.add("GRUSequence", 5, x, b.w(2, 1, 3), lengths, *weights, hidden_size=3)
    b.result(b.layer("Squeeze", 1, y, b.c([1])), "y")
    b.result(last, "last")
    return b.model()


def test_lengths_that_are_computed_are_refused() -> None:
    with pytest.raises(uncork.UnsupportedError, match="has lengths of its rows"):
        streaming(of_lengths(shorter=True), "x", 1)


@pytest.mark.parametrize("kind", ["i64", "i32"])
def test_an_input_of_lengths_goes_as_every_row_has_all_frames(kind: str) -> None:
    of = of_lengths(shorter=False, kind=kind)
    x = RANDOM.standard_normal((2, 48, 4)).astype(np.float32)
    n = np.full(2, 48, kind.replace("i", "int"))
    for inputs in (None, {"x": x, "n": n}, {"x": x}):
        made = streaming(of, "x", 1, inputs=inputs)
        assert [port.name for port in made.inputs] == ["x"]
    assert check_stream(made, of, {"x": x, "n": n}).difference < 1e-6
    expected = uncork.compile_model(of, backend="reference")(x, n)
    got = played(made, x, [7, 1, 20, 20])
    np.testing.assert_allclose(np.concatenate(got, 1), expected["y"], rtol=1e-5, atol=1e-6)


def test_a_stream_is_proved_again_and_a_wrong_one_is_found() -> None:
    of = model(gru)
    made = streaming(of, "x", 1)
    assert check_stream(made, of).difference < 1e-6
    other = model(lambda b, x: b.layer("Tanh", 1, gru(b, x)))
    with pytest.raises(uncork.InputError, match=r"frame by frame .* values that differ"):
        check_stream(made, other)
    with pytest.raises(uncork.InputError, match="the model is no stream"):
        check_stream(of, of)


def test_what_a_stream_says_of_itself_is_in_its_file(tmp_path: Path) -> None:
    made = streaming(model(lambda b, x: causal(b, x, 1, 1)), "x", 1, frames=(1, 8))
    uncork.write_model(made, tmp_path / "s.xml")
    read = stream_info(uncork.read_model(tmp_path / "s.xml"))
    assert read == stream_info(made)
    assert (read.delay, read.frames, read.inputs) == (1, (1, 8), {"x": 1})


def test_metadata_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    uncork.write_model(streaming(model(gru), "x", 1), tmp_path / "s.xml")
    text = (tmp_path / "s.xml").read_text()
    (tmp_path / "s.xml").write_text(text.replace("[1, null]", "[1]"))
    with pytest.raises(uncork.InputError, match="cannot be read"):
        stream_info(uncork.read_model(tmp_path / "s.xml"))


def test_every_operation_has_words_for_the_page() -> None:
    for type_name in uncork.ops.type_names():
        versions = uncork.ops.versions_of(type_name)
        newest = versions[max(versions)]
        words = how_it_streams(newest)
        assert words
        assert (rule_of(newest) is None) == (words == NO_RULE)


def test_inputs_that_are_initial_states_go_inside() -> None:
    b = Made("h")
    x, h = b.parameter("x", "f32", [1, None, 4]), b.parameter("h", "f32", [1, 1, 3])
    b.result(gru(b, x, initial=h), "y")
    of = b.model()
    frames = RANDOM.standard_normal((1, 70, 4)).astype(np.float32)
    for start in (np.zeros((1, 1, 3), "f4"), np.full((1, 1, 3), 0.5, "f4")):
        given = None if not start.any() else {"x": frames, "h": start}
        made = streaming(of, "x", 1, inputs=given)
        assert [port.name for port in made.inputs] == ["x"]
        assert stream_info(made).initial == ("h",)
        expected = np.asarray(uncork.compile_model(of, backend="reference")(frames, start)[0])
        got = np.concatenate(played(made, frames, [3, 4, 1]), 1)
        np.testing.assert_allclose(got, expected[:, :8], rtol=1e-5, atol=1e-6)


def test_an_input_that_is_read_otherwise_too_stays() -> None:
    b = Made("h")
    x, h = b.parameter("x", "f32", [1, None, 4]), b.parameter("h", "f32", [1, 1, 3])
    y = gru(b, x, initial=h)
    b.result(b.layer("Add", 1, y, h), "y")
    made = streaming(b.model(), "x", 1)
    assert [port.name for port in made.inputs] == ["x", "h"]


def test_a_deep_model_may_differ_by_what_rounding_makes_of_its_weights() -> None:
    """Each layer makes several times of what the one before it has rounded."""

    def deep(b: Made, x: Source, last: str = "Sin") -> Source:
        for _ in range(7):
            x = b.layer("Sin", 1, b.layer("Multiply", 1, causal(b, x), b.c(np.float32(2.3))))
        return b.layer(last, 1, causal(b, x))

    of = model(deep)
    x = RANDOM.standard_normal((1, 64, 4)).astype(np.float32)
    made = streaming(of, "x", 1)
    apart = np.abs(np.concatenate(played(made, x, [1] * 64), 1) - whole(of, x)).max()
    assert 1e-5 < apart < 2e-2
    assert 1e-5 < check_stream(made, of).difference < 2e-2
    with pytest.raises(uncork.InputError, match=r"frame by frame .* values that differ"):
        check_stream(made, model(lambda b, x: deep(b, x, "Tanh")))
