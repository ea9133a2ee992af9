"""The models that `streams` measures: of whole sequences, made with random weights, or files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from uncork import Builder, Model, read_model
from uncork.ir.model import Source
from uncork.types import Array

#: Files of `--models` that stream, with the axis of time of each input.
_FILES: dict[str, dict[str, int]] = {
    "dfn3_enc": {"feat_erb": 2, "feat_spec": 2},
    "silero_vad_sequence": {"input": 0},
    "g2p_en_encoder": {"x": 1},
}


#: Files that take a frame and their states, with the output that is each state's next value.
_STATES: dict[str, dict[str, str]] = {
    "gtcrn_simple": {
        "conv_cache": "conv_cache_out",
        "tra_cache": "tra_cache_out",
        "inter_cache": "inter_cache_out",
    }
}


@dataclass(frozen=True)
class Stream:
    """A model of whole sequences, with the axis of time of each input, and the frames of a call; or
    one of single frames, with the output that is the next value of each state.
    """

    name: str
    model: Callable[[], Model]
    axes: Mapping[str, int]
    frames: int = 1
    states: Mapping[str, str] | None = None
    #: The same work without a stream: cells whose states come in behind the frame and go out behind
    #: the result, with the shape of each state.
    cells: Callable[[], tuple[Model, list[tuple[int, ...]]]] | None = None


class _Layers(Builder):
    """A builder of layers with one output each, and of random weights."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._random = np.random.default_rng(0)

    def layer(self, type_name: str, opset: int, *inputs: Source, **attributes: Any) -> Source:
        return self.add(type_name, opset, *inputs, **attributes)[0]

    def c(self, value: Any) -> Source:
        return self.constant(np.asarray(value))

    def w(self, *shape: int) -> Source:
        values = self._random.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))
        return self.c(values.astype(np.float32))

    def value(self, source: Source) -> Array:
        """The value of a constant."""
        found = self.spec(source).value
        assert found is not None
        return found

    def length(self, source: Source, axis: int) -> Source:
        shape = self.layer("ShapeOf", 3, source, output_type="i64")
        return self.layer("Gather", 8, shape, self.c([axis]), self.c(0), batch_dims=0)

    def recurrent(self, kind: str, x: Source, width: int, size: int) -> tuple[Source, Source]:
        """All states of a GRU or LSTM, [B, T, size], and the last one."""
        gates = 3 if kind == "GRU" else 4
        rows = self.length(x, 0)
        lengths = self.layer("Broadcast", 3, self.length(x, 1), rows)
        shape = self.layer("Concat", 1, rows, self.c([1, size]), axis=0)
        zero = self.layer("Broadcast", 3, self.c(np.float32(0)), shape)
        states = [zero] * (1 if kind == "GRU" else 2)
        weights = self.w(1, gates * size, width), self.w(1, gates * size, size)
        bias = self.w(1, gates * size)
        y, last, *_ = self.add(
            f"{kind}Sequence", 5, x, *states, lengths, *weights, bias, hidden_size=size
        )
        one = self.c([1])
        return self.layer("Squeeze", 1, y, one), self.layer("Squeeze", 1, last, one)

    def convolution(
        self, x: Source, inner: int, outer: int, size: int, dilation: int = 1
    ) -> Source:
        """A causal convolution over [B, C, T]."""
        pads: dict[str, Any] = {"pads_begin": [(size - 1) * dilation], "pads_end": [0]}
        return self.layer(
            *("Convolution", 1, x, self.w(outer, inner, size)),
            **{"strides": [1], "dilations": [dilation], **pads},
        )

    def dense(self, x: Source, inner: int, outer: int) -> Source:
        return self.layer("MatMul", 1, x, self.w(outer, inner), transpose_b=True)

    def normalized(self, x: Source) -> Source:
        """Each frame with mean 0 and variance 1."""
        settings: dict[str, Any] = {"normalize_variance": True, "eps_mode": "inside_sqrt"}
        return self.layer("MVN", 6, x, self.c([2]), eps=1e-5, **settings)

    def mask(self, x: Source, width: int) -> Source:
        """Factors from 0 to 1, by two LSTMs of 128."""
        y = self.recurrent("LSTM", self.recurrent("LSTM", x, width, 128)[0], 128, 128)[0]
        return self.layer("Sigmoid", 1, self.dense(y, 128, width))

    def attention(self, x: Source, width: int, heads: int) -> Source:
        """Causal attention that sees 64 frames: a band of a constant triangle."""
        n = self.length(x, 1)
        split, back = self.c([0, 0, heads, width // heads]), self.c([0, 0, width])
        parts = []
        for _ in range(3):
            own = self.layer("MatMul", 1, x, self.w(width, width))
            own = self.layer("Reshape", 1, own, split, special_zero=True)
            parts.append(self.layer("Transpose", 1, own, self.c([0, 2, 1, 3])))
        q, k, v = parts
        band = np.tril(np.ones((1, 1, 512, 512), bool)) & ~np.tril(np.ones((512, 512), bool), -64)
        both = self.layer("Concat", 1, n, n, axis=0)
        mask = self.layer(
            *("Slice", 8, self.c(band), self.c([0, 0]), both, self.c([1, 1]), self.c([2, 3]))
        )
        scores = self.layer("MatMul", 1, q, k, transpose_b=True)
        scores = self.layer("Select", 1, mask, scores, self.c(np.float32(-np.inf)))
        y = self.layer("MatMul", 1, self.layer("SoftMax", 8, scores, axis=-1), v)
        y = self.layer("Transpose", 1, y, self.c([0, 2, 1, 3]))
        y = self.layer("Reshape", 1, y, back, special_zero=True)
        return self.layer("MatMul", 1, y, self.w(width, width))

    def turned(self, x: Source) -> Source:
        return self.layer("Transpose", 1, x, self.c([0, 2, 1]))


def _tagger() -> Model:
    b = _Layers("tagger")
    x = b.parameter("x", "f32", [1, None, 64])
    y = b.recurrent("GRU", b.recurrent("GRU", x, 64, 256)[0], 256, 256)[0]
    b.result(b.layer("MatMul", 1, y, b.w(10, 256), transpose_b=True), "y")
    return b.model()


def _tagger_cells() -> tuple[Model, list[tuple[int, ...]]]:
    """The tagger's two cells and its dense layer."""
    b = _Layers("tagger cells")
    x = b.parameter("x", "f32", [1, 1, 64])
    states = [b.parameter(f"h{n}", "f32", [1, 256]) for n in range(2)]
    y = b.layer("Squeeze", 1, x, b.c([1]))
    after: list[Source] = []
    for state, width in zip(states, (64, 256), strict=True):
        w = [b.c(b.value(b.w(1, *shape))[0]) for shape in ((768, width), (768, 256))]
        bias = b.c(b.value(b.w(1, 768))[0])
        y = b.layer("GRUCell", 3, y, state, *w, bias, hidden_size=256)
        after.append(y)
    y = b.layer("MatMul", 1, y, b.w(10, 256), transpose_b=True)
    for result in (b.layer("Unsqueeze", 1, y, b.c([1])), *after):
        b.result(result)
    return b.model(), [(1, 256)] * 2


def _tcn() -> Model:
    b = _Layers("tcn")
    x = b.parameter("x", "f32", [1, None, 40])
    own = b.convolution(b.turned(x), 40, 64, 1)
    skip: Source | None = None
    for number in range(6):
        h = b.layer("ReLU", 1, b.convolution(own, 64, 64, 3, 2**number))
        h = b.convolution(h, 64, 64, 1)
        skip = h if skip is None else b.layer("Add", 1, skip, h)
        own = b.layer("Add", 1, own, h)
    assert skip is not None
    b.result(b.turned(b.convolution(b.layer("ReLU", 1, skip), 64, 12, 1)), "y")
    return b.model()


def _gate() -> Model:
    b = _Layers("gate")
    x = b.parameter("x", "f32", [1, None, 40])
    h = b.turned(b.layer("ReLU", 1, b.convolution(b.turned(x), 40, 64, 3)))
    gate = b.layer("Sigmoid", 1, b.recurrent("LSTM", h, 64, 40)[0])
    b.result(b.layer("Multiply", 1, gate, x), "y")
    return b.model()


def _attention() -> Model:
    """Causal attention of 4 heads that sees 64 frames."""
    b = _Layers("attention")
    x = b.parameter("x", "f32", [1, None, 128])
    b.result(b.layer("Add", 1, x, b.attention(x, 128, 4)), "y")
    return b.model()


def _denoiser() -> Model:
    """Of DTLN's kind: two LSTMs make a mask over the spectrum of each frame of 512 samples, two
    more one over what a dense layer makes of the frame.
    """
    b = _Layers("denoiser")
    x = b.parameter("x", "f32", [1, None, 512])
    spectrum = b.layer("RDFT", 9, x, b.c([2]))
    power = b.layer("Multiply", 1, spectrum, spectrum)
    power = b.layer("ReduceSum", 1, power, b.c([3]), keep_dims=False)
    power = b.layer("Add", 1, power, b.c(np.float32(1e-7)))
    mask = b.mask(b.layer("Sqrt", 1, power), 257)
    masked = b.layer("Multiply", 1, spectrum, b.layer("Unsqueeze", 1, mask, b.c([3])))
    y = b.dense(b.layer("IRDFT", 9, masked, b.c([2])), 512, 256)
    y = b.layer("Multiply", 1, y, b.mask(b.normalized(y), 256))
    b.result(b.dense(y, 256, 512), "y")
    return b.model()


def _forecast() -> Model:
    """The next values of 16 series, by two LSTMs."""
    b = _Layers("forecast")
    x = b.parameter("x", "f32", [1, None, 16])
    y = b.recurrent("LSTM", b.recurrent("LSTM", x, 16, 128)[0], 128, 128)[0]
    b.result(b.dense(y, 128, 16), "y")
    return b.model()


def _conformer(blocks: int = 1) -> Model:
    """Causal blocks of a Conformer, each of half a feed-forward part, attention over 64 frames, a
    convolution, and the other half.
    """
    b, width = _Layers("conformer"), 144
    y = b.parameter("x", "f32", [1, None, width])

    def forward(own: Source) -> Source:
        wide = b.dense(b.normalized(own), width, 4 * width)
        narrow = b.dense(b.layer("Swish", 4, wide), 4 * width, width)
        return b.layer("Add", 1, own, b.layer("Multiply", 1, narrow, b.c(np.float32(0.5))))

    pads: dict[str, Any] = {"pads_begin": [14], "pads_end": [0]}
    for _ in range(blocks):
        y = forward(y)
        y = b.layer("Add", 1, y, b.attention(b.normalized(y), width, 4))
        first, second = b.add(
            "Split", 1, b.dense(b.normalized(y), width, 2 * width), b.c(2), num_splits=2
        )
        h = b.turned(b.layer("Multiply", 1, first, b.layer("Sigmoid", 1, second)))
        h = b.layer(
            *("GroupConvolution", 1, h, b.w(width, 1, 1, 15)), strides=[1], dilations=[1], **pads
        )
        h = b.dense(b.layer("Swish", 4, b.turned(h)), width, width)
        y = b.normalized(forward(b.layer("Add", 1, y, h)))
    b.result(y, "y")
    return b.model()


STREAMS = (
    Stream("convolution and LSTM gate", _gate, {"x": 1}),
    Stream("TCN, 6 dilated convolutions of 64", _tcn, {"x": 1}),
    Stream("GRU 2 x 256 tagger", _tagger, {"x": 1}, cells=_tagger_cells),
    Stream("attention, 4 heads, 64 frames", _attention, {"x": 1}),
    Stream("denoiser of DTLN's kind", _denoiser, {"x": 1}),
    Stream("forecast by LSTM, 2 x 128", _forecast, {"x": 1}),
    Stream("Conformer block of 144, causal", _conformer, {"x": 1}),
    Stream("Conformer, 4 blocks of 144, causal", lambda: _conformer(4), {"x": 1}),
)


def recommender(best: bool) -> Model:
    """The session recommender: a table of 1,683 items, a GRU of 128, scores of all, or the best 10
    as numbers of items.
    """
    b = _Layers("recommender")
    items = b.parameter("items", "i64", [None, None])
    table = b.w(1683, 64)
    rows = b.layer("Gather", 8, table, items, b.c(np.int64(0)), batch_dims=0)
    _, last = b.recurrent("GRU", rows, 64, 128)
    scores = b.layer("MatMul", 1, last, b.w(64, 128), transpose_b=True)
    scores = b.layer("MatMul", 1, scores, table, transpose_b=True)
    if best:
        kind: dict[str, Any] = {"mode": "max", "sort": "value", "index_element_type": "i32"}
        scores = b.add("TopK", 11, scores, b.c(np.int32(10)), axis=-1, **kind)[0]
    b.result(scores, "scores")
    return b.model()


def of_files(folder: Path) -> Iterator[Stream]:
    """The models of `--models` that are known to stream."""
    for name in (*_FILES, *_STATES):
        path = folder / name / "model.xml"
        if path.exists():
            axes, states = _FILES.get(name, {}), _STATES.get(name)
            yield Stream(name, lambda path=path: read_model(path), axes, states=states)  # type: ignore[misc]
