"""The printed plans of the examples and of a small model for each family of kernels, as golden
texts.

The kernels are those of a processor with AVX2, whatever the machine has. `pytest
tests/compiler/test_plans.py --update-golden` writes the texts anew: look at the difference before
it is committed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import uncork
from uncork.compiler.compile import compile_for
from uncork.compiler.execute import kernels_available
from uncork.internal_ops.coded_rows import RowCoding
from uncork.ir.model import Source
from uncork.kernels import select
from uncork.kernels.runtime.kernel_cache import ObjectStore
from uncork.kernels.runtime.target import Target
from uncork.types import ElementType

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = Path(__file__).parent / "plans"
#: The kernels are those of another machine, whatever this one is: nothing is compiled.
TARGET = Target.of("x86_64", "x86-64-v3", "+sse2,+avx,+avx2,+fma,+f16c")
EXAMPLES = {
    "word_language": {
        "chars": [40, 13],
        "lengths": [40],
        "ngrams": [300],
        "offsets": [40],
        "pieces": [120],
        "word_of_piece": [120],
    },
    "session_recommender": {"items": [1, 20], "lengths": [1]},
}


def planned(compiled: uncork.CompiledModel, shapes: dict[str, Sequence[int]]) -> str:
    """The plan for a call of inputs of these shapes."""
    return f"{compiled.plan_for(shapes)}\n"


def check(request: pytest.FixtureRequest, name: str, text: str) -> None:
    path = GOLDEN / f"{name}.txt"
    if request.config.getoption("--update-golden"):
        path.write_text(text, encoding="utf-8")
    assert path.is_file(), "there is no golden text yet: see the top of this file"
    assert text == path.read_text(encoding="utf-8"), (
        f"the plan is another than in {path.name}: see the top of this file"
    )


@pytest.mark.parametrize("name", EXAMPLES)
def test_example(request: pytest.FixtureRequest, name: str) -> None:
    """As it is printed before any call, and for given shapes."""
    compiled = compile_for(uncork.read_model(ROOT / "examples" / name / "model.xml"), TARGET, 1)
    check(request, f"{name}_open", f"{compiled.plan}\n")
    check(request, name, planned(compiled, EXAMPLES[name]))


def test_every_example_has_a_golden_plan() -> None:
    assert {path.parent.name for path in ROOT.glob("examples/*/model.xml")} == set(EXAMPLES)


Numbers = Callable[..., np.ndarray]


def _numbers() -> Numbers:
    generator = np.random.default_rng(0)
    return lambda *shape: generator.standard_normal(shape).astype(np.float32)


def embedding(builder: uncork.Builder) -> list[Source]:
    table = builder.constant(_numbers()(50, 24), name="table")
    ids, offsets, segments = (
        builder.parameter(name, "i64", [size])
        for name, size in (("ids", None), ("offsets", 4), ("segments", None))
    )
    (by_offsets,) = builder.add("EmbeddingBagOffsetsSum", 3, table, ids, offsets, name="bags")
    count = builder.constant(np.int64(4))
    (by_segments,) = builder.add(
        "EmbeddingSegmentsSum", 3, table, ids, segments, count, name="segments_of_ids"
    )
    (mean,) = builder.add(
        "EmbeddingBagPacked",
        15,
        table,
        builder.parameter("packed", "i32", [4, 3]),
        reduction="mean",
        name="bags_of_one_size",
    )
    named = (("ids", ids), ("offsets", offsets))
    narrow = [
        builder.add("Convert", 1, source, destination_type="i32", name=f"{name}_i32")[0]
        for name, source in named
    ]
    (uncut,) = builder.add("EmbeddingBagOffsetsSum", 3, table, *narrow, name="ids_uncut")
    return [by_offsets, by_segments, mean, uncut]


def gather(builder: uncork.Builder) -> list[Source]:
    table = builder.constant(_numbers()(50, 24), name="table")
    ids = builder.parameter("ids", "i32", [3, 5])
    (rows,) = builder.add("Gather", 8, table, ids, builder.constant(np.int64(0)), name="rows")
    (columns,) = builder.add("Gather", 8, table, ids, builder.constant(np.int64(1)), name="columns")
    (batches,) = builder.add(
        "Gather",
        8,
        builder.parameter("data", "f16", [3, 7, 9]),
        ids,
        builder.constant(np.int64(1)),
        batch_dims=1,
        name="batches",
    )
    return [rows, columns, batches]


def linear(builder: uncork.Builder) -> list[Source]:
    numbers = _numbers()
    x, y = builder.parameter("x", "f32", [6, 20]), builder.parameter("y", "f32", [20, 30])
    (product,) = builder.add("MatMul", 1, x, builder.constant(numbers(20, 30)), name="product")
    (biased,) = builder.add("Add", 1, product, builder.constant(numbers(30)), name="biased")
    (ended,) = builder.add("ReLU", 1, biased, name="ended")
    (both,) = builder.add("MatMul", 1, x, y, name="both_of_the_call")
    return [ended, both]


def convolution(builder: uncork.Builder) -> list[Source]:
    numbers, around = (
        _numbers(),
        {"strides": [1, 1], "dilations": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1]},
    )
    x, few = (
        builder.parameter("x", "f32", [1, 4, 10, 20]),
        builder.parameter("few", "f32", [2, 40, 1, 3]),
    )
    (convolved,) = builder.add(
        "Convolution", 1, x, builder.constant(numbers(12, 4, 3, 3)), name="convolved", **around
    )
    (biased,) = builder.add(
        "Add", 1, convolved, builder.constant(numbers(1, 12, 1, 1)), name="biased"
    )
    (ended,) = builder.add("ReLU", 1, biased, name="ended")
    (alone,) = builder.add(
        "GroupConvolution",
        1,
        x,
        builder.constant(numbers(4, 1, 1, 3, 3)),
        name="channels_for_themselves",
        **around,
    )
    (rows,) = builder.add(
        "Convolution",
        1,
        few,
        builder.constant(numbers(50, 40, 1, 3)),
        name="few_pixels",
        strides=[1, 1],
        dilations=[1, 1],
    )
    (wider,) = builder.add(
        "ConvolutionBackpropData",
        1,
        x,
        builder.constant(numbers(4, 3, 2, 2)),
        name="transposed",
        strides=[2, 2],
        dilations=[1, 1],
    )
    return [ended, alone, rows, wider]


def blocks(builder: uncork.Builder) -> list[Source]:
    """By tiles, each channel for itself, a residual sum, and one for which the layout is not
    changed.
    """
    numbers, around = (
        _numbers(),
        {"strides": [1, 1], "dilations": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1]},
    )
    x = builder.parameter("image", "f32", [1, 16, 28, 28])
    (tiles,) = builder.add(
        "Convolution", 1, x, builder.constant(numbers(32, 16, 3, 3)), name="by_tiles", **around
    )
    (alone,) = builder.add(
        "GroupConvolution",
        1,
        tiles,
        builder.constant(numbers(32, 1, 1, 3, 3)),
        name="apart",
        **around,
    )
    (direct,) = builder.add(
        "Convolution",
        1,
        alone,
        builder.constant(numbers(32, 32, 1, 1)),
        name="direct",
        strides=[1, 1],
        dilations=[1, 1],
    )
    (total,) = builder.add("Add", 1, direct, tiles, name="sum")
    return [total]


def pooled_blocks(builder: uncork.Builder) -> list[Source]:
    """What stands between convolutions over blocks: a pooling, a gate of each channel, a
    concatenation.
    """
    numbers, around = _numbers(), {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1]}
    x = builder.parameter("image", "f32", [1, 16, 28, 28])
    (before,) = builder.add(
        "Convolution",
        1,
        x,
        builder.constant(numbers(32, 16, 3, 3)),
        name="before",
        dilations=[1, 1],
        **around,
    )
    (largest,) = builder.add("MaxPool", 1, before, kernel=[3, 3], name="largest", **around)
    (mean,) = builder.add(
        "ReduceMean", 1, before, builder.constant(np.array([2, 3])), keep_dims=True, name="mean"
    )
    (gated,) = builder.add("Multiply", 1, largest, mean, name="gated")
    (both,) = builder.add("Concat", 1, gated, before, axis=1, name="both")
    return list(
        builder.add(
            "Convolution",
            1,
            both,
            builder.constant(numbers(32, 64, 3, 3)),
            name="after",
            dilations=[1, 1],
            **around,
        )
    )


def einsum(builder: uncork.Builder) -> list[Source]:
    x, matrices = (
        builder.parameter("x", "f32", [2, 7, 4, 9]),
        builder.constant(_numbers()(4, 9, 20)),
    )
    return list(builder.add("Einsum", 7, x, matrices, equation="bthi,hio->btho", name="grouped"))


def fourier(builder: uncork.Builder) -> list[Source]:
    x = builder.parameter("x", "f32", [None, 20, 24])
    both, last = (builder.constant(np.array(axes)) for axes in ([1, 2], [2]))
    half = builder.add("RDFT", 9, x, both, name="half")[0]
    pieces = builder.constant(np.array(16)), builder.constant(np.array(4))
    window = builder.constant(_numbers()(12))
    rows = builder.parameter("signal", "f32", [2, 64])
    frames = builder.add("STFT", 15, rows, window, *pieces, name="frames", transpose_frames=True)
    turned = {"center": False, "normalized": False, "name": "signal_again"}
    signal = builder.add("ISTFT", 16, *frames, window, *pieces, **turned)
    data = builder.parameter("rows", "f32", [None, None, 2])
    row = builder.constant(np.array([1]))
    long = builder.add("DFT", 7, data, row, name="of_any_length")
    return [builder.add("IRDFT", 9, half, last, name="back")[0], *signal, *long]


def recurrent(builder: uncork.Builder) -> list[Source]:
    numbers, hidden, inner = _numbers(), 12, 5
    x, lengths = (
        builder.parameter("x", "f32", [2, 7, inner]),
        builder.parameter("lengths", "i64", [2]),
    )
    state = builder.constant(numbers(2, 1, hidden))
    results: list[Source] = []
    cells = (
        ("GRUSequence", 3, {"linear_before_reset": True}),
        ("LSTMSequence", 4, {}),
        ("RNNSequence", 1, {"clip": 2.0}),
    )
    for name, gates, attributes in cells:
        biases = 4 if name == "GRUSequence" else gates
        weights = [
            builder.constant(numbers(1, n * hidden, *last))
            for n, last in ((gates, (inner,)), (gates, (hidden,)), (biases, ()))
        ]
        states = [state, state] if name == "LSTMSequence" else [state]
        results += builder.add(
            name,
            5,
            x,
            *states,
            lengths,
            *weights,
            hidden_size=hidden,
            direction="forward",
            name=name,
            **attributes,
        )
    return results


def cells(builder: uncork.Builder) -> list[Source]:
    numbers, hidden, inner = _numbers(), 12, 5
    x = builder.parameter("x", "f32", [2, inner])
    state = builder.constant(numbers(2, hidden))
    results: list[Source] = []
    for name, opset, states, gates in (
        ("GRUCell", 3, 1, 3),
        ("LSTMCell", 4, 2, 4),
        ("RNNCell", 1, 1, 1),
    ):
        weights = [
            builder.constant(numbers(gates * hidden, *last)) for last in ((inner,), (hidden,), ())
        ]
        given = [x, *[state] * states, *weights]
        results += builder.add(name, opset, *given, hidden_size=hidden, name=name)
    return results


def last_step(builder: uncork.Builder) -> list[Source]:
    """Two sequences of which a step of each row is taken; of the second one the last states are
    used as well.
    """
    numbers, hidden, inner = _numbers(), 12, 5
    x, step = builder.parameter("x", "f32", [2, 7, inner]), builder.parameter("step", "i64", [2])
    state, lengths, axis = (
        builder.constant(numbers(2, 1, hidden)),
        builder.constant(np.full(2, 7)),
        builder.constant(np.int64(1)),
    )
    weights = [
        builder.constant(numbers(1, 3 * hidden, *last)) for last in ((inner,), (hidden,), ())
    ]
    results: list[Source] = []
    for name in ("short", "whole"):
        y, last = builder.add(
            "GRUSequence",
            5,
            x,
            state,
            lengths,
            *weights,
            hidden_size=hidden,
            direction="forward",
            name=name,
        )
        (states,) = builder.add("Squeeze", 1, y, axis, name=f"{name}_states")
        (dense,) = builder.add(
            "MatMul", 1, states, builder.constant(numbers(hidden, 4)), name=f"{name}_dense"
        )
        results += builder.add("Gather", 8, dense, step, axis, batch_dims=1, name=f"{name}_taken")
    return [*results, last]


def elementwise(builder: uncork.Builder) -> list[Source]:
    x, y = builder.parameter("x", "f32", [3, 20]), builder.parameter("y", "f32", [3, 1])
    (product,) = builder.add("Multiply", 1, x, y, name="product")
    (ended,) = builder.add("Tanh", 1, product, name="ended")
    (alone,) = builder.add(
        "Convert", 1, builder.parameter("n", "i64", [5]), destination_type="i32", name="alone"
    )
    return [ended, alone]


def reduce(builder: uncork.Builder) -> list[Source]:
    x = builder.parameter("x", "f32", [3, 20])
    (total,) = builder.add("ReduceSum", 1, x, builder.constant(np.array([0])), name="total")
    return [total, *builder.add("SoftMax", 8, x, axis=-1, name="softmax")]


def pool(builder: uncork.Builder) -> list[Source]:
    x = builder.parameter("x", "f32", [2, 4, 9, 20])
    window = {"kernel": [3, 3], "strides": [2, 2], "pads_begin": [1, 1], "pads_end": [1, 1]}
    largest, _ = builder.add("MaxPool", 8, x, name="largest", **window)
    (mean,) = builder.add("AvgPool", 1, x, name="mean", exclude_pad=True, **window)
    (adaptive,) = builder.add(
        "AdaptiveAvgPool", 8, x, builder.constant(np.array([2, 3])), name="adaptive"
    )
    return [largest, mean, adaptive]


def normalise(builder: uncork.Builder) -> list[Source]:
    x, channels = (
        builder.parameter("x", "f32", [2, 4, 20]),
        builder.constant(np.ones(4, np.float32)),
    )
    (groups,) = builder.add(
        "GroupNormalization", 12, x, channels, channels, num_groups=2, epsilon=1e-5, name="groups"
    )
    return [
        groups,
        *builder.add(
            "NormalizeL2",
            1,
            x,
            builder.constant(np.array([1])),
            eps=1e-6,
            eps_mode="add",
            name="norm",
        ),
    ]


def scan(builder: uncork.Builder) -> list[Source]:
    return list(
        builder.add(
            "CumSum",
            3,
            builder.parameter("x", "f32", [3, 20]),
            builder.constant(np.int64(1)),
            name="sums",
        )
    )


def resize(builder: uncork.Builder) -> list[Source]:
    x, scales = (
        builder.parameter("x", "f32", [1, 4, 6, 7]),
        builder.constant(np.array([2, 2], np.float32)),
    )
    axes = builder.constant(np.array([2, 3]))
    return [
        builder.add(
            "Interpolate",
            11,
            x,
            scales,
            axes,
            mode=mode,
            shape_calculation_mode="scales",
            name=mode,
            **how,
        )[0]
        for mode, how in (
            ("linear_onnx", {}),
            ("nearest", {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}),
        )
    ]


def sample(builder: uncork.Builder) -> list[Source]:
    x, places = (
        builder.parameter("x", "f32", [1, 4, 6, 7]),
        builder.parameter("places", "f32", [1, 5, 20, 2]),
    )
    return list(builder.add("GridSample", 9, x, places, name="sampled"))


def boxes(builder: uncork.Builder) -> tuple[Source, Source, Source]:
    """Images, boxes in them and the image of each."""
    return (
        builder.parameter("x", "f32", [1, 4, 6, 7]),
        builder.parameter("boxes", "f32", [None, 4]),
        builder.parameter("images", "i64", [None]),
    )


def regions(builder: uncork.Builder) -> list[Source]:
    bins = {"pooled_h": 2, "pooled_w": 2, "sampling_ratio": 2, "spatial_scale": 0.5}
    given = boxes(builder)
    return [
        builder.add("ROIAlign", 9, *given, mode=mode, name=mode, **bins)[0]
        for mode in ("avg", "max")
    ]


def pooled_boxes(builder: uncork.Builder) -> list[Source]:
    x, places = (
        builder.parameter("x", "f32", [1, 4, 6, 7]),
        builder.parameter("numbered", "f32", [None, 5]),
    )
    bins = {"pooled_h": 2, "pooled_w": 2, "spatial_scale": 0.5}
    parts = {"output_dim": 1, "group_size": 2, "spatial_scale": 0.5}
    return [
        *builder.add("ROIPooling", 1, x, places, name="largest", **bins),
        *builder.add("PSROIPooling", 1, x, places, mode="average", name="means", **parts),
    ]


def deformable(builder: uncork.Builder) -> list[Source]:
    """Of any number of images; and rows in strips, which a mask weighs."""
    given = [
        builder.parameter(name, "f32", [None, size, 6, 7])
        for name, size in (("image", 4), ("moves", 18))
    ]
    how = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}
    filters = builder.constant(_numbers()(8, 4, 3, 3), name="filters")
    large = [
        builder.parameter(name, "f32", [1, size, 60, 60])
        for name, size in (("data", 32), ("moved", 18))
    ]
    others = builder.constant(_numbers()(16, 32, 3, 3), name="others")
    mask = builder.parameter("mask", "f32", [1, 9, 60, 60])
    return [
        *builder.add("DeformableConvolution", 1, *given, filters, name="small", **how),
        *builder.add("DeformableConvolution", 8, *large, others, mask, name="strips", **how),
    ]


def folded(builder: uncork.Builder) -> list[Source]:
    x = builder.parameter("x", "f32", [2, 18, 16])
    sides, taps = (builder.constant(np.array(n)) for n in ([8, 8], [3, 3]))
    how = {"strides": [2, 2], "dilations": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1]}
    return list(builder.add("Col2Im", 15, x, sides, taps, name="folded", **how))


def patches(builder: uncork.Builder) -> list[Source]:
    x = builder.parameter("x", "f32", [None, 4, 6, 7])
    how = {"sizes": [3, 3], "strides": [2, 1], "rates": [1, 1], "auto_pad": "same_upper"}
    return list(builder.add("ExtractImagePatches", 3, x, name="patches", **how))


def padding(builder: uncork.Builder) -> list[Source]:
    x, value = builder.parameter("x", "f32", [None, 4, 6, 30]), builder.constant(np.float32(2))
    pads = [builder.constant(np.array(each)) for each in ([0, 0, 1, 1], [0, 0, 2, 0])]
    return list(builder.add("Pad", 12, x, *pads, value, name="frame", pad_mode="constant"))


def yolo(builder: uncork.Builder) -> list[Source]:
    x = builder.parameter("x", "f32", [None, 14, 6, 7])
    how = {"coords": 4, "classes": 2, "num": 2, "mask": [0, 1], "axis": 1, "end_axis": 3}
    return [
        builder.add("RegionYolo", 1, x, do_softmax=together, name=name, **how)[0]
        for name, together in (("together", True), ("alone", False))
    ]


def colours(builder: uncork.Builder) -> list[Source]:
    image = builder.parameter("image", "u8", [None, 6, 8, 1])
    return [builder.add(kind, 8, image, name=kind)[0] for kind in ("NV12toRGB", "I420toBGR")]


def move(builder: uncork.Builder) -> list[Source]:
    x, y = builder.parameter("x", "f32", [3, 20]), builder.parameter("y", "f32", [3, 4])
    (turned,) = builder.add("Transpose", 1, x, builder.constant(np.array([1, 0])), name="turned")
    (joined,) = builder.add("Concat", 1, x, y, axis=1, name="joined")
    return [turned, joined]


def moved(builder: uncork.Builder) -> list[Source]:
    x = builder.parameter("x", "f32", [3, 20])
    numbers = {n: builder.constant(np.array([n])) for n in (0, 1, 4, 20)}
    parts = [
        builder.add("Slice", 8, x, numbers[begin], numbers[end], numbers[1], numbers[1])[0]
        for begin, end in ((4, 20), (0, 4))
    ]
    return [*builder.add("Concat", 1, *parts, axis=1, name="rolled")]


def pick(builder: uncork.Builder) -> list[Source]:
    x = builder.parameter("x", "f32", [3, 20])
    values, indices = builder.add(
        "TopK", 3, x, builder.constant(np.int64(4)), axis=-1, mode="max", sort="value", name="best"
    )
    return [values, indices, *builder.add("GatherElements", 6, x, indices, axis=1, name="elements")]


def finding(builder: uncork.Builder) -> list[Source]:
    x, ids = builder.parameter("x", "f32", [3, 20]), builder.parameter("ids", "i64", [None])
    (places,) = builder.add("NonZero", 3, x, name="places")
    values, indices = (
        builder.parameter("values", "f32", [None]),
        builder.parameter("indices", "i64", [None, 2]),
    )
    shape, default = builder.parameter("shape", "i64", [2]), builder.constant(np.float32(0))
    filled = builder.add("SparseFillEmptyRows", 16, values, shape, indices, default, name="filled")
    return [places, *builder.add("Unique", 10, ids, name="each_once"), filled[1]]


def detection(builder: uncork.Builder) -> list[Source]:
    boxes, scores = (
        builder.parameter("boxes", "f32", [1, 50, 4]),
        builder.parameter("scores", "f32", [1, 3, 50]),
    )
    numbers = [
        builder.constant(np.array(number))
        for number in (np.int64(10), np.float32(0.5), np.float32(0.1))
    ]
    return list(builder.add("NonMaxSuppression", 9, boxes, scores, *numbers, name="suppressed"))


def of_classes(builder: uncork.Builder) -> list[Source]:
    """Of any number of boxes; a row for each, whose size only the layer finds."""
    boxes, scores = (
        builder.parameter("boxes", "f32", [1, None, 4]),
        builder.parameter("kinds", "f32", [1, 3, None]),
    )
    how = {"iou_threshold": 0.5, "nms_top_k": 20, "keep_top_k": 10, "name": "classified"}
    rows, places, _ = builder.add("MulticlassNms", 9, boxes, scores, **how)
    fallen, *_ = builder.add("MatrixNms", 8, boxes, scores, keep_top_k=10, name="fallen")
    return [rows, places, fallen]


def detections(builder: uncork.Builder) -> list[Source]:
    given = [
        builder.parameter(name, "f32", shape)
        for name, shape in (("moves", [None, 40]), ("sure", [None, 30]), ("priors", [1, 2, 40]))
    ]
    how = {"keep_top_k": [5], "nms_threshold": 0.5, "normalized": True}
    return list(builder.add("DetectionOutput", 8, *given, name="detections", **how))


def proposals(builder: uncork.Builder) -> list[Source]:
    """Of feature maps of any size."""
    given = [
        builder.parameter(name, "f32", shape)
        for name, shape in (
            ("objects", [None, 6, None, None]),
            ("deltas", [None, 12, None, None]),
            ("image", [3]),
            ("info", [None, 3]),
            ("anchors", [None, None, 3, 4]),
            ("sure_regions", [None, 3, None, None]),
        )
    ]
    how = {"base_size": 16, "feat_stride": 16, "min_size": 4, "ratio": [1.0], "nms_thresh": 0.6}
    how |= {"scale": [1.0, 2.0, 4.0], "pre_nms_topn": 40, "post_nms_topn": 9, "name": "proposed"}
    objects, deltas, image, info, anchors, scores = given
    proposed = builder.add("Proposal", 4, objects, deltas, image, **how)
    least = {"min_size": 4.0, "nms_threshold": 0.6, "pre_nms_count": 40, "post_nms_count": 9}
    inputs = (info, anchors, deltas, scores)
    generated = builder.add("GenerateProposals", 9, *inputs, name="generated", **least)
    return [*proposed, *generated]


def detectron(builder: uncork.Builder) -> list[Source]:
    """Of any number of regions, on grids of any size."""
    given = [
        builder.parameter(name, "f32", shape)
        for name, shape in (
            ("regions", [None, 4]),
            ("class_deltas", [None, 12]),
            ("class_scores", [None, 3]),
            ("probabilities", [None]),
            ("priors", [3, 4]),
            ("features", [1, 8, None, None]),
            ("image", [1, 3, None, None]),
        )
    ]
    regions, deltas, scores, probabilities, priors, features, image = given
    how = {"score_threshold": 0.1, "nms_threshold": 0.5, "max_delta_log_wh": 4.0, "num_classes": 3}
    how |= {"deltas_weights": [1.0, 1.0, 2.0, 2.0], "post_nms_count": 20}
    how |= {"max_detections_per_image": 9, "name": "detected"}
    info = builder.constant(np.float32([[64, 64, 1]]))
    of = "ExperimentalDetectron"
    detected = builder.add(f"{of}DetectionOutput", 6, regions, deltas, scores, info, **how)
    best = builder.add(f"{of}TopKROIs", 6, regions, probabilities, max_rois=5, name="best")
    grid = builder.add(f"{of}PriorGridGenerator", 6, priors, features, image, name="grid")
    return [*detected, *best, *grid]


def levels(builder: uncork.Builder) -> list[Source]:
    """Of pyramids of any size."""
    names = {"regions": [None, 4], "features": [1, 8, None, None], "coarse": [1, 8, None, None]}
    given = [builder.parameter(name, "f32", shape) for name, shape in names.items()]
    how = {"output_size": 7, "sampling_ratio": 2, "pyramid_scales": [4, 8], "name": "extracted"}
    return builder.add("ExperimentalDetectronROIFeatureExtractor", 6, *given, **how)[:1]


def sequences_decoded(builder: uncork.Builder) -> list[Source]:
    """Of any number of steps, and of beams."""
    data = builder.parameter("step_scores", "f32", [None, 9, 28])
    lengths = builder.parameter("step_counts", "i32", [None])
    shape = [5, 2, 4]
    ids, parents = (builder.parameter(name, "i32", shape) for name in ("beam_ids", "parents"))
    ends, end = builder.parameter("beam_ends", "i32", [2]), builder.constant(np.int32(1))
    path = builder.add("CTCGreedyDecoderSeqLen", 6, data, lengths, name="path")
    return [*path, *builder.add("GatherTree", 1, ids, parents, ends, end, name="beams")]


def priors(builder: uncork.Builder) -> list[Source]:
    """Around the cells of a feature map of any size."""
    sizes = []
    for name in ("features", "image"):
        (shape,) = builder.add("ShapeOf", 3, builder.parameter(name, "f32", [1, 2, None, None]))
        bounds = [builder.constant(np.array([number])) for number in (2, 4, 1)]
        sizes += builder.add("StridedSlice", 1, shape, *bounds, begin_mask=[0], end_mask=[0])
    how = {"width": [8.0, 9.0], "height": [4.0, 20.0], "offset": 0.5, "name": "priors"}
    return list(builder.add("PriorBoxClustered", 1, *sizes, **how))


def generation(builder: uncork.Builder) -> list[Source]:
    ids, on, off = (
        builder.parameter("ids_of_few", "i64", [3, 4]),
        builder.constant(np.float32(1)),
        builder.constant(np.float32(0)),
    )
    (hot,) = builder.add(
        "OneHot", 1, ids, builder.constant(np.int64(5)), on, off, axis=-1, name="hot"
    )
    return [hot]


def search(builder: uncork.Builder) -> list[Source]:
    x, borders = (
        builder.parameter("x", "f32", [3, 20]),
        builder.constant(np.arange(9, dtype=np.float32)),
    )
    (buckets,) = builder.add(
        "Bucketize", 3, x, borders, output_type="i64", with_right_bound=False, name="buckets"
    )
    return [buckets, *builder.add("SearchSorted", 15, borders, x, name="places")]


def scatter(builder: uncork.Builder) -> list[Source]:
    x, places = builder.parameter("x", "f32", [6, 20]), builder.parameter("places", "i64", [3, 1])
    rows = builder.parameter("rows", "f32", [3, 20])
    (put,) = builder.add("ScatterNDUpdate", 4, x, places, rows, name="put")
    (added,) = builder.add("ScatterNDUpdate", 15, x, places, rows, reduction="sum", name="added")
    like = builder.parameter("like", "i64", [3, 20])
    (means,) = builder.add(
        "ScatterElementsUpdate",
        12,
        x,
        like,
        rows,
        builder.constant(np.int64(0)),
        reduction="mean",
        name="means",
    )
    return [put, added, means, *builder.add("GatherND", 8, x, places, name="picked")]


def quantized_table(builder: uncork.Builder) -> list[Source]:
    codes = builder.constant(np.zeros((2000, 24), np.uint8), name="codes")
    (wide,) = builder.add("Convert", 1, codes, destination_type="f32", name="wide")
    (table,) = builder.add(
        "Multiply", 1, wide, builder.constant(np.ones((2000, 1), np.float32)), name="table"
    )
    ids, offsets = builder.parameter("ids", "i64", [None]), builder.parameter("offsets", "i64", [4])
    return list(builder.add("EmbeddingBagOffsetsSum", 3, table, ids, offsets, name="bags"))


def scattered_counts(builder: uncork.Builder) -> list[Source]:
    keys, zeros = builder.parameter("keys", "i64", [30]), builder.constant(np.zeros(7, np.int64))
    unique = builder.add("Unique", 10, keys)
    axis = builder.constant(np.int64(0))
    return list(
        builder.add("ScatterUpdate", 3, zeros, unique[0], unique[3], axis, name="histogram")
    )


def segments(builder: uncork.Builder) -> list[Source]:
    rows, owners = (
        builder.parameter(name, kind, [None, *rest])
        for name, kind, rest in (("rows", "f32", [64]), ("segments", "i64", []))
    )
    given = rows, owners, builder.constant(np.int64(7))
    return list(builder.add("SegmentMax", 16, *given, fill_mode="zero", name="best"))


def transpose(builder: uncork.Builder) -> list[Source]:
    x = builder.parameter("x", "f32", [2, 10, 4, 9])
    return list(
        builder.add(
            "Transpose", 1, x, builder.constant(np.array([0, 2, 3, 1])), name="channels_last"
        )
    )


def views(builder: uncork.Builder) -> list[Source]:
    (doubled,) = builder.add(
        "Add", 1, *[builder.parameter("x", "f32", [3, 20])] * 2, name="doubled"
    )
    (flat,) = builder.add(
        "Reshape", 1, doubled, builder.constant(np.array([-1])), special_zero=False, name="flat"
    )
    return list(builder.add("Negative", 1, flat, name="negative"))


def state(builder: uncork.Builder) -> list[Source]:
    """A variable that grows, and a layer that reads a copy of it."""
    x = builder.parameter("x", "f32", [2, None, 20])
    (old,) = builder.add(
        "ReadValue",
        6,
        variable_id="rows",
        variable_type="f32",
        variable_shape=uncork.PartialShape([2, None, 20]),
    )
    (whole,) = builder.add("Concat", 1, old, x, axis=1, name="whole")
    builder.add("Assign", 6, whole, variable_id="rows")
    return list(builder.add("Negative", 1, whole, name="negative"))


def quantized(builder: uncork.Builder) -> list[Source]:
    """A convolution between roundings to 256 levels, and the largest of its pixels."""

    def rounded(source: Source, name: str) -> Source:
        limits = [builder.constant(np.full((1, 1, 1, 1), limit, np.float32)) for limit in (0, 4)]
        return builder.add("FakeQuantize", 1, source, *limits, *limits, levels=256, name=name)[0]

    codes = builder.constant((np.arange(16 * 16).reshape(16, 16, 1, 1) % 255 - 127).astype(np.int8))
    (small,) = builder.add("Convert", 1, codes, destination_type="f32")
    (filters,) = builder.add(
        "Multiply", 1, small, builder.constant(np.full((16, 1, 1, 1), 1 / 512, np.float32))
    )
    around = {"strides": [1, 1], "dilations": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0]}
    x = rounded(builder.parameter("image", "f32", [1, 16, 8, 8]), "codes")
    (y,) = builder.add("Convolution", 1, x, filters, **around, name="product")
    pooled = {"strides": [2, 2], "kernel": [2, 2], "pads_begin": [0, 0], "pads_end": [0, 0]}
    return list(builder.add("MaxPool", 1, rounded(y, "rounded"), **pooled, name="largest"))


def gated(builder: uncork.Builder) -> list[Source]:
    """The largest codes of a convolution times a gate, and their means, between convolutions."""
    (pooled,) = quantized(builder)
    limits = [builder.constant(np.full((1, 1, 1, 1), limit, np.float32)) for limit in (0, 4)]
    gate = builder.parameter("gate", "f32", [1, 16, 1, 1])
    (y,) = builder.add("Multiply", 1, pooled, gate, name="gated")
    (y,) = builder.add("FakeQuantize", 1, y, *limits, *limits, levels=256, name="levels")
    codes = (np.arange(8 * 16).reshape(8, 16, 1, 1) % 255 - 127).astype(np.int8)
    (small,) = builder.add("Convert", 1, builder.constant(codes), destination_type="f32")
    scales = builder.constant(np.full((8, 1, 1, 1), 1 / 512, np.float32))
    (filters,) = builder.add("Multiply", 1, small, scales)
    around = {"strides": [1, 1], "dilations": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0]}
    (y,) = builder.add("Convolution", 1, y, filters, **around, name="next")
    axes = builder.constant(np.array([2, 3]))
    means = builder.add("ReduceMean", 1, pooled, axes, keep_dims=True, name="means")
    return [y, *means]


def coded_rows(builder: uncork.Builder) -> list[Source]:
    """Rows as a decoder keeps them in bytes, and as attention reads them."""
    coding = RowCoding(ElementType.u8)
    rows = builder.parameter("rows", "f32", [None, 16])
    kept = builder.add_operation(coding.encoder(), rows, name="kept")
    return list(builder.add_operation(coding.decoder(), *kept, name="read"))


def state_product(builder: uncork.Builder) -> list[Source]:
    """Rows times all rows that a variable has."""
    x, y = (builder.parameter(name, "f32", [2, None, 20]) for name in ("x", "y"))
    (old,) = builder.add(
        "ReadValue",
        6,
        variable_id="rows",
        variable_type="f32",
        variable_shape=uncork.PartialShape([2, None, 20]),
    )
    (whole,) = builder.add("Concat", 1, old, x, axis=1, name="whole")
    builder.add("Assign", 6, whole, variable_id="rows")
    return list(builder.add("MatMul", 1, y, whole, transpose_b=True, name="scores"))


def attention(builder: uncork.Builder) -> list[Source]:
    """With the operation, and spelled by products over heads that lie beside each other."""
    query, key, value = (
        builder.parameter(name, "f32", [1, None, 48]) for name in ("query", "key", "value")
    )
    heads = []
    for source, order in ((query, [0, 2, 1, 3]), (key, [0, 2, 3, 1]), (value, [0, 2, 1, 3])):
        (split,) = builder.add(
            "Reshape", 1, source, builder.constant(np.array([0, 0, 3, 16])), special_zero=True
        )
        heads += builder.add("Transpose", 1, split, builder.constant(np.array(order)))
    (scores,) = builder.add("MatMul", 1, heads[0], heads[1])
    (scaled,) = builder.add("Multiply", 1, scores, builder.constant(np.float32(0.25)))
    (weights,) = builder.add("SoftMax", 8, scaled, axis=-1)
    (sums,) = builder.add("MatMul", 1, weights, heads[2])
    (together,) = builder.add(
        "Transpose", 1, sums, builder.constant(np.array([0, 2, 1, 3])), name="spelled"
    )
    mask = builder.parameter("mask", "boolean", [None, None])
    return [
        together,
        *builder.add(
            "ScaledDotProductAttention", 13, query, key, value, mask, causal=False, name="attention"
        ),
    ]


def compressed(builder: uncork.Builder) -> list[Source]:
    """Weights in f16, and in groups of four bits, for rows of any number and for one."""
    results = []
    for name, stored, rows in (("half", "f16", None), ("groups", "i4", 1)):
        data = builder.parameter(name, "f32", [rows, 128])
        codes = np.ones((64, 2, 64), np.int8) if stored == "i4" else np.ones((64, 128), np.float16)
        (matrix,) = builder.add(
            "Convert", 1, builder.constant(codes, stored), destination_type="f32"
        )
        if stored == "i4":
            (matrix,) = builder.add(
                "Multiply", 1, matrix, builder.constant(np.ones((64, 2, 1), np.float32))
            )
            (matrix,) = builder.add(
                "Reshape", 1, matrix, builder.constant(np.array([64, 128])), special_zero=False
            )
        results += builder.add("MatMul", 1, data, matrix, transpose_b=True, name=name)
    return results


FAMILIES = {
    "compressed": compressed,
    "attention": attention,
    "convolution": convolution,
    "convolution.deformable": deformable,
    "convolution.pool": pooled_blocks,
    "fourier": fourier,
    "gemm.einsum": einsum,
    "gemm.state_product": state_product,
    "elementwise": elementwise,
    "embedding.bags": embedding,
    "movement.blocks": blocks,
    "movement.gather": gather,
    "movement.moved": moved,
    "recurrent.final_states": last_step,
    "gemm.matmul": linear,
    "loops.bins": pooled_boxes,
    "loops.colours": colours,
    "loops.levels": levels,
    "loops.normalise": normalise,
    "loops.folded": folded,
    "loops.pad": padding,
    "loops.patches": patches,
    "loops.pool": pool,
    "loops.regions": regions,
    "loops.resize": resize,
    "loops.sample": sample,
    "loops.scan": scan,
    "loops.yolo": yolo,
    "movement.copy_table": move,
    "selection": pick,
    "selection.sequences": sequences_decoded,
    "embedding.quantized": quantized_table,
    "quantized": quantized,
    "quantized.elements": gated,
    "quantized.rows": coded_rows,
    "recurrent": recurrent,
    "recurrent.cell": cells,
    "loops.rows": reduce,
    "detection": detection,
    "detection.classes": of_classes,
    "detection.detectron": detectron,
    "detection.output": detections,
    "detection.priors": priors,
    "detection.regions": proposals,
    "finding": finding,
    "generation": generation,
    "scatter": scatter,
    "search": search,
    "scatter.counts": scattered_counts,
    "scatter.segments": segments,
    "movement.state": state,
    "movement.transpose": transpose,
    "movement.view": views,
}
#: The sizes of what the models leave open.
SIZES = {
    **{
        "ids": 30,
        "segments": 30,
        "values": 30,
        "indices": 30,
        "feature_values": 30,
        "feature_indices": 30,
    },
    **{"half": 30, "query": 30, "key": 30, "value": 30, "mask": 30, "x": 3, "y": 2},
    "rows": 30,
    **{"boxes": 30, "kinds": 30, "images": 30, "numbered": 30, "image": 2, "moves": 2, "sure": 2},
    **dict.fromkeys(("objects", "deltas", "info", "anchors", "sure_regions"), 2),
    **dict.fromkeys(("regions", "class_deltas", "class_scores", "probabilities"), 30),
    **dict.fromkeys(("features", "coarse"), 7),
    **dict.fromkeys(("step_scores", "step_counts"), 3),
}


def test_no_other_family_has_a_golden_plan() -> None:
    assert set(FAMILIES) <= select.families() | {"movement.view"}


@pytest.mark.parametrize("family", sorted({*select.families(), "movement.view"}))
def test_family(request: pytest.FixtureRequest, family: str) -> None:
    assert family in FAMILIES, "it has no model here: see `Add a kernel` in ARCHITECTURE.md"
    builder = uncork.Builder(family)
    for number, source in enumerate(FAMILIES[family](builder)):
        builder.result(source, f"result_{number}")
    compiled = compile_for(builder.model(), TARGET, 1)
    shapes = {
        p.name: [SIZES[p.name] if d.size is None else d.size for d in p.shape]
        for p in compiled.inputs
    }
    text = planned(compiled, shapes)
    assert "reference" not in text, text
    check(request, f"family_{family}", text)


def test_plans_without_kernels(request: pytest.FixtureRequest) -> None:
    pytest.importorskip("llvmlite")  # elsewhere that is the reason
    compiled = uncork.load(ROOT / "examples" / "word_language" / "model.xml", backend="reference")
    check(request, "word_language_reference", f"{compiled.plan}\n")


def test_asking_for_a_plan_compiles_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> int:
        raise AssertionError("a kernel was asked for")

    monkeypatch.setattr(ObjectStore, "address", refuse)
    monkeypatch.setattr(ObjectStore, "function", refuse)
    compiled = uncork.load(ROOT / "examples" / "word_language" / "model.xml")
    assert len(compiled.plan.steps) >= 9
    assert len(compiled.plan_for(EXAMPLES["word_language"]).steps) >= 9
    inputs = [
        np.zeros(EXAMPLES["word_language"][port.name], port.element_type.dtype)
        for port in compiled.inputs
    ]
    if kernels_available():
        with pytest.raises(AssertionError, match="a kernel was asked for"):
            compiled(*inputs)
