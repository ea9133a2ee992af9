"""Which kernels come with the package: the list of them, made from plans of models.

    python -m tools.kernel_list --models FOLDER [--models FOLDER ..]     # writes tools/kernels.txt

A folder has models in folders, each model.xml with inputs.npz. They are planned for every level of
`PLANNED` (`tools/kernel_plans.py`), together with the models of examples/, with calls of all
functions of `uncork.functional`, and with the cases below: tables and sequences as the four
operations that uncork exists for have them. A line of the list: the levels that want a kernel, and
its spec. `tools/kernel_bundle.py` compiles what the list says.
"""

from __future__ import annotations

import argparse
import itertools
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.stored_weights import Form

import uncork
from tools.kernel_bundle import LIST
from uncork import functional as F
from uncork.ir.model import Source
from uncork.kernels.kernel_spec import KernelSpec
from uncork.kernels.runtime.target import LEVELS
from uncork.types import PartialShape

ROOT = Path(__file__).resolve().parent.parent
#: The levels that models are planned for, and the bundles that have what they want: kernels of f32
#: are the same where a level only adds instructions for small integers and bf16.
PLANNED = {
    "x86-64-v3": ("x86-64-v3", "x86-64-v3-avxvnni"),
    "x86-64-v3-avxvnni": ("x86-64-v3-avxvnni",),
    "x86-64-v4": ("x86-64-v4", "x86-64-v4-vnni", "x86-64-v4-bf16"),
    "x86-64-v4-vnni": ("x86-64-v4-vnni", "x86-64-v4-bf16"),
    "aarch64-dotprod": ("aarch64", "aarch64-dotprod"),
}
#: Numbers in a row of an embedding table.
WIDTHS = (
    *(1, 2, 4, 8, 10, 12, 16, 20, 24, 32, 40, 48, 50, 64, 80, 96, 100, 128, 150, 160, 192, 200),
    *(256, 300, 320, 384, 400, 512, 640, 768, 1024),
)
#: Those in other types than f32.
FEW_WIDTHS = (16, 32, 64, 100, 128, 256, 384, 512, 768)
Call = Callable[[], Any]


def lookups() -> Iterator[tuple[str, Call]]:
    """Calls of bags, segments and gathers."""
    ids, bags = np.array([1, 2, 0, 1]), np.array([0, 2])
    segments = np.array([0, 0, 1, 1])
    for width, stored in [
        *itertools.product(WIDTHS, ["f32"]),
        *itertools.product(FEW_WIDTHS, ["f16"]),
    ]:
        table = np.ones((3, width), {"f32": "f4", "f16": "f2", "f64": "f8"}[stored])
        weights = np.ones(4, table.dtype)
        for kind in (np.int64, np.int32):
            i, b, s, r = (a.astype(kind) for a in (ids, bags, segments, ids.reshape(2, 2)))
            more = (None, weights) if stored == "f32" else (None,)
            name = f"{width} {stored} {kind.__name__}"
            for w in more:
                yield (
                    name,
                    lambda t=table, i=i, b=b, w=w: F.embedding_bag_offsets_sum(
                        t, i, b, per_sample_weights=w
                    ),
                )
                yield (
                    name,
                    lambda t=table, r=r, w=w: F.embedding_bag_packed_sum(
                        t, r, None if w is None else w.reshape(2, 2)
                    ),
                )
                yield (
                    name,
                    lambda t=table, i=i, s=s, w=w: F.embedding_segments_sum(
                        t, i, s, 2, per_sample_weights=w
                    ),
                )
            yield name, lambda t=table, i=i, b=b: F.embedding_bag_offsets(t, i, b, reduction="mean")
            yield name, lambda t=table, r=r: F.embedding_bag_packed(t, r, reduction="mean")
            yield name, lambda t=table, i=i: F.gather(t, i, 0)
            yield name, lambda t=table, r=r: F.gather(t, r, 0)


