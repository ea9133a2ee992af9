"""`python -m benchmarks embed`: batches of texts through encoders in the sizes of embedding models
and rerankers, in f32, in bf16 where the processor has it, and with weights stored in 8 and 4 bits,
beside OpenVINO.

Each encoder has two layers of those it is named after, random weights, and a mean over the tokens
of a text as its end, the mask among its inputs. That of DeBERTa adds to its scores the products of
queries and keys with 512 vectors of distances, picked by GatherElements.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.options import Options
from benchmarks.report import Report, markdown_table
from benchmarks.stored_weights import Form
from benchmarks.timing import measure
from benchmarks.weights import MODES, THEIRS, contenders
from uncork import Builder, write_model
from uncork.compiler.execute import kernel_target
from uncork.ir.model import Model, Source
from uncork.kernels.stored_types import multiplies_pairs

LAYERS, TOKENS, DISTANCES = 2, 64, 512
BATCHES = (1, 8, 64)
#: f32, 8 bits by columns, and 4 in groups.
FORMS = (None, Form("i8"), Form("u4", 64))
#: Ours: those of stored weights, and of others.
_WAYS = (*MODES, "bf16")


@dataclass(frozen=True)
class Size:
    """The sizes of an encoder: numbers of a token, inner ones, heads, and words, of which a table
    has at most 32,768 here.
    """

    name: str
    width: int
    inner: int
    heads: int
    words: int
    distances: bool = False


SIZES = (
    Size("MiniLM", 384, 1536, 12, 30522),
    Size("BERT", 768, 3072, 12, 30522),
    Size("DeBERTa", 768, 3072, 12, 32768, distances=True),
    Size("XLM-R large", 1024, 4096, 16, 32768),
)


@dataclass(frozen=True)
class _Result:
    """Seconds of a batch, minimum and median, by the way of computing it."""

    model: str
    form: str
    batch: int
    seconds: dict[str, tuple[float, float]]


class Encoder:
    """The layers of an encoder."""

    def __init__(self, size: Size, form: Form | None) -> None:
        self.size, self.form, self.builder, self.made = size, form, Builder(size.name), 0
        self.generator = np.random.default_rng(1)

    def add(self, kind: str, opset: int, *inputs: Source, **given: Any) -> Source:
        return self.builder.add(kind, opset, *inputs, **given)[0]

    def numbers(self, *numbers: int) -> Source:
        return self.builder.constant(np.array(numbers, np.int64))

    def floats(self, *shape: int) -> Source:
        array = self.generator.standard_normal(shape) / math.sqrt(shape[-1])
        return self.builder.constant(array.astype(np.float32))

    def linear(self, x: Source, inner: int, columns: int) -> Source:
        self.made += 1
        if self.form is None:
            matrix = self.floats(columns, inner)
        else:
            matrix = self.form.matrix(self.builder, inner, columns, self.made)
        product = self.add("MatMul", 1, x, matrix, transpose_b=True)
        return self.add("Add", 1, product, self.floats(1, columns))

    def norm(self, x: Source) -> Source:
        given = {"normalize_variance": True, "eps": 1e-12, "eps_mode": "inside_sqrt"}
        centred = self.add("MVN", 6, x, self.numbers(-1), **given)
        scaled = self.add("Multiply", 1, centred, self.floats(self.size.width))
        return self.add("Add", 1, scaled, self.floats(self.size.width))

    def heads(self, x: Source) -> Source:
        head = self.size.width // self.size.heads
        apart = self.add(
            "Reshape", 1, x, self.numbers(0, 0, self.size.heads, head), special_zero=True
        )
        return self.add("Transpose", 1, apart, self.numbers(0, 2, 1, 3))

    def by_distance(self, x: Source) -> Source:
        """The products with vectors of distances, one for each place."""
        head = self.size.width // self.size.heads
        vectors = self.floats(1, self.size.heads, DISTANCES, head)
        products = self.add("MatMul", 1, x, vectors, transpose_b=True)
        place = np.arange(TOKENS)
        distance = np.clip(place[:, None] - place[None] + DISTANCES // 2, 0, DISTANCES - 1)
        shape = self.add("ShapeOf", 3, products)
        kept = self.add("Gather", 8, shape, self.numbers(0, 1, 2), self.numbers(0))
        wanted = self.add("Concat", 1, kept, self.numbers(TOKENS), axis=0)
        index = self.builder.constant(distance.astype(np.int64)[None, None])
        picked = self.add("Broadcast", 3, index, wanted, mode="numpy")
        return self.add("GatherElements", 6, products, picked, axis=3)

    def attention(self, x: Source, mask: Source) -> Source:
        width, head = self.size.width, self.size.width // self.size.heads
        q, k, v = (self.heads(self.linear(x, width, width)) for _ in range(3))
        scores = self.add("MatMul", 1, q, k, transpose_b=True)
        if self.size.distances:
            scores = self.add("Add", 1, scores, self.by_distance(q))
            turned = self.add("Transpose", 1, self.by_distance(k), self.numbers(0, 1, 3, 2))
            scores = self.add("Add", 1, scores, turned)
        scale = self.builder.constant(np.float32(1 / math.sqrt(head)))
        scores = self.add("Add", 1, self.add("Multiply", 1, scores, scale), mask)
        seen = self.add("MatMul", 1, self.add("SoftMax", 8, scores, axis=-1), v)
        turned = self.add("Transpose", 1, seen, self.numbers(0, 2, 1, 3))
        flat = self.add("Reshape", 1, turned, self.numbers(0, 0, width), special_zero=True)
        return self.linear(flat, width, width)

    def model(self) -> Model:
        width, inner = self.size.width, self.size.inner
        ids = self.builder.parameter("ids", "i64", [None, TOKENS])
        given = self.builder.parameter("mask", "f32", [None, TOKENS])
        one = self.builder.constant(np.float32(1))
        away = self.builder.constant(np.float32(-1e9))
        mask = self.add("Multiply", 1, self.add("Subtract", 1, one, given), away)
        mask = self.add("Unsqueeze", 1, mask, self.numbers(1, 2))
        table = self.floats(min(self.size.words, 1 << 15), width)
        x = self.add("Gather", 8, table, ids, self.builder.constant(np.int64(0)))
        x = self.norm(self.add("Add", 1, x, self.floats(1, TOKENS, width)))
        for _ in range(LAYERS):
            x = self.norm(self.add("Add", 1, x, self.attention(x, mask)))
            wide = self.add("Gelu", 7, self.linear(x, width, inner), approximation_mode="ERF")
            x = self.norm(self.add("Add", 1, x, self.linear(wide, inner, width)))
        weights = self.add("Unsqueeze", 1, given, self.numbers(2))
        total = self.add(
            "ReduceSum", 1, self.add("Multiply", 1, x, weights), self.numbers(1), keep_dims=False
        )
        count = self.add("ReduceSum", 1, given, self.numbers(1), keep_dims=True)
        self.builder.result(self.add("Divide", 1, total, count), "embeddings")
        return self.builder.model()


def main(options: Options) -> int:
    """All sizes and forms."""
    openvino = options.peers.get("openvino")
    results: list[_Result] = []
    report = Report("embed", options)
    for size in SIZES[:1] if options.quick else SIZES:
        for form in FORMS:
            if options.wants(f"{size.name}, {_name(form)}"):
                for result in _measured(size, form, openvino, options):
                    results.append(result)
                    print("  ".join(_cells(result)), flush=True)
                report.write({"embed": [asdict(r) for r in results]}, _page(results))
    if not results:
        print("no such model is measured")
        return 2
    report.say()
    return 0


def _name(form: Form | None) -> str:
    return "f32" if form is None else form.name


def _measured(size: Size, form: Form | None, openvino: Any, options: Options) -> Iterator[_Result]:
    generator = np.random.default_rng(2)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.xml"
        write_model(Encoder(size, form).model(), path)
        for batch in BATCHES[:1] if options.quick else BATCHES:
            ids = generator.integers(0, min(size.words, 1 << 15), (batch, TOKENS))
            lengths = generator.integers(TOKENS // 4, TOKENS + 1, (batch, 1))
            mask = (np.arange(TOKENS)[None] < lengths).astype(np.float32)

            given = ids, mask

            def call(compiled: Any, theirs: bool, given: Any = given) -> Callable[[int], Any]:
                if theirs:
                    return lambda _: compiled.infer([*given], share_inputs=True).to_tuple()
                return lambda _: compiled(*given).values()

            modes = dict(MODES if form is not None else _modes_of_f32())
            ways = contenders(path, openvino, options.threads, call, modes)
            for way in ways:
                way.call(0)
            samples = measure(ways, 1, options.seconds)
            seconds = {way.name: samples[way.name][:2] for way in ways}
            yield _Result(size.name, _name(form), batch, seconds)


def _modes_of_f32() -> dict[str, dict[str, str]]:
    target = kernel_target()
    has_bf16 = target is not None and multiplies_pairs(target)
    return {"as written": {}, **({"bf16": {"precision": "bf16"}} if has_bf16 else {})}


def _cells(result: _Result) -> list[str]:
    def ratio(name: str) -> str:
        theirs, ours = result.seconds.get("openvino"), result.seconds.get(name)
        return f"{theirs[0] / ours[0]:.2f}" if theirs and ours else "-"

    times = [
        f"{result.seconds[name][0] * 1e3:.2f}" if name in result.seconds else "-"
        for name in (*_WAYS, *THEIRS)
    ]
    return [result.model, result.form, str(result.batch), *times, *map(ratio, _WAYS)]


def _page(results: Sequence[_Result]) -> str:
    head = ["sizes of", "weights", "texts"]
    head += [f"{name}, ms" for name in (*_WAYS, *THEIRS)]
    head += [f"openvino / {name}" for name in _WAYS]
    lines = [
        f"Milliseconds of a batch of texts of {TOKENS // 4} to {TOKENS} tokens, padded to "
        f"{TOKENS}, {LAYERS} layers; minimum; every contender by turns in one process.",
        markdown_table(head, [_cells(result) for result in results]),
    ]
    return "\n\n".join(lines)
