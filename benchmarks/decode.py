"""`python -m benchmarks decode`: a token and a prompt of a decoder in the widths of a language
model of 0.5 B parameters, with weights stored in few bits, beside OpenVINO.

The decoder keeps keys and values in variables, as converters write it: 14 heads of 64 that share
two heads of keys and values, SwiGLU, RMS norms, random weights. It has 8 layers of the 24, and
32,768 words of the 151,936, so that it fits in little memory; positions are not rotated.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
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
from uncork.ir.model import Model, Source
from uncork.types import Array, PartialShape

LAYERS, WIDTH, INNER, HEADS, SHARED, HEAD, WORDS = 8, 896, 4864, 14, 2, 64, 1 << 15
FORMS = (Form("u4", 64), Form("i4", 128), Form("u8"), Form("i8"))
#: Tokens before the one that is timed.
_PAST = 64
PROMPTS = (128, 512)


@dataclass(frozen=True)
class _Result:
    """Seconds, minimum and median, of a token or of a prompt, by the way of computing it."""

    form: str
    what: str
    seconds: dict[str, tuple[float, float]]


class _Decoder:
    """The layers of a decoder."""

    def __init__(self, form: Form) -> None:
        self.form, self.builder, self.made = form, Builder("decoder"), 0

    def add(self, kind: str, opset: int, *inputs: Source, **given: Any) -> Source:
        return self.builder.add(kind, opset, *inputs, **given)[0]

    def numbers(self, *numbers: int) -> Source:
        return self.builder.constant(np.array(numbers, np.int64))

    def linear(self, x: Source, inner: int, columns: int) -> Source:
        self.made += 1
        matrix = self.form.matrix(self.builder, inner, columns, self.made)
        return self.add("MatMul", 1, x, matrix, transpose_b=True)

    def norm(self, x: Source) -> Source:
        two, small = (self.builder.constant(np.float32(n)) for n in (2, 1e-6))
        mean = self.add(
            "ReduceMean", 1, self.add("Power", 1, x, two), self.numbers(-1), keep_dims=True
        )
        root = self.add("Sqrt", 1, self.add("Add", 1, mean, small))
        weights = self.builder.constant(np.ones(WIDTH, np.float32))
        return self.add("Multiply", 1, self.add("Divide", 1, x, root), weights)

    def heads(self, x: Source, count: int) -> Source:
        apart = self.add("Reshape", 1, x, self.numbers(0, 0, count, HEAD), special_zero=True)
        return self.add("Transpose", 1, apart, self.numbers(0, 2, 1, 3))

    def kept(self, new: Source, name: str, beam: Source, empty: Source) -> Source:
        shape = PartialShape([None, SHARED, None, HEAD])
        given = {"variable_id": name, "variable_type": "f32", "variable_shape": shape}
        old = self.add("ReadValue", 6, empty, **given)
        zero = self.builder.constant(np.int64(0))
        past = self.add("Gather", 8, old, beam, zero)
        whole = self.add("Concat", 1, past, new, axis=2)
        self.builder.add("Assign", 6, whole, variable_id=name)
        # Each head of keys and values is repeated for those that share it.
        apart = self.add("Unsqueeze", 1, whole, self.numbers(2))
        ones = self.numbers(1, 1, HEADS // SHARED, 1, 1)
        many = self.add("Broadcast", 3, apart, ones, mode="bidirectional")
        shape_of = self.numbers(0, HEADS, -1, HEAD)
        return self.add("Reshape", 1, many, shape_of, special_zero=True)

    def model(self, layers: int) -> Model:
        ids = self.builder.parameter("ids", "i64", [None, None])
        beam = self.builder.parameter("beam_idx", "i32", [None])
        generator = np.random.default_rng(1)
        table = generator.standard_normal((WORDS, WIDTH)).astype(np.float16)
        words = self.add("Convert", 1, self.builder.constant(table), destination_type="f32")
        x = self.add("Gather", 8, words, ids, self.builder.constant(np.int64(0)))
        batch = self.add("Gather", 8, self.add("ShapeOf", 3, ids), self.numbers(0), self.numbers(0))
        sizes = self.add("Concat", 1, batch, self.numbers(SHARED, 0, HEAD), axis=0)
        zero = self.builder.constant(np.float32(0))
        empty = self.add("Broadcast", 3, zero, sizes, mode="numpy")
        for layer in range(layers):
            y = self.norm(x)
            q = self.heads(self.linear(y, WIDTH, WIDTH), HEADS)
            k, v = (
                self.kept(
                    self.heads(self.linear(y, WIDTH, SHARED * HEAD), SHARED),
                    f"{layer}.{name}",
                    beam,
                    empty,
                )
                for name in ("key", "value")
            )
            seen = self.add("ScaledDotProductAttention", 13, q, k, v, causal=False)
            turned = self.add("Transpose", 1, seen, self.numbers(0, 2, 1, 3))
            flat = self.add("Reshape", 1, turned, self.numbers(0, 0, WIDTH), special_zero=True)
            x = self.add("Add", 1, x, self.linear(flat, WIDTH, WIDTH))
            y = self.norm(x)
            gate = self.add("Swish", 4, self.linear(y, WIDTH, INNER))
            both = self.add("Multiply", 1, gate, self.linear(y, WIDTH, INNER))
            x = self.add("Add", 1, x, self.linear(both, INNER, WIDTH))
        self.builder.result(self.linear(self.norm(x), WIDTH, WORDS), "logits")
        return self.builder.model()


def main(options: Options) -> int:
    """All forms."""
    openvino = options.peers.get("openvino")
    results: list[_Result] = []
    report = Report("decode", options)
    for form in FORMS[:1] if options.quick else FORMS:
        if options.wants(form.name):
            for result in _measured(form, openvino, options):
                results.append(result)
                print(_line(result), flush=True)
            report.write({"decode": [asdict(r) for r in results]}, _page(results))
    if not results:
        print("no such form is measured")
        return 2
    report.say()
    return 0


def _measured(form: Form, openvino: Any, options: Options) -> Sequence[_Result]:
    beam = np.zeros(1, np.int32)
    found: list[_Result] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.xml"
        write_model(_Decoder(form).model(1 if options.quick else LAYERS), path)

        def run(compiled: Any, theirs: bool, ids: Array) -> Any:
            if theirs:
                return compiled.infer([ids, beam], share_inputs=True).to_tuple()
            return compiled(ids, beam).values()

        def token(compiled: Any, theirs: bool) -> Callable[[int], Any]:
            """A token behind `_PAST` others and those of the calls before, up to twice as many:
            then the state begins anew, in a call that takes longer.
            """
            count = [2 * _PAST]

            def call(_: int) -> Any:
                if count[0] >= 2 * _PAST:
                    compiled.reset_state()
                    run(compiled, theirs, np.arange(_PAST)[None])
                    count[0] = _PAST
                count[0] += 1
                return run(compiled, theirs, np.array([[count[0]]]))

            return call

        def prompt(length: int) -> Callable[[Any, bool], Callable[[int], Any]]:
            ids = np.arange(length)[None]

            def of(compiled: Any, theirs: bool) -> Callable[[int], Any]:
                def call(_: int) -> Any:
                    compiled.reset_state()
                    return run(compiled, theirs, ids)

                return call

            return of

        cases = {"token": token, **{f"prompt of {n}": prompt(n) for n in PROMPTS}}
        for what, case in cases.items():
            if options.quick and what == f"prompt of {PROMPTS[-1]}":
                continue
            ways = contenders(path, openvino, options.threads, case)
            for way in ways:
                way.call(0)
            samples = measure(ways, 1, options.seconds * (1 if what == "token" else 2))
            seconds = {way.name: samples[way.name][:2] for way in ways}
            found.append(_Result(form.name, what, seconds))
    return found


_HEAD = tuple(f"{name}, ms" for name in (*MODES, *THEIRS))


def _cells(result: _Result) -> list[str]:
    def ratio(name: str) -> str:
        theirs = result.seconds.get("openvino")
        return f"{theirs[0] / result.seconds[name][0]:.2f}" if theirs else "-"

    times = [
        f"{result.seconds[name][0] * 1e3:.2f}" if name in result.seconds else "-"
        for name in (*MODES, *THEIRS)
    ]
    return [*times, *map(ratio, MODES)]


def _line(result: _Result) -> str:
    return f"{result.form}, {result.what}  " + "  ".join(_cells(result))


def _page(results: Sequence[_Result]) -> str:
    head = ["form", "what", *_HEAD, *(f"openvino / {name}" for name in MODES)]
    rows = [[r.form, r.what, *_cells(r)] for r in results]
    lines = [
        "Milliseconds, minimum; every contender by turns in one process. A token comes behind 64 "
        "to 128 others.",
        markdown_table(head, rows),
    ]
    return "\n\n".join(lines)