def sequences() -> Iterator[tuple[str, Call]]:
    """Calls of recurrent layers: their kernels are for any sizes."""
    gates = {"gru": 3, "lstm": 4, "rnn": 1}
    for cell, directions, dtype in itertools.product(gates, (1, 2), (np.float32, np.float64)):
        n, hidden, size = 2, 4, 5
        g = gates[cell]
        x = np.ones((n, 3, size), dtype)
        states = [np.zeros((n, directions, hidden), dtype)] * (2 if cell == "lstm" else 1)
        w = np.ones((directions, g * hidden, size), dtype)
        r = np.ones((directions, g * hidden, hidden), dtype)
        direction = "bidirectional" if directions == 2 else "forward"
        for lengths, after in itertools.product((np.int64, np.int32), (False, True)):
            if after and cell != "gru":
                continue
            b = np.ones((directions, (g + after) * hidden), dtype)
            steps = np.full(n, 3, lengths)
            options = {"linear_before_reset": True} if after else {}
            function = getattr(F, f"{cell}_sequence")
            yield (
                f"{cell} {directions}",
                lambda a=(x, *states, steps, w, r, b), d=direction, o=options, f=function: f(
                    *a, direction=d, **o
                ),
            )
            if directions == 1:
                function = getattr(F, f"{cell}_cell")
                one = [x[:, 0], *(s[:, 0] for s in states), w[0], r[0], b[0]]
                yield f"{cell} cell", lambda a=tuple(one), o=options, f=function: f(*a, **o)


def examples_of_operations() -> Iterator[tuple[str, Call]]:
    """The worked examples of all operations, by the functions that are made of the registry."""
    from tests.functional.test_generated import samples

    from uncork.functional._generated import TYPES
    from uncork.ops import versions_of

    for parameter in samples():
        name, sample = parameter.values
        versions = versions_of(TYPES[name])
        operation = versions[max(versions)]
        inputs: list[Any] = list(sample.case.inputs)
        if operation.inputs and operation.inputs[-1].variadic:
            fixed = len(operation.inputs) - 1
            inputs = [*inputs[:fixed], inputs[fixed:]]
        function, options = getattr(F, name), sample.case.attributes
        yield name, lambda f=function, a=tuple(inputs), o=options: f(*a, **o)


