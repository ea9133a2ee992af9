"""Causal attention as a stream. Expected values are those of the whole sequence, by the references,
and behind the limit those of a loop over the frames that are kept.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import uncork
from tests._openvino import OpenVino
from uncork.ir.model import Source
from uncork.surgery import check_stream, stream_info, streaming

Array = np.ndarray[Any, Any]
RANDOM = np.random.default_rng(0)
WIDTH, HEADS = 8, 2


class Made(uncork.Builder):
    """A builder of layers with one output each, and of constants."""

    def layer(self, type_name: str, opset: int, *inputs: Source, **attributes: Any) -> Source:
        return self.add(type_name, opset, *inputs, **attributes)[0]

    def c(self, value: Any) -> Source:
        return self.constant(np.asarray(value))

    def w(self, seed: int) -> Source:
        values = np.random.default_rng(seed).standard_normal((WIDTH, WIDTH)) * 0.4
        return self.c(values.astype(np.float32))


#: The mask of scores: what is done with them, of the length of the sequence.
Mask = Callable[[Made, Source, Source], Source]
INFINITY = np.float32(-np.inf)


def scored(mask: Mask, batch: int | None = 1) -> uncork.Model:
    """Products, a mask, softmax, products; around it a residual."""

    def attend(b: Made, q: Source, k: Source, v: Source, length: Source) -> Source:
        scores = b.layer("MatMul", 1, q, k, transpose_b=True)
        scores = mask(b, b.layer("Multiply", 1, scores, b.c(np.float32(0.5))), length)
        return b.layer("MatMul", 1, b.layer("SoftMax", 8, scores, axis=-1), v)

    return model(attend, batch)


def model(attend: Callable[..., Source], batch: int | None = 1) -> uncork.Model:
    b = Made("attention")
    x = b.parameter("x", "f32", [batch, None, WIDTH])
    shape = b.layer("ShapeOf", 3, x, output_type="i64")
    length = b.layer("Gather", 8, shape, b.c([1]), b.c(0), batch_dims=0)
    split, back = b.c([0, 0, HEADS, WIDTH // HEADS]), b.c([0, 0, WIDTH])
    heads = []
    for seed in range(3):
        own = b.layer("Reshape", 1, b.layer("MatMul", 1, x, b.w(seed)), split, special_zero=True)
        heads.append(b.layer("Transpose", 1, own, b.c([0, 2, 1, 3])))
    y = b.layer("Transpose", 1, attend(b, *heads, length), b.c([0, 2, 1, 3]))
    y = b.layer("Reshape", 1, y, back, special_zero=True)
    b.result(b.layer("Add", 1, x, b.layer("MatMul", 1, y, b.w(9))), "y")
    return b.model()


def one_layer(b: Made, q: Source, k: Source, v: Source, length: Source) -> Source:
    return b.layer("ScaledDotProductAttention", 13, q, k, v, causal=True)


def one_layer_and_mask(b: Made, q: Source, k: Source, v: Source, length: Source) -> Source:
    places = b.layer(
        *("Range", 4, b.c(0), b.layer("Squeeze", 1, length, b.c([0])), b.c(1)), output_type="i64"
    )
    rows, columns = (b.layer("Unsqueeze", 1, places, b.c([axis])) for axis in (1, 0))
    mask = b.layer("GreaterEqual", 1, rows, columns)
    return b.layer("ScaledDotProductAttention", 13, q, k, v, mask, causal=False)


def triangle(table: Array) -> Mask:
    """A constant triangle, cut to the length, that selects."""

    def mask(b: Made, scores: Source, length: Source) -> Source:
        both = b.layer("Concat", 1, length, length, axis=0)
        own = b.layer("Slice", 8, b.c(table), b.c([0, 0]), both, b.c([1, 1]), b.c([2, 3]))
        return b.layer("Select", 1, own, scores, b.c(INFINITY))

    return mask


def filled(b: Made, scores: Source, length: Source) -> Source:
    """Positions compared, and what is later filled by the least float."""
    places = b.layer(
        *("Range", 4, b.c(0), b.layer("Squeeze", 1, length, b.c([0])), b.c(1)), output_type="i64"
    )
    rows, columns = (b.layer("Unsqueeze", 1, places, b.c([axis])) for axis in (1, 0))
    later = b.layer("Less", 1, rows, columns)
    return b.layer("Select", 1, later, b.c(np.finfo(np.float32).min), scores)


def added(b: Made, scores: Source, length: Source) -> Source:
    """-inf for what is later, and less for what is long ago, as ALiBi has it."""
    places = b.layer(
        *("Range", 4, b.c(0), b.layer("Squeeze", 1, length, b.c([0])), b.c(1)), output_type="i64"
    )
    rows, columns = (b.layer("Unsqueeze", 1, places, b.c([axis])) for axis in (1, 0))
    distance = b.layer("Convert", 1, b.layer("Subtract", 1, rows, columns), destination_type="f32")
    slopes = b.c(np.array([-0.5, -0.25], np.float32).reshape(1, 2, 1, 1))
    scores = b.layer("Add", 1, scores, b.layer("Multiply", 1, distance, slopes))
    later = b.layer("Less", 1, rows, columns)
    bias = b.layer("Select", 1, later, b.c(INFINITY), b.c(np.float32(0)))
    return b.layer("Add", 1, bias, scores)


LOWER = np.tril(np.ones((1, 1, 200, 200), bool))
BAND = LOWER & ~np.tril(np.ones((200, 200), bool), -5)  # itself and the 4 before it
CAUSAL: dict[str, tuple[uncork.Model, int | None]] = {
    "one layer": (model(one_layer), None),
    "one layer with a mask": (model(one_layer_and_mask), None),
    "triangle": (scored(triangle(LOWER)), None),
    "band": (scored(triangle(BAND)), 4),
    "long band": (scored(triangle(LOWER & ~np.tril(np.ones((200, 200), bool), -90))), 89),
    "filled": (scored(filled), None),
    "bias by distance": (scored(added), None),
}


def played(of: uncork.Model, x: Array, sizes: list[int]) -> Array:
    compiled, at, got = uncork.compile_model(of), 0, []
    for size in sizes:
        got.append(np.array(compiled(x[:, at : at + size])[0]))
        at += size
    return np.concatenate(got, 1)


def whole(of: uncork.Model, x: Array) -> Array:
    return np.asarray(uncork.compile_model(of, backend="reference")(x)[0])


@pytest.mark.parametrize("name", CAUSAL)
def test_causal_attention_gives_what_the_whole_sequence_gives(name: str) -> None:
    of, reach = CAUSAL[name]
    made = streaming(of, "x", 1, keep=None if reach else 40)
    assert stream_info(made).limit == (None if reach else 41)
    x = RANDOM.standard_normal((1, 40, WIDTH)).astype(np.float32)
    for sizes in ([1] * 40, [7, 1, 20, 2, 10], [40]):
        np.testing.assert_allclose(played(made, x, sizes), whole(of, x), rtol=1e-4, atol=1e-5)
    assert check_stream(made, of).limit == stream_info(made).limit


@pytest.mark.parametrize("name", CAUSAL)
def test_later_frames_see_no_further_back_than_what_is_kept(name: str) -> None:
    """Frame i is the last one of a whole sequence that begins with the first frame it sees.

    The attention itself is all that joins frames, so that sequence gives just that.
    """
    of, reach = CAUSAL[name]
    keep = min(reach or 6, 6)
    made = streaming(of, "x", 1, keep=6)
    x = RANDOM.standard_normal((1, 30, WIDTH)).astype(np.float32)
    expected = [whole(of, x[:, max(0, i - keep) : i + 1])[:, -1] for i in range(30)]
    for sizes in ([1] * 30, [11, 1, 9, 2, 7], [30]):
        got = played(made, x, sizes)
        np.testing.assert_allclose(got, np.stack(expected, 1), rtol=1e-4, atol=1e-5)


def test_a_fixed_frame_has_masks_of_one_size() -> None:
    made = streaming(CAUSAL["triangle"][0], "x", 1, frames=2, keep=8)
    assert all(p.spec.shape.is_static for node in made.nodes for p in node.outputs)


def test_sessions_of_attention() -> None:
    of = streaming(scored(filled, None), "x", 1, frames=1, keep=5)
    compiled = uncork.compile_model(of)
    sessions, requests = compiled.sessions(8), [compiled.new_request() for _ in range(3)]
    for name in range(3):
        sessions.open(name)
    for step in range(12):
        names = [[0, 1, 2], [2, 0], [1]][step % 3]
        x = RANDOM.standard_normal((len(names), 1, WIDTH)).astype(np.float32)
        expected = [requests[name](x[i : i + 1])["y"] for i, name in enumerate(names)]
        got = sessions.step(names, x)["y"]
        np.testing.assert_allclose(got, np.concatenate(expected), rtol=1e-4, atol=1e-5)


def test_openvino_runs_it_as_well(tmp_path: Path, openvino: OpenVino) -> None:
    for name in ("one layer", "triangle", "bias by distance"):
        of = CAUSAL[name][0]
        uncork.write_model(streaming(of, "x", 1, keep=20), tmp_path / "s.xml")
        x = RANDOM.standard_normal((1, 12, WIDTH)).astype(np.float32)
        got = openvino.run(tmp_path / "s.xml", [x])[0]
        np.testing.assert_allclose(got, whole(of, x), rtol=2e-4, atol=2e-5)


def padded(b: Made, q: Source, k: Source, v: Source, length: Source) -> Source:
    pad = b.c([0, 0, 1, 0]), b.c([0, 0, 0, 0])
    k, v = (b.layer("Pad", 12, t, *pad, pad_mode="constant") for t in (k, v))
    cut = b.c([0]), b.c([-1]), b.c([1]), b.c([2])
    k, v = (b.layer("Slice", 8, t, *cut) for t in (k, v))
    return b.layer("ScaledDotProductAttention", 13, q, k, v, causal=True)


def told_by_data(b: Made, scores: Source, length: Source) -> Source:
    return filled(b, b.layer("Add", 1, scores, b.layer("ReLU", 1, scores)), length)


def by_place(b: Made, scores: Source, length: Source) -> Source:
    """Later frames are hidden, and so are those of odd places."""
    table = LOWER & (np.arange(200) % 2 == 0)
    return triangle(table | np.eye(200, dtype=bool))(b, scores, length)


def not_causal(b: Made, q: Source, k: Source, v: Source, length: Source) -> Source:
    return b.layer("ScaledDotProductAttention", 13, q, k, v, causal=False)


def along_queries(b: Made, q: Source, k: Source, v: Source, length: Source) -> Source:
    scores = filled(b, b.layer("MatMul", 1, q, k, transpose_b=True), length)
    return b.layer("MatMul", 1, b.layer("SoftMax", 8, scores, axis=-2), v)


REFUSED: dict[str, tuple[uncork.Model, int | None, str]] = {
    "all": (scored(lambda b, scores, _: scores), 9, "attends to all frames, later ones too"),
    "one layer": (model(not_causal), 9, "attends to all frames, later ones too"),
    "upper": (scored(triangle(np.swapaxes(LOWER, 2, 3))), 9, "attends to all frames, later ones"),
    "no limit": (model(one_layer), None, r"say how many by keep=N \(--keep N\)"),
    "padding": (model(padded), 9, "attends to frames behind padding or look-ahead"),
    "two scores": (scored(told_by_data), 9, "joins the scores of two attentions"),
    "by place": (scored(by_place), 9, "a mask that is not the same for all frames"),
    "queries": (model(along_queries), 9, "makes probabilities along the queries"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_attention_is_refused_by_its_name(name: str) -> None:
    of, keep, words = REFUSED[name]
    with pytest.raises(uncork.UnsupportedError, match=words) as caught:
        streaming(of, "x", 1, keep=keep)
    assert caught.value.problems[0].layer in {node.name for node in of.nodes}


@pytest.mark.parametrize("keep", [0, -1, 1.5, True, "9"])
def test_wrong_numbers_to_keep(keep: Any) -> None:
    with pytest.raises(uncork.InputError, match="keep: expected a number of frames, 1 or more"):
        streaming(CAUSAL["triangle"][0], "x", 1, keep=keep)
