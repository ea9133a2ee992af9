"""`python -m benchmarks amx`: chains of layers by AMX tiles and without them, in bf16 and on codes
of one byte, beside f32 and OpenVINO's default, on a processor that has AMX.

What it must show: no chain is slower by tiles than without them (`_LEAST`), and those with many
rows or pixels are at least `_MANY` times as fast. Errors are the root mean square of the difference
from f32, over that of its result.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import contenders_openvino
from benchmarks.options import Options
from benchmarks.precision import relative_error
from benchmarks.report import Report, markdown_table
from benchmarks.timing import Contender, measure
from uncork import Builder, compile_model, write_model
from uncork.ir.model import Model, Source
from uncork.kernels.runtime.target import LEVELS, lacking
from uncork.types import Array

#: By which kernels are made: without tiles, and with them.
TARGETS = ("x86-64-v4-bf16", "x86-64-v4-amx")
_WITHOUT, _WITH, _SINGLE, _THEIRS = "without AMX", "by AMX", "f32", "OpenVINO's default"
#: Layers of a chain: those between others hold bf16, or codes.
_LAYERS = 3
_LEAST, _MANY = 1.0, 2.0
CODES, STORED = " on codes", " by 4 bits"
#: From so many rows or pixels on tiles are full.
_FULL = 32


@dataclass(frozen=True)
class Chain:
    """Layers one after the other, on an input of this shape."""

    name: str
    shape: tuple[int, ...]
    add: Callable[[Builder, Source, int], Source]
    #: Operations of a call, and rows or pixels that see the same numbers.
    operations: float
    rows: int
    #: `CODES`: what layers read is rounded to 256 levels, so that they are computed on codes of one
    #: byte; `STORED`: weights have 4 bits, and rows are multiplied as digits; else bf16.
    kind: str = ""

    def model(self) -> Model:
        builder = Builder(self.name)
        value = builder.parameter("x", "f32", list(self.shape))
        for layer in range(_LAYERS):
            if self.kind == CODES:
                value = _rounded(builder, value)
            value = self.add(builder, value, layer)
        builder.result(value, "y")
        return builder.model()


@dataclass(frozen=True)
class Result:
    """Seconds of a call, minimum and median, by the way of computing it, and errors."""

    chain: str
    seconds: dict[str, tuple[float, float]]
    errors: dict[str, float]
    operations: float
    rows: int

    @property
    def gain(self) -> float:
        """What tiles gain."""
        return self.seconds[_WITHOUT][0] / self.seconds[_WITH][0]

    @property
    def wanted(self) -> float:
        """What they should."""
        return _MANY if self.rows >= _FULL else _LEAST


def _numbers(*shape: int) -> Array:
    numbers = np.random.default_rng(sum(shape)).standard_normal(shape)
    return (numbers / np.sqrt(np.prod(shape[1:]))).astype(np.float32)


def _weights(builder: Builder, kind: str, *shape: int) -> Source:
    """Random weights; those of codes and stored ones with a scale for each output."""
    numbers = _numbers(*shape)
    if not kind:
        return builder.constant(numbers)
    bits, most = ("i8", 127) if kind == CODES else ("i4", 7)
    scales = abs(numbers).max(axis=tuple(range(1, len(shape))), keepdims=True) / np.float32(most)
    codes = builder.constant(np.rint(numbers / scales).astype(np.int8), bits)
    (whole,) = builder.add("Convert", 1, codes, destination_type="f32")
    return builder.add("Multiply", 1, whole, builder.constant(scales))[0]


def _rounded(builder: Builder, value: Source) -> Source:
    limits = [builder.constant(np.float32(limit)) for limit in (-4, 4 * 127 / 128)]
    return builder.add("FakeQuantize", 1, value, *limits, *limits, levels=256)[0]


def products(rows: int, width: int, inner: int, kind: str = "") -> Chain:
    """MatMul with Gelu (on codes ReLU) from `width` to `inner` numbers, back, and there again."""

    def add(builder: Builder, value: Source, layer: int) -> Source:
        sizes = (width, inner) if layer % 2 else (inner, width)
        weights = _weights(builder, kind, *sizes)
        (made,) = builder.add("MatMul", 1, value, weights, transpose_b=True)
        if kind == CODES:
            return builder.add("ReLU", 1, made)[0]
        return builder.add("Gelu", 7, made, approximation_mode="ERF")[0]

    operations = 2.0 * _LAYERS * rows * width * inner
    name = f"products{kind}, {rows} x {width} x {inner}"
    return Chain(name, (rows, width), add, operations, rows, kind)


def convolutions(channels: int, side: int, taps: int, kind: str = "") -> Chain:
    """Convolutions with ReLU that keep channels and sides."""

    def add(builder: Builder, value: Source, layer: int) -> Source:
        filters = _weights(builder, kind, channels, channels, taps, taps)
        (made,) = builder.add(
            "Convolution", 1, value, filters, strides=[1, 1], dilations=[1, 1],
            pads_begin=[taps // 2] * 2, pads_end=[taps // 2] * 2,
        )  # fmt: skip
        return builder.add("ReLU", 1, made)[0]

    operations = 2.0 * _LAYERS * (channels * side * taps) ** 2
    name = f"convolutions{kind} {taps}x{taps}, {channels} channels, {side}x{side}"
    return Chain(name, (1, channels, side, side), add, operations, side * side, kind)


def attentions(heads: int, size: int, rows: int) -> Chain:
    """Attention of rows to each other, with the products before and behind it."""
    width = heads * size

    def product(builder: Builder, value: Source) -> Source:
        return builder.add(
            "MatMul", 1, value, _weights(builder, "", width, width), transpose_b=True
        )[0]

    def moved(builder: Builder, value: Source, *order: int) -> Source:
        return builder.add("Transpose", 1, value, builder.constant(np.array(order)))[0]

    def shaped(builder: Builder, value: Source, *shape: int) -> Source:
        sizes = builder.constant(np.array(shape))
        return builder.add("Reshape", 1, value, sizes, special_zero=False)[0]

    def add(builder: Builder, value: Source, layer: int) -> Source:
        given = [
            moved(
                builder, shaped(builder, product(builder, value), 1, rows, heads, size), 0, 2, 1, 3
            )
            for _ in range(3)
        ]
        (made,) = builder.add("ScaledDotProductAttention", 13, *given, causal=False)
        joined = shaped(builder, moved(builder, made, 0, 2, 1, 3), rows, width)
        return product(builder, joined)

    operations = _LAYERS * (8.0 * rows * width**2 + 4.0 * rows**2 * width)
    name = f"attention, {heads} heads of {size}, {rows} rows"
    return Chain(name, (rows, width), add, operations, rows)


def recurrents(rows: int, steps: int, size: int) -> Chain:
    """LSTMs over sequences of as many numbers as they have units."""

    def add(builder: Builder, value: Source, layer: int) -> Source:
        zeros = builder.constant(np.zeros((rows, 1, size), np.float32))
        lengths = builder.constant(np.full(rows, steps))
        factors = [builder.constant(_numbers(4 * size, size)[np.newaxis]) for _ in range(2)]
        biases = builder.constant(_numbers(1, 4 * size))
        given = (value, zeros, zeros, lengths, *factors, biases)
        made, *_ = builder.add("LSTMSequence", 5, *given, hidden_size=size, direction="forward")
        return builder.add("Squeeze", 1, made, builder.constant(np.array([1])))[0]

    operations = _LAYERS * 16.0 * rows * steps * size**2
    return Chain(f"LSTMs, {rows} x {steps} x {size}", (rows, steps, size), add, operations, rows)


def chains(quick: bool) -> Iterator[Chain]:
    """What is measured; of each kind one where it has to be `quick`."""
    sizes = [(64, 56, 3), (128, 28, 3), (256, 14, 3), (512, 7, 3), (256, 56, 1), (1024, 14, 1)]
    for kind in ("", CODES, STORED):
        for width, inner in [(768, 3072)] if quick else [(768, 768), (768, 3072), (1000, 500)]:
            for rows in (32,) if quick else (2, 8, 32, 128, 197, 512):
                yield products(rows, width, inner, kind)
        for size in () if kind == STORED else sizes[2:3] if quick else sizes:
            yield convolutions(*size, kind)
    for recurrent in [(32, 16, 256)] if quick else [(1, 50, 256), (8, 50, 256), (32, 50, 512)]:
        yield recurrents(*recurrent)
    for heads in [(12, 64, 197)] if quick else [(12, 64, 197), (6, 64, 1500), (12, 32, 49)]:
        yield attentions(*heads)


def main(options: Options) -> int:
    """All chains; 1 where tiles gain too little."""
    if missing := lacking(LEVELS[TARGETS[1]]):
        print(f"{TARGETS[1]} needs {missing}, which this machine has not")
        return 2
    report, results = Report("amx", options), []
    for chain in chains(options.quick):
        if options.wants(chain.name):
            results.append(measured(chain, options))
            print(*_cells(results[-1]), sep="  ", flush=True)
            report.write({"amx": [asdict(r) for r in results]}, page(results))
    if not results:
        print("no such chain is there")
        return 2
    report.say()
    return int(any(result.gain < result.wanted for result in results))


def measured(chain: Chain, options: Options, targets: Sequence[str] = TARGETS) -> Result:
    """A chain by kernels of both targets, and by OpenVINO where it is."""
    model = chain.model()
    x = np.random.default_rng(1).standard_normal(chain.shape).astype(np.float32)

    def ours(name: str, target: str, exact: bool = False) -> Contender:
        precision: Any = "f32" if exact or chain.kind else "bf16"
        compiled = compile_model(
            model,
            threads=options.threads,
            precision=precision,
            target=target,
            exact_fake_quantize=exact,
        )
        return Contender(name, "uncork", "call", lambda _: compiled(x), lambda made: [made[0]])

    contenders = [ours(_SINGLE, targets[0], exact=True)]
    contenders += [
        ours(name, target) for name, target in zip((_WITHOUT, _WITH), targets, strict=True)
    ]
    if openvino := options.peers.get("openvino"):
        contenders.append(_theirs(openvino, model, x, options.threads))
    made = {c.name: [np.array(y) for y in c.results(c.call(0))] for c in contenders}
    right = made.pop(_SINGLE)
    errors = {name: relative_error(results, right) for name, results in made.items()}
    samples = measure(contenders, 1, options.seconds)
    seconds = {c.name: (samples[c.name].minimum, samples[c.name].median) for c in contenders}
    return Result(chain.name, seconds, errors, chain.operations, chain.rows)


def _theirs(openvino: Any, model: Model, x: Array, threads: int) -> Contender:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.xml"
        write_model(model, path)
        *_, call = contenders_openvino.of_model(openvino, path, [[x]], threads, precision=None)
    return replace(call, name=_THEIRS)


_HEAD = (
    "chain", f"{_SINGLE}, us", f"{_WITHOUT}, us", f"{_WITH}, us", f"{_THEIRS}, us", "AMX gains",
    "wanted", "GFLOP/s", "error", "OpenVINO's error",
)  # fmt: skip


def _cells(result: Result) -> list[str]:
    times = [
        "{:.1f} ({:.1f})".format(*(second * 1e6 for second in result.seconds[name]))
        if name in result.seconds
        else "-"
        for name in (_SINGLE, _WITHOUT, _WITH, _THEIRS)
    ]
    theirs = result.errors.get(_THEIRS)
    return [
        result.chain,
        *times,
        f"{result.gain:.2f}",
        f"{result.wanted:.0f}{'' if result.gain >= result.wanted else ' (**missed**)'}",
        f"{result.operations / result.seconds[_WITH][0] / 1e9:.0f}",
        f"{result.errors[_WITH]:.1e}",
        "-" if theirs is None else f"{theirs:.1e}",
    ]


def page(results: Sequence[Result]) -> str:
    """The table, and what it must show."""
    said = (
        "Microseconds of a call, minimum (median); every contender by turns in one process. By "
        f"tiles no chain may be slower than without them, and one of {_FULL} rows or pixels and "
        f"more is to be {_MANY:.0f} times as fast."
    )
    return f"{said}\n\n{markdown_table(_HEAD, [_cells(result) for result in results])}"
