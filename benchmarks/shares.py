"""`python -m benchmarks shares`: which share of the processor's arithmetic single layers reach:
products, convolutions, depthwise ones, recurrent layers; by all instructions of this processor, and
as AVX2 alone.

The arithmetic is the rate of the inner loop of a product, from the first cache, measured again
before and after each layer. Convolutions stand between 1x1 layers, as in networks, so that changes
of layout do not count; steps are timed by `compiled.profile`. Operations are those of taps on the
data: what lies outside of it needs none. Winograd's layers have fewer than they are counted with,
so they may reach more than all.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Union

import numpy as np

from benchmarks import cases_recurrent, limit_kernels, limits
from benchmarks.options import Options
from benchmarks.report import Report, markdown_table, number
from benchmarks.timing import Expected, error_of, geometric_mean
from uncork import Builder, Model, compile_model
from uncork.compiler.profile import ProfiledStep
from uncork.ir.model import Source
from uncork.kernels.runtime import target as machine
from uncork.types import Array

#: The share that is wanted, by the group's first word.
GOALS = {"products": 0.92, "convolutions": 0.85, "depthwise": 0.85, "recurrent": 0.75}
#: The level that is measured beside what the processor has.
LEVEL = "x86-64-v3"
#: The name of what is measured, in the models of products and convolutions.
LAYER = "layer"
#: Of the largest number of a result: Winograd's sums round by so much.
_TOLERANCE = 2e-5
#: An error that stands for every larger one, as JSON has no infinity.
_NONSENSE = 1e9
#: Channels of what lies before and behind the 1x1 layers around a convolution.
_AROUND = 16
#: Seconds in which the arithmetic is measured each time.
_PEAK_SECONDS = 0.03


@dataclass(frozen=True)
class Product:
    """Rows by a matrix: of `batch` pairs of matrices where that is given, and of the call where
    the matrix is no constant.
    """

    rows: int
    inner: int
    columns: int
    batch: int = 0
    constant: bool = True
    group: str = "products"

    @property
    def name(self) -> str:
        """What is multiplied."""
        times = f"{self.batch} of " if self.batch else ""
        given = "" if self.constant else ", both of the call"
        return f"{times}{self.rows}x{self.inner} by {self.inner}x{self.columns}{given}"

    @property
    def operations(self) -> float:
        """Two for each term."""
        return 2.0 * max(1, self.batch) * self.rows * self.inner * self.columns

    def made(self, generator: np.random.Generator) -> Model:
        """A model of it."""
        builder = Builder("product")
        batch = [self.batch] if self.batch else []
        x = builder.parameter("x", "f32", [*batch, self.rows, self.inner])
        shape = [*batch, self.columns, self.inner]
        if self.constant:
            matrix = builder.constant(_numbers(generator, *shape))
        else:
            matrix = builder.parameter("y", "f32", shape)
        result = builder.add("MatMul", 1, x, matrix, name=LAYER, transpose_b=True)[0]
        builder.result(result, "result")
        return builder.model()


@dataclass(frozen=True)
class Convolution:
    """A convolution of square windows over a square of pixels, padded to `size / stride` pixels of
    results where windows overlap.
    """

    group: str
    channels: int
    outputs: int
    size: int
    taps: int
    stride: int = 1
    groups: int = 1

    @property
    def name(self) -> str:
        """Its sizes."""
        by = f" by {self.stride}" if self.stride > 1 else ""
        if self.groups == self.channels == self.outputs:
            channels = str(self.channels)
        else:
            channels = f"{self.channels} to {self.outputs}"
            channels += f" in {self.groups} groups" if self.groups > 1 else ""
        return f"{self.taps}x{self.taps}{by}, {channels}, {self.size}x{self.size}"

    @property
    def pad(self) -> int:
        """Zeros on each side."""
        return self.taps // 2 if self.taps > self.stride else 0

    @property
    def along_an_axis(self) -> tuple[int, int, int, int]:
        """The size, taps, stride and pad."""
        return self.size, self.taps, self.stride, self.pad

    @property
    def operations(self) -> float:
        """Two for each tap on the data."""
        terms = self.channels // self.groups * self.outputs
        return 2.0 * terms * on_the_data(*self.along_an_axis) ** 2

    def made(self, generator: np.random.Generator) -> Model:
        """A model of it. A first layer, of three channels,
        reads the input itself.
        """
        builder, first = Builder("convolution"), self.channels == 3
        shape = [1, self.channels if first else _AROUND, self.size, self.size]
        x = builder.parameter("x", "f32", shape)
        if not first:
            x = _convolved(builder, x, _numbers(generator, self.channels, _AROUND, 1, 1))
        filters = [self.outputs, self.channels // self.groups, self.taps, self.taps]
        if self.groups > 1:
            filters[:1] = [self.groups, self.outputs // self.groups]
        given = self.stride, self.pad, LAYER
        layer = _convolved(builder, x, _numbers(generator, *filters), *given)
        around = _numbers(generator, _AROUND, self.outputs, 1, 1)
        builder.result(_convolved(builder, layer, around), "result")
        return builder.model()


@dataclass(frozen=True)
class Recurrent:
    """A recurrent layer, all of whose rows have all steps."""

    case: cases_recurrent.Sequence_
    group: str = "recurrent layers"

    @property
    def name(self) -> str:
        """The cell and its sizes."""
        return f"{self.case.cell.upper()} {self.case.name}"

    @property
    def operations(self) -> float:
        """Those of its products."""
        case = self.case
        steps = case.batch * case.steps * case.directions
        gates = cases_recurrent.GATES[case.cell]
        return 2.0 * steps * gates * case.hidden * (case.inner + case.hidden)

    def made(self, generator: np.random.Generator) -> Model:
        """A model of it."""
        weights = cases_recurrent.random_weights(self.case, generator)
        constants = [weights.w, weights.r, weights.bias(self.case)]
        lengths = np.full(self.case.batch, self.case.steps, np.int32)
        return cases_recurrent.model(self.case, constants, lengths)


Layer = Union[Product, Convolution, Recurrent]


def _depthwise(channels: int, size: int, taps: int, stride: int = 1) -> Convolution:
    return Convolution("depthwise convolutions", channels, channels, size, taps, stride, channels)


def _recurrent(*sizes: int, cell: str, after: bool = False) -> Recurrent:
    return Recurrent(cases_recurrent.Sequence_(*sizes, cell=cell, after=after))


LAYERS: tuple[Layer, ...] = (
    *(
        Product(*sizes)
        for sizes in (
            (197, 768, 3072),
            (1500, 384, 1536),
            (128, 1024, 1024),
            (16, 768, 3072),
            (49, 512, 512),
            (1000, 100, 44),
            (37, 301, 203),
        )
    ),
    Product(197, 64, 197, batch=12, constant=False),
    Product(512, 512, 512, constant=False),
    *(
        Convolution("convolutions 1x1", channels, outputs, size, 1)
        for channels, outputs, size in (
            (256, 64, 56),
            (512, 128, 28),
            (24, 72, 56),
            (1024, 256, 14),
            (512, 2048, 7),
            (36, 100, 28),
        )
    ),
    *(
        Convolution("convolutions of larger windows", *sizes)
        for sizes in (
            (64, 64, 56, 3),
            (128, 128, 28, 3),
            (256, 256, 14, 3),
            (512, 512, 7, 3),
            (20, 44, 28, 3),
            (64, 128, 56, 3, 2),
            (256, 512, 14, 3, 2),
            (48, 64, 28, 5),
            (64, 96, 56, 5, 2),
            (64, 64, 28, 7),
            (96, 192, 56, 2, 2),
        )
    ),
    *(
        Convolution("convolutions in groups", channels, channels, size, 3, 1, groups)
        for channels, size, groups in ((128, 56, 32), (160, 28, 10), (256, 14, 8), (72, 28, 9))
    ),
    *(
        Convolution("convolutions of 3 channels", 3, outputs, size, taps, stride)
        for outputs, size, taps, stride in (
            (64, 224, 7, 2),
            (32, 224, 3, 2),
            (16, 224, 3, 2),
            (24, 224, 3, 2),
            (64, 112, 3, 1),
            (96, 224, 4, 4),
            (64, 224, 11, 4),
            (384, 224, 16, 16),
        )
    ),
    *(
        _depthwise(*sizes)
        for sizes in (
            (144, 56, 3),
            (240, 28, 3),
            (40, 28, 3),
            (480, 14, 3),
            (960, 7, 3),
            (16, 56, 3),
            (96, 112, 3, 2),
            (240, 14, 5),
            (672, 14, 5),
            (1152, 7, 5),
            (240, 28, 5, 2),
            (96, 56, 7),
            (768, 7, 7),
        )
    ),
    *(
        _recurrent(*sizes, cell=cell, after=cell == "gru")
        for cell in ("gru", "lstm", "rnn")
        for sizes in (
            (16, 50, 64, 128),
            (64, 50, 64, 128),
            (16, 50, 128, 256),
            (256, 20, 64, 128),
            (1, 50, 64, 128),
            (1, 100, 256, 256),
            (1, 100, 512, 512),
        )
    ),
)


def on_the_data(size: int, taps: int, stride: int, pad: int) -> int:
    """Taps of all results along one axis that lie on the data."""
    results = (size + 2 * pad - taps) // stride + 1
    first = np.arange(results)[:, None] * stride - pad + np.arange(taps)
    return int(np.count_nonzero((first >= 0) & (first < size)))


def _numbers(generator: np.random.Generator, *shape: int) -> Array:
    return (generator.standard_normal(shape) * 0.1).astype(np.float32)


def _convolved(
    builder: Builder,
    x: Source,
    filters: Array,
    stride: int = 1,
    pad: int = 0,
    name: str = "",
) -> Source:
    kind = "GroupConvolution" if filters.ndim == 5 else "Convolution"
    given = {"strides": [stride] * 2, "dilations": [1, 1]}
    given |= {"pads_begin": [pad] * 2, "pads_end": [pad] * 2}
    return builder.add(kind, 1, x, builder.constant(filters), name=name, **given)[0]


@dataclass(frozen=True)
class _Result:
    """What a layer reached: operations and bytes in a second, the arithmetic's operations, and the
    error in units of the largest number of the result.
    """

    group: str
    layer: str
    kernel: str
    seconds: float
    operations: float
    bytes: float
    peak: float
    error: float

    @property
    def share(self) -> float:
        """Of the arithmetic."""
        return self.operations / self.seconds / self.peak

    @property
    def goal(self) -> float:
        """The share that is wanted."""
        return GOALS[self.group.split()[0]]

    @property
    def wrong(self) -> bool:
        """The kernels computed something else than the references."""
        return not self.error <= _TOLERANCE


def main(options: Options) -> int:
    """All layers that were asked for, and all of them once more by the instructions of `LEVEL`, in
    a process of its own, where the processor has more.
    """
    if not limit_kernels.available():
        print("llvmlite is not installed: there are no kernels")
        return 2
    level = machine.level_of(machine.host_target()) or "no level"
    report = Report(f"shares-{options.target}" if options.target else "shares", options)
    sections: dict[str, list[_Result]] = {level: []}
    for layer in _wanted(options):
        sections[level].append(_measured(layer, options))
        print("  ".join(_cells(sections[level][-1])), flush=True)
        _write(report, sections)
    if not sections[level]:
        print("no such layer is there")
        return 2
    if not options.target and level != LEVEL and not machine.lacking(machine.LEVELS[LEVEL]):
        sections[LEVEL] = _by_another_process(options)
        _write(report, sections)
    report.say()
    return 1 if any(r.wrong for results in sections.values() for r in results) else 0


def _wanted(options: Options) -> Iterator[Layer]:
    seen: set[str] = set()
    for layer in LAYERS:
        if options.wants(f"{layer.group}, {layer.name}"):
            if not options.quick or layer.group not in seen:
                yield layer
            seen.add(layer.group)


def _by_another_process(options: Options) -> list[_Result]:
    """What this command finds by the instructions of `LEVEL`: a process makes kernels for one
    target.
    """
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "benchmarks", "shares", "--target", LEVEL]
        command += ["--out", folder, "--seconds", str(options.seconds)]
        command += ["--threads", str(options.threads), "--only", options.only.pattern]
        command += ["--quick"] if options.quick else []
        root = Path(__file__).resolve().parents[1]
        subprocess.run(command, cwd=root, check=False, stdout=subprocess.DEVNULL)
        (path,) = Path(folder).glob("*.json")
        told = json.loads(path.read_text(encoding="utf-8"))["shares"]
    results = [_Result(**one) for one in told[LEVEL]]
    for result in results:
        print("  ".join(_cells(result)), flush=True)
    return results


def inputs_of(model: Model, generator: np.random.Generator) -> list[Array]:
    """Random ones."""
    specs = [model.spec(Source(parameter, 0)) for parameter in model.parameters]
    return [_numbers(generator, *(d.static_size or 1 for d in spec.shape)) for spec in specs]


def _measured(layer: Layer, options: Options) -> _Result:
    generator = np.random.default_rng(1)
    model = layer.made(generator)
    inputs = inputs_of(model, generator)
    compiled = compile_model(model, threads=options.threads)
    expected = compile_model(model, backend="reference")(*inputs).values()
    scaled = [Expected(array, max(1e-30, float(np.abs(array).max()))) for array in expected]
    error = min(_NONSENSE, error_of(list(compiled(*inputs).values()), scaled))
    # The same work, and nothing else, is all that the arithmetic is measured by.
    multiply, operations = limit_kernels.multiplying()
    peak, seconds, end = 0.0, math.inf, time.perf_counter() + options.seconds
    kernel, moved = "", 0.0
    while seconds == math.inf or time.perf_counter() < end:
        peak = max(peak, operations / limits.best(multiply, _PEAK_SECONDS))
        steps = [step for step in compiled.profile(*inputs).steps if is_layer(step)]
        seconds = min(seconds, sum(step.seconds for step in steps))
        kernel = " + ".join(dict.fromkeys(step.kernel for step in steps))
        moved = sum(step.bytes for step in steps)
    peak = max(peak, operations / limits.best(multiply, _PEAK_SECONDS)) * options.threads
    return _Result(layer.group, layer.name, kernel, seconds, layer.operations, moved, peak, error)


def is_layer(step: ProfiledStep) -> bool:
    """A step of the layer that is measured, and no change of layout before or behind it."""
    return step.layer == LAYER or "Sequence" in step.operation


def _write(report: Report, sections: Mapping[str, Sequence[_Result]]) -> None:
    told = {title: [asdict(r) for r in results] for title, results in sections.items()}
    pages = [f"## {title}\n\n{_page(results)}" for title, results in sections.items()]
    about = (
        "Shares of the processor's arithmetic: operations in a second / those of the inner loop of "
        "a product, from the first cache. Operations are two for each tap on the data. Layers by "
        "Winograd's method need fewer than they are counted with: their share may be more than 1, "
        "and is part of no mean. GB/s: bytes that the layer reads and writes at least, in its time."
    )
    report.write({"shares": told}, "\n\n".join([about, *pages]))


_HEAD = ("layer", "us", "GFLOP/s", "share", "goal", "GB/s", "kernel")


def _cells(result: _Result) -> list[str]:
    share = f"{result.share:.2f}"
    if _by_winograd(result):
        share += ", Winograd"
    if result.wrong:
        share = f"wrong by {result.error:.1e}"
    return [
        result.layer,
        number(result.seconds * 1e6),
        number(result.operations / result.seconds * 1e-9),
        share,
        f"{result.goal:.2f}",
        f"{result.bytes / result.seconds * 1e-9:.1f}",
        result.kernel,
    ]


def _by_winograd(result: _Result) -> bool:
    return "winograd" in result.kernel


def _page(results: Sequence[_Result]) -> str:
    groups = list(dict.fromkeys(r.group for r in results))
    plain = {g: [r for r in results if r.group == g and not _by_winograd(r)] for g in groups}
    rows = [
        [
            group,
            str(len(found)),
            f"{geometric_mean(r.share for r in found):.2f}",
            f"{min(r.share for r in found):.2f}",
            f"{found[0].goal:.2f}",
            str(sum(r.share >= r.goal for r in found)),
        ]
        for group, found in plain.items()
        if found
    ]
    peaks = [r.peak * 1e-9 for r in results]
    parts = [
        f"The arithmetic: {min(peaks):.1f} to {max(peaks):.1f} GFLOP/s.",
        markdown_table(["group", "layers", "geometric mean", "least", "goal", "met by"], rows),
    ]
    for group in groups:
        cells = [_cells(r) for r in results if r.group == group]
        parts.append(f"### {group}\n\n{markdown_table(_HEAD, cells)}")
    return "\n\n".join(parts)
