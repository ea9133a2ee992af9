"""`python -m benchmarks kernels`: single layers of networks, as they come in them: convolutions,
poolings, products, normalisation, moves.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import contenders_openvino, contenders_uncork, stored_weights
from benchmarks.cases import Case, Prepared
from benchmarks.ops import run_cases
from benchmarks.options import Options
from benchmarks.timing import Expected
from uncork import Builder, write_model
from uncork.compiler.compile import compile_model
from uncork.ir.model import Source
from uncork.types import Array

#: Of the largest number of a result: Winograd's sums round by so much.
_TOLERANCE = 2e-5
#: OpenVINO rounds no weights to f16, and by default quantizes the data of products whose weights
#: are stored in few bits: further from the result, and a contender of its own.
_UNROUNDED, _QUANTISED = 2e-3, 5e-2
_EXACT = {"DYNAMIC_QUANTIZATION_GROUP_SIZE": 0}
Make = Callable[[Builder, Sequence[Source]], Source]


@dataclass(frozen=True)
class Layer:
    """A layer on inputs of these shapes."""

    group: str
    name: str
    shapes: Sequence[Sequence[int]]
    make: Make
    stored: bool = False


def _numbers(*shape: int) -> Array:
    return (np.random.default_rng(sum(shape)).standard_normal(shape) * 0.1).astype(np.float32)


def _layer(kind: str, opset: int, *constants: Array, **attributes: Any) -> Make:
    """One operation on all inputs and then some constants."""
    return lambda b, x: b.add(kind, opset, *x, *map(b.constant, constants), **attributes)[0]


def _convolution(filters: Sequence[int], dilation: int = 1, pad: int | None = None) -> Make:
    reach = filters[-1] // 2 if pad is None else pad
    around = {
        "strides": [1, 1],
        "dilations": [dilation] * 2,
        "pads_begin": [reach] * 2,
        "pads_end": [reach] * 2,
    }
    return _layer("Convolution", 1, _numbers(*filters), **around)


def _deformable(channels: int) -> Make:
    """A convolution of 3x3 whose places are the second input."""
    around = {name: [1, 1] for name in ("strides", "dilations", "pads_begin", "pads_end")}
    return _layer("DeformableConvolution", 1, _numbers(channels, channels, 3, 3), **around)


def _grouped(filters: Sequence[int]) -> Make:
    reach = filters[-1] // 2
    around = {
        "strides": [1, 1],
        "dilations": [1, 1],
        "pads_begin": [reach] * 2,
        "pads_end": [reach] * 2,
    }
    return _layer("GroupConvolution", 1, _numbers(*filters), **around)


def _transposed(filters: Sequence[int], stride: int, pad: int) -> Make:
    around = {
        "strides": [stride] * 2,
        "dilations": [1, 1],
        "pads_begin": [pad] * 2,
        "pads_end": [pad] * 2,
    }
    return _layer("ConvolutionBackpropData", 1, _numbers(*filters), **around)


def _pooling(kind: str, kernel: int, stride: int, pad: int) -> Make:
    more = {"exclude_pad": True} if kind == "AvgPool" else {}
    return _layer(
        kind,
        1,
        kernel=[kernel] * 2,
        strides=[stride] * 2,
        pads_begin=[pad] * 2,
        pads_end=[pad] * 2,
        **more,
    )


def _resized(mode: str) -> Make:
    attributes = {
        "mode": mode,
        "shape_calculation_mode": "scales",
        "coordinate_transformation_mode": "half_pixel",
        "nearest_mode": "floor",
    }

    def make(b: Builder, x: Sequence[Source]) -> Source:
        sizes, scales, axes = np.array([1, 1]), np.array([2, 2], np.float32), np.array([2, 3])
        return b.add("Interpolate", 4, *x, *map(b.constant, (sizes, scales, axes)), **attributes)[0]

    return make


def _stored(rows: int, inner: int, columns: int, stored: str, computed: str = "f32") -> Layer:
    """A product with weights that are stored in few bits."""

    def make(b: Builder, x: Sequence[Source]) -> Source:
        return stored_weights.product(b, x, stored, inner, columns, computed)

    in_f16 = ", in f16" if computed == "f16" else ""
    name = f"{stored}{in_f16}, {rows}x{inner} by {inner}x{columns}"
    return Layer("products, stored weights", name, [(rows, inner)], make, stored=True)


LAYERS = (
    *(
        Layer("convolutions 3x3", f"{c}, {s}x{s}", [(1, c, s, s)], _convolution((c, c, 3, 3)))
        for c, s in ((64, 56), (128, 28), (256, 14), (512, 7))
    ),
    *(
        Layer(
            "convolutions 1x1", f"{i} to {o}, {s}x{s}", [(1, i, s, s)], _convolution((o, i, 1, 1))
        )
        for i, o, s in ((256, 64, 56), (512, 128, 28), (24, 72, 56), (1024, 256, 64))
    ),
    *(
        Layer(
            "convolutions in groups",
            f"{m} of {c}, {s}x{s}",
            [(1, c, s, s)],
            _grouped((c // m, m, m, 3, 3)),
        )
        for m, c, s in ((1, 144, 56), (1, 40, 28), (4, 128, 56), (16, 160, 28))
    ),
    Layer(
        "convolutions in groups",
        "1 of 240, 5x5 taps, 14x14",
        [(1, 240, 14, 14)],
        _grouped((240, 1, 1, 5, 5)),
    ),
    *(
        Layer(
            "convolutions dilated",
            f"{d}, 960 to 256, 16x16",
            [(1, 960, 16, 16)],
            _convolution((256, 960, 3, 3), dilation=d, pad=d),
        )
        for d in (12, 24, 36)
    ),
    Layer(
        "convolutions transposed",
        "4x4 by 2, 32 to 16, 96x128",
        [(1, 32, 96, 128)],
        _transposed((32, 16, 4, 4), 2, 1),
    ),
    Layer(
        "convolutions transposed",
        "2x2 by 2, 128 to 64, 24x32",
        [(1, 128, 24, 32)],
        _transposed((128, 64, 2, 2), 2, 0),
    ),
    *(
        Layer(
            "convolutions deformable",
            f"3x3, {channels}, {height}x{width}",
            [(1, channels, height, width), (1, 18, height, width)],
            _deformable(channels),
        )
        for channels, height, width in ((64, 100, 152), (128, 50, 76), (256, 14, 14))
    ),
    Layer(
        "poolings",
        "MaxPool 3x3 by 2, 64, 112x112",
        [(1, 64, 112, 112)],
        _pooling("MaxPool", 3, 2, 1),
    ),
    Layer(
        "poolings", "MaxPool 3x3 by 1, 192, 28x28", [(1, 192, 28, 28)], _pooling("MaxPool", 3, 1, 1)
    ),
    Layer(
        "poolings", "MaxPool 5x5 by 1, 128, 10x10", [(1, 128, 10, 10)], _pooling("MaxPool", 5, 1, 2)
    ),
    Layer(
        "poolings", "AvgPool 2x2 by 2, 128, 56x56", [(1, 128, 56, 56)], _pooling("AvgPool", 2, 2, 0)
    ),
    Layer(
        "poolings", "AvgPool 3x3 by 1, 192, 35x35", [(1, 192, 35, 35)], _pooling("AvgPool", 3, 1, 1)
    ),
    *(
        Layer(
            "products",
            f"{n}x{k} by {k}x{m}",
            [(n, k)],
            _layer("MatMul", 1, _numbers(m, k), transpose_b=True),
        )
        for n, k, m in ((197, 768, 3072), (1500, 384, 1536), (1, 256, 5000), (1, 9216, 4096))
    ),
    Layer(
        "products",
        "12x197x64 by 12x64x197",
        [(12, 197, 64)] * 2,
        _layer("MatMul", 1, transpose_b=True),
    ),
    Layer("products", "512x512 by 512x512 of the call", [(512, 512)] * 2, _layer("MatMul", 1)),
    Layer(
        "products",
        "4096x64 transposed by 64x256",
        [(1, 64, 4096)],
        _layer("MatMul", 1, _numbers(64, 256), transpose_a=True),
    ),
    *(
        _stored(rows, *sizes, stored)
        for stored, sizes in (
            ("i8", (768, 3072)),
            ("i8", (1024, 1024)),
            ("u4", (1024, 1024)),
            ("i4", (4096, 4096)),
        )
        for rows in (1, 16, 128)
    ),
    *(_stored(rows, 1024, 1024, stored, "f16") for stored in ("i8", "i4") for rows in (1, 16, 128)),
    *(_stored(rows, 1024, 1024, "f16") for rows in (1, 16, 128)),
    Layer(
        "rows", "SoftMax of the last, 12x197x197", [(12, 197, 197)], _layer("SoftMax", 8, axis=-1)
    ),
    Layer("rows", "SoftMax axis 1, 1x16x4x2100", [(1, 16, 4, 2100)], _layer("SoftMax", 8, axis=1)),
    Layer(
        "rows",
        "NormalizeL2 axis 1, 256, 20x20",
        [(1, 256, 20, 20)],
        _layer("NormalizeL2", 1, np.array([1]), eps=1e-6, eps_mode="add"),
    ),
    Layer("rows", "CumSum 64x512", [(64, 512)], _layer("CumSum", 3, np.array(1))),
    Layer("element by element", "Gelu 197x3072", [(197, 3072)], _layer("Gelu", 7)),
    Layer("element by element", "Swish 96, 112x112", [(1, 96, 112, 112)], _layer("Swish", 4)),
    Layer("element by element", "HSwish 96, 56x56", [(1, 96, 56, 56)], _layer("HSwish", 4)),
    Layer(
        "element by element",
        "gates, 96, 56x56",
        [(1, 96, 56, 56), (1, 96, 1, 1)],
        _layer("Multiply", 1),
    ),
    Layer("resampling", "nearest by 2, 128, 20x20", [(1, 128, 20, 20)], _resized("nearest")),
    Layer("resampling", "linear_onnx by 2, 64, 48x64", [(1, 64, 48, 64)], _resized("linear_onnx")),
    Layer(
        "resampling",
        "GridSample bilinear, 32, 40x40",
        [(1, 32, 40, 40), (1, 40, 40, 2)],
        _layer("GridSample", 9, mode="bilinear", padding_mode="zeros", align_corners=True),
    ),
    Layer(
        "moves",
        "Transpose 0213, 197x12x64",
        [(1, 197, 12, 64)],
        _layer("Transpose", 1, np.array([0, 2, 1, 3])),
    ),
    Layer(
        "moves",
        "Transpose 021, 4096x256",
        [(1, 4096, 256)],
        _layer("Transpose", 1, np.array([0, 2, 1])),
    ),
    Layer(
        "moves",
        "DepthToSpace 3, 9, 96x96",
        [(1, 9, 96, 96)],
        _layer("DepthToSpace", 1, block_size=3, mode="depth_first"),
    ),
)


def cases() -> Iterator[Case]:
    """Every layer by itself."""
    for layer in LAYERS:
        yield Case(layer.group, layer.name, partial(prepare, layer), quick=True)


def prepare(layer: Layer, options: Options) -> Prepared:
    """The layer as a model, which OpenVINO reads from a file; the references say what is right."""
    builder = Builder("layer")
    inputs = [
        builder.parameter(f"x{n}", "f32", list(shape)) for n, shape in enumerate(layer.shapes)
    ]
    builder.result(layer.make(builder, inputs), "y")
    model = builder.model()
    generator = np.random.default_rng(5)
    sets = [
        [(generator.standard_normal(shape) * 0.5).astype(np.float32) for shape in layer.shapes]
        for _ in range(2)
    ]
    reference = compile_model(model, backend="reference")
    outputs = [list(reference(*arrays)) for arrays in sets]
    prepared = Prepared(
        sets=len(sets),
        expect=lambda i: [
            Expected(np.asarray(output), max(1.0, float(np.abs(output).max())))
            for output in outputs[i]
        ],
        tolerance=_TOLERANCE,
        about={"shapes": [list(shape) for shape in layer.shapes]},
    )
    prepared.add("uncork", lambda: contenders_uncork.of_model(model, sets, options.threads))
    openvino = options.peers.get("openvino")
    if openvino:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "layer.xml"
            write_model(model, path)
            theirs = openvino.Core().read_model(path)
            of_model = partial(
                contenders_openvino.of_model, openvino, theirs, sets, options.threads
            )
            if layer.stored:
                exact = partial(of_model, tolerance=_UNROUNDED, properties=_EXACT)
                name = "openvino quantizing"
                prepared.add("openvino", exact)
                prepared.add(name, partial(of_model, name=name, system=name, tolerance=_QUANTISED))
            else:
                prepared.add("openvino", of_model)
    return prepared


def main(options: Options) -> int:
    """All layers that were asked for."""
    return run_cases("kernels", cases(), options)