def shown_by_the_readme() -> Iterator[tuple[str, Call]]:
    """The functions on plain arrays that the README shows: whoever types them has no compiler."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for block in re.findall(r"(?s)```python\n(.*?)```", text):
        if "import functional" in block:
            words: dict[str, Any] = {"np": np}
            for line in block.splitlines():
                if line.startswith("F."):
                    yield line, lambda line=line, words=words: eval(line, words)
                else:
                    exec(line, words)


class _Model:
    """A model under construction, with tables and weights of random numbers."""

    def __init__(self, name: str) -> None:
        self.builder = uncork.Builder(name)
        self._numbers = np.random.default_rng(1)

    def table(self, *shape: int) -> Source:
        values = self._numbers.standard_normal(shape).astype(np.float32)
        return self.builder.constant(values)

    def integers(self, *values: int) -> Source:
        return self.builder.constant(np.array(values))

    def add(self, type_name: str, opset: int, *inputs: Source, **attributes: Any) -> Source:
        return self.builder.add(type_name, opset, *inputs, **attributes)[0]

    def open(self, name: str, kind: str, rank: int) -> Source:
        return self.builder.parameter(name, kind, [None] * rank)

    def sizes_of(self, source: Source) -> list[Source]:
        """The sizes of a tensor of two dimensions, each as a tensor of one number."""
        shape, one = self.add("ShapeOf", 3, source), self.integers(1)
        masks = {"begin_mask": [0], "end_mask": [0]}
        return [
            self.add("StridedSlice", 1, shape, self.integers(n), self.integers(n + 1), one, **masks)
            for n in range(2)
        ]


def looked_up_sequences() -> Iterator[uncork.Model]:
    """Models of a recurrent layer over looked-up rows, as recommenders and taggers have them."""
    gates = {"GRU": 3, "LSTM": 4, "RNN": 1}
    for cell, kind, lengths, converts in itertools.product(
        gates, ("i64", "i32"), (True, False), (False, True)
    ):
        m = _Model(f"{cell} {kind}")
        ids, g = m.open("ids", kind, 2), gates[cell]
        batch, time = m.sizes_of(ids)
        rows = m.add("Convert", 1, ids, destination_type="i32") if converts else ids
        x = m.add("Gather", 8, m.table(50, 16), rows, m.builder.constant(np.int64(0)))
        sizes = m.add("Concat", 1, batch, m.integers(1), m.integers(24), axis=0)
        state = m.add("Broadcast", 3, m.builder.constant(np.float32(0)), sizes)
        steps = m.open("lengths", kind, 1) if lengths else m.add("Broadcast", 3, time, batch)
        outputs = m.builder.add(
            f"{cell}Sequence", 5, x, *[state] * (2 if cell == "LSTM" else 1), steps,
            m.table(1, g * 24, 16), m.table(1, g * 24, 24), m.table(1, g * 24),
            hidden_size=24, direction="forward",
        )  # fmt: skip
        for output in outputs:
            m.builder.result(output)
        yield m.builder.model()


def looked_up_rows() -> Iterator[uncork.Model]:
    """Models of bags and gathers whose tables are constants, with ids as converters write them."""
    for width, kind, converts in itertools.product(WIDTHS, ("i64", "i32"), (False, True)):
        m = _Model(f"rows of {width}")
        ids, bags, pairs = m.open("ids", kind, 1), m.open("bags", kind, 1), m.open("pairs", kind, 2)
        segments = m.open("segments", kind, 1)
        if converts:
            ids, bags, pairs, segments = (
                m.add("Convert", 1, s, destination_type="i32") for s in (ids, bags, pairs, segments)
            )
        table, count = m.table(30, width), m.open("count", kind, 0)
        weights = m.open("weights", "f32", 1)
        default = m.builder.constant(
            np.array(-1, np.int32 if converts or kind == "i32" else np.int64)
        )
        axis = m.builder.constant(np.int64(0))
        if converts:
            count = m.add("Convert", 1, count, destination_type="i32")
        for output in (
            m.add("EmbeddingBagOffsetsSum", 3, table, ids, bags),
            m.add("EmbeddingBagOffsetsSum", 3, table, ids, bags, default, weights),
            m.add("EmbeddingBagOffsets", 15, table, ids, bags, reduction="mean"),
            m.add("EmbeddingBagPackedSum", 3, table, pairs),
            m.add("EmbeddingBagPacked", 15, table, pairs, reduction="mean"),
            m.add("EmbeddingSegmentsSum", 3, table, ids, segments, count),
            m.add("Gather", 8, table, ids, axis),
            m.add("Gather", 8, table, pairs, axis),
        ):
            m.builder.result(output)
        yield m.builder.model()


def stored_products() -> Iterator[uncork.Model]:
    """Products of rows by matrices of 8 and 4 bits, as compressed language models have them."""
    forms = [Form("i8"), Form("u8"), *(Form(kind, 128) for kind in ("i8", "u8"))]
    forms += [Form(kind, group) for kind in ("i4", "u4") for group in (0, 32, 64, 128)]
    for form in forms:
        m = _Model(form.name)
        x = m.builder.parameter("x", "f32", [None, None, 256])
        m.builder.result(m.add("MatMul", 1, x, form.matrix(m.builder, 256, 192), transpose_b=True))
        table = form.matrix(m.builder, 256, 300, seed=1)
        ids = m.open("ids", "i64", 2)
        m.builder.result(m.add("Gather", 8, table, ids, m.builder.constant(np.int64(0))))
        yield m.builder.model()


def kept_rows() -> Iterator[tuple[uncork.Model, Any]]:
    """Attention over keys and values that a decoder keeps, and what they are kept in: heads of
    their own, and heads that share them.
    """
    for head, kept, shared, masked in itertools.product(
        (64, 128), ("f16", "u8"), (1, 4), (False, True)
    ):
        m = _Model(f"decoder, {kept}")
        query = m.builder.parameter("query", "f32", [None, 2 * shared, None, head])
        rows = []
        for name in ("key", "value"):
            new = m.builder.parameter(name, "f32", [None, 2, None, head])
            given = {"variable_id": name, "variable_type": "f32"}
            shape = PartialShape([None, 2, None, head])
            old = m.add("ReadValue", 6, variable_shape=shape, **given)
            whole = m.add("Concat", 1, old, new, axis=2)
            m.add("Assign", 6, whole, variable_id=name)
            if shared > 1:
                apart = m.add("Unsqueeze", 1, whole, m.integers(2))
                ones = m.integers(1, 1, shared, 1, 1)
                many = m.add("Broadcast", 3, apart, ones, mode="bidirectional")
                sizes = m.integers(0, 2 * shared, -1, head)
                whole = m.add("Reshape", 1, many, sizes, special_zero=True)
            rows.append(whole)
        mask = [m.builder.parameter("mask", "f32", [None, 1, None, None])] * masked
        seen = m.add("ScaledDotProductAttention", 13, query, *rows, *mask, causal=False)
        m.builder.result(seen)
        yield m.builder.model(), kept


def quantized_layers() -> Iterator[uncork.Model]:
    """Networks of convolutions and products between FakeQuantize layers, as post-training
    quantization writes them.
    """
    for channels, size in itertools.product((16, 64, 256), (None, 56)):
        m = _Model(f"quantized, {channels}")

        def levels(x: Source, low: float, m: _Model = m) -> Source:
            ends = [m.builder.constant(np.full((1,), n, np.float32)) for n in (low, 2.5)]
            return m.add("FakeQuantize", 1, x, *ends, *ends, levels=256)

        def weights(*shape: int, m: _Model = m) -> Source:
            codes = np.random.default_rng(shape[0]).integers(-127, 128, shape).astype(np.int8)
            numbers = m.add("Convert", 1, m.builder.constant(codes), destination_type="f32")
            per_output = (*shape[: 2 if len(shape) > 4 else 1], *[1] * (len(shape) - 1))
            scale = m.builder.constant(np.full(per_output[: len(shape)], 0.004, np.float32))
            return m.add("Multiply", 1, numbers, scale)

        def convolved(
            x: Source, filters: Source, name: str, pad: int, stride: int, m: _Model = m
        ) -> Source:
            pads = {"pads_begin": [pad] * 2, "pads_end": [pad] * 2, "dilations": [1, 1]}
            y = m.add(name, 1, x, filters, strides=[stride] * 2, **pads)
            return m.add("Add", 1, y, m.table(1, m.builder.spec(y).shape[1].low, 1, 1))

        x = m.builder.parameter("x", "f32", [1, 3, size, size])
        y = levels(x, -2.5)
        y = levels(
            m.add("ReLU", 1, convolved(y, weights(channels, 3, 3, 3), "Convolution", 1, 2)), 0
        )
        for stride in (1, 2):
            short = y
            y = convolved(y, weights(channels, channels, 3, 3), "Convolution", 1, stride)
            y = levels(m.add("ReLU", 1, y), 0)
            y = convolved(y, weights(channels, 1, 1, 3, 3), "GroupConvolution", 1, 1)
            y = levels(m.add("Clamp", 1, y, min=0.0, max=6.0), 0)
            y = levels(convolved(y, weights(channels, channels, 1, 1), "Convolution", 0, 1), -2.5)
            if stride == 1:
                y = levels(m.add("ReLU", 1, m.add("Add", 1, y, short)), 0)
        axes = m.integers(2, 3)
        y = levels(m.add("ReduceMean", 1, y, axes, keep_dims=False), -2.5)
        m.builder.result(m.add("MatMul", 1, y, weights(10, channels), transpose_b=True))
        yield m.builder.model()


def asked_by(level: str, folders: Sequence[Path]) -> list[KernelSpec]:
    """The kernels of a level; what cannot be planned is told."""
    from tools.kernel_plans import plan_folders, plan_functions, planning_for
    from uncork.compiler.compile import compile_for, settled
    from uncork.compiler.options import Options

    target = LEVELS[level]
    with planning_for(target) as asked:
        plan_functions(
            itertools.chain(lookups(), sequences(), examples_of_operations(), shown_by_the_readme())
        )
        for model in itertools.chain(
            looked_up_rows(), looked_up_sequences(), stored_products(), quantized_layers()
        ):
            compile_for(model, target, 4).prepare()
        fast = Options(precision="fast", target=level)
        for model in stored_products():
            made = settled(model, fast, elsewhere=True)
            compile_for(made.model, target, 4, made.precision).prepare()
        for model, kept in kept_rows():
            options = Options(kv_cache_precision=kept, target=level)
            compile_for(settled(model, options, elsewhere=True).model, target, 4).prepare()
        for problem in plan_folders(folders, target):
            print(f"{level}: {problem}", file=sys.stderr)
    return list(asked.specs)


def models_in(folders: Sequence[Path]) -> list[Path]:
    """The folders of models under these, and of examples/."""
    found = [path.parent for folder in folders for path in sorted(folder.glob("*/model.xml"))]
    return [*sorted(path.parent for path in ROOT.glob("examples/*/model.xml")), *found]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", action="append", type=Path, default=[], metavar="FOLDER")
    parser.add_argument("--only", choices=[*PLANNED], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only:
        for spec in asked_by(options.only, models_in(options.models)):
            print(repr(spec))
        return 0
    command = [sys.executable, "-m", "tools.kernel_list"]
    command += [f"--models={folder.resolve()}" for folder in options.models]
    running = {
        level: subprocess.Popen([*command, "--only", level], stdout=subprocess.PIPE, text=True)
        for level in PLANNED
    }
    texts = {level: process.communicate()[0] for level, process in running.items()}
    if any(process.returncode for process in running.values()):
        return 1
    LIST.write_text(listed(texts), encoding="utf-8")
    return 0


def listed(texts: Mapping[str, str]) -> str:
    """The list, from the specs that are wanted for each planned level, a line for each."""
    wanted: dict[str, dict[str, None]] = {}
    for level, text in texts.items():
        for spec in text.splitlines():
            wanted.setdefault(spec, {}).update(dict.fromkeys(PLANNED[level]))
    return "".join(f"{','.join(levels)}\t{spec}\n" for spec, levels in sorted(wanted.items()))


if __name__ == "__main__":
    sys.exit(main())
