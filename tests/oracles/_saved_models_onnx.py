"""Models of ONNX built node by node: what exporters write and torch's converter has no word for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


class Graph:
    """Nodes in the order in which they are called; weights are drawn from a seed."""

    def __init__(self, scope: str = "") -> None:
        self.scope = scope  # names of a sub-graph must not be those of the graph around it
        self.random = np.random.default_rng(5)
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []

    def constant(self, value: Any) -> str:
        """An initializer: floats as f32, whole numbers as i64."""
        array = np.asarray(value)
        array = array.astype(np.float32) if array.dtype == np.float64 else array
        name = f"{self.scope}constant{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(array, name))
        return name

    def weights(self, *shape: int) -> str:
        return self.constant(self.random.standard_normal(shape) / np.sqrt(np.prod(shape[1:])))

    def __call__(self, operator: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:
        """Add a node; the name of its output, or a list of names."""
        names = [f"{self.scope}{operator.lower()}{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(operator, list(inputs), names, **attributes))
        return names[0] if outputs == 1 else names

    def graph(self, inputs: Sequence[Any], outputs: Sequence[tuple[str, int, Any]]) -> Any:
        """With the outputs given as (name of a value, type, shape)."""
        results = [helper.make_tensor_value_info(*output) for output in outputs]
        return helper.make_graph(self.nodes, "graph", list(inputs), results, self.initializers)

    def model(
        self, inputs: Sequence[tuple[str, int, Any]], outputs: Sequence[tuple[str, int, Any]]
    ) -> Any:
        graph = self.graph([helper.make_tensor_value_info(*given) for given in inputs], outputs)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.checker.check_model(model)
        return model


def detector() -> Any:
    """A head of one scale: scores and boxes for every cell, the best of each class that do not
    overlap, and their coordinates.
    """
    g = Graph()
    x = g(
        "Relu",
        g("Conv", "image", g.weights(8, 3, 3, 3), g.weights(8), strides=[4, 4], pads=[1, 1, 1, 1]),
    )
    scores = g("Sigmoid", g("Conv", x, g.weights(3, 8, 1, 1)))
    scores = g("Reshape", scores, g.constant([0, 3, -1]))
    sides = g("Exp", g("Conv", x, g.weights(2, 8, 1, 1)))
    rows, columns = (
        g("Squeeze", g("Gather", g("Shape", x), g.constant([axis])), g.constant([0]))
        for axis in (2, 3)
    )
    zero, one = g.constant(np.int64(0)), g.constant(np.int64(1))
    down = g("Unsqueeze", g("Cast", g("Range", zero, rows, one), to=FLOAT), g.constant([1]))
    across = g("Unsqueeze", g("Cast", g("Range", zero, columns, one), to=FLOAT), g.constant([0]))
    none = g.constant(0.0)
    places = [g("Add", down, g("Mul", across, none)), g("Add", across, g("Mul", down, none))]
    grid = g("Concat", *(g("Unsqueeze", place, g.constant([0])) for place in places), axis=0)
    low, high = g("Sub", grid, sides), g("Add", grid, sides)
    corners = g("Reshape", g("Concat", low, high, axis=1), g.constant([0, 4, -1]))
    boxes = g("Transpose", corners, perm=[0, 2, 1])
    chosen = g(
        "NonMaxSuppression", boxes, scores, g.constant([5]), g.constant([0.3]), g.constant([0.4])
    )
    batch_class, box = g("Split", chosen, g.constant([2, 1]), outputs=2, axis=1)
    batch, _ = g("Split", batch_class, g.constant([1, 1]), outputs=2, axis=1)
    kept_boxes = g("GatherND", boxes, g("Concat", batch, box, axis=1))
    kept_scores = g("GatherND", scores, chosen)
    return g.model(
        [("image", FLOAT, ["n", 3, "h", "w"])],
        [(chosen, INT64, [None, 3]), (kept_boxes, FLOAT, [None, 4]), (kept_scores, FLOAT, [None])],
    )


def scanned() -> Any:
    """A gated cell in a Scan, backwards, with all of its states kept."""
    body = Graph("body_")
    gates = body(
        "Add",
        body("MatMul", "step", body.weights(5, 12)),
        body("MatMul", "before", body.weights(6, 12)),
    )
    gate, new = body("Split", gates, body.constant([6, 6]), outputs=2, axis=1)
    gate = body("Sigmoid", gate)
    kept = body("Mul", gate, "before")
    after = body("Add", kept, body("Mul", body("Sub", body.constant(1.0), gate), body("Tanh", new)))
    each = body("Identity", after)
    given = [
        helper.make_tensor_value_info(name, FLOAT, ["n", size])
        for name, size in (("before", 6), ("step", 5))
    ]
    inner = body.graph(given, [(after, FLOAT, ["n", 6]), (each, FLOAT, ["n", 6])])
    g = Graph()
    last, states = g(
        "Scan",
        "start",
        "steps",
        outputs=2,
        body=inner,
        num_scan_inputs=1,
        scan_input_directions=[1],
        scan_output_directions=[1],
    )
    return g.model(
        [("start", FLOAT, ["n", 6]), ("steps", FLOAT, ["t", "n", 5])],
        [(last, FLOAT, ["n", 6]), (states, FLOAT, ["t", "n", 6])],
    )


def searching() -> Any:
    """A Loop that ends by its condition, with a value from outside, states and concatenated
    outputs; an If after it.
    """
    body = Graph("body_")
    grown = body("MatMul", "before", "matrix")
    total = body("ReduceSum", body("Abs", grown), keepdims=0)
    go_on = body("Less", total, body.constant(np.float32(60)))
    given = [
        helper.make_tensor_value_info("iteration", INT64, []),
        helper.make_tensor_value_info("go", BOOL, []),
        helper.make_tensor_value_info("before", FLOAT, ["n", 4]),
    ]
    inner = body.graph(given, [(go_on, BOOL, []), (grown, FLOAT, ["n", 4]), (total, FLOAT, [])])
    g = Graph()
    matrix = g("Identity", g.constant(g.random.standard_normal((4, 4))))
    g.nodes[-1].output[0] = "matrix"
    assert matrix
    final, totals = g("Loop", "limit", "", "value", outputs=2, body=inner)
    count = g("Shape", totals)
    short = Graph("short_")
    doubled = short("Mul", final, short.constant(2.0))
    long = Graph("long_")
    least = long("ReduceMin", final, axes=[0], keepdims=1)
    many = g("Squeeze", g("Greater", count, g.constant([3])), g.constant([0]))
    branches = {
        "then_branch": long.graph([], [(least, FLOAT, [None, 4])]),
        "else_branch": short.graph([], [(doubled, FLOAT, [None, 4])]),
    }
    picked = g("If", many, **branches)
    return g.model(
        [("limit", INT64, []), ("value", FLOAT, ["n", 4])],
        [(final, FLOAT, ["n", 4]), (totals, FLOAT, ["steps"]), (picked, FLOAT, [None, 4])],
    )


def quantized() -> Any:
    """Convolutions between QuantizeLinear and DequantizeLinear, weights in i8 with a scale for each
    channel.
    """
    g = Graph()

    def stepped(value: str, scale: float, zero: int) -> str:
        pair = g.constant(scale), g.constant(np.uint8(zero))
        return str(g("DequantizeLinear", g("QuantizeLinear", value, *pair), *pair))

    def weights(*shape: int) -> str:
        stored = g.constant(g.random.integers(-127, 128, shape).astype(np.int8))
        scales = g.constant(g.random.uniform(0.001, 0.004, shape[0]))
        return str(
            g("DequantizeLinear", stored, scales, g.constant(np.zeros(shape[0], np.int8)), axis=0)
        )

    x = stepped("image", 0.05, 128)
    x = g("Relu", g("Conv", x, weights(8, 3, 3, 3), g.weights(8), pads=[1, 1, 1, 1]))
    x = stepped(x, 0.03, 0)
    x = g("Conv", x, weights(8, 1, 3, 3), group=8, strides=[2, 2])
    x = g("GlobalAveragePool", stepped(x, 0.02, 100))
    x = g("Gemm", g("Flatten", x), weights(6, 8), g.weights(6), transB=1)
    return g.model([("image", FLOAT, ["n", 3, "h", "w"])], [(x, FLOAT, ["n", 6])])


def enlarging() -> Any:
    """Super resolution: pixels from depth beside a cubic enlargement, and what is written into a
    part of it.
    """
    g = Graph()
    x = g(
        "PRelu",
        g("Conv", "image", g.weights(16, 1, 5, 5), pads=[2, 2, 2, 2]),
        g.constant(np.full((16, 1, 1), 0.2)),
    )
    x = g("Conv", x, g.weights(4, 16, 3, 3), pads=[1, 1, 1, 1])
    sharp = g("DepthToSpace", x, blocksize=2, mode="CRD")
    smooth = g(
        "Resize",
        "image",
        "",
        g.constant([1.0, 1.0, 2.0, 2.0]),
        mode="cubic",
        coordinate_transformation_mode="half_pixel",
    )
    padded = g("Pad", g("Add", sharp, smooth), g.constant([0, 0, 1, 2, 0, 0, 3, 0]), mode="reflect")
    cut = g(
        "Slice",
        padded,
        g.constant([-1, 1]),
        g.constant([-100, 100]),
        g.constant([2, 3]),
        g.constant([-2, 1]),
    )
    best, places = g(
        "TopK", g("LpNormalization", cut, axis=-1), g.constant([3]), outputs=2, axis=-1
    )
    return g.model(
        [("image", FLOAT, ["n", 1, "h", "w"])],
        [(cut, FLOAT, [None] * 4), (best, FLOAT, [None] * 4), (places, INT64, [None] * 4)],
    )


def sequences() -> Any:
    """LSTM both ways, GRU and RNN nodes over rows of their own lengths."""
    g = Graph()
    both_ways = g.weights(2, 16, 3), g.weights(2, 16, 4), g.weights(2, 32), "lengths"
    y, last, cell = g(
        "LSTM", "steps", *both_ways, outputs=3, hidden_size=4, direction="bidirectional"
    )
    joined = g("Reshape", g("Transpose", y, perm=[0, 2, 1, 3]), g.constant([0, 0, -1]))
    gated = g.weights(1, 15, 8), g.weights(1, 15, 5), g.weights(1, 30), "lengths"
    gru, _ = g("GRU", joined, *gated, outputs=2, hidden_size=5, linear_before_reset=1)
    plain = g.weights(1, 3, 5), g.weights(1, 3, 3), g.weights(1, 6), "lengths"
    rnn, end = g("RNN", g("Squeeze", gru, g.constant([1])), *plain, outputs=2, hidden_size=3)
    return g.model(
        [("steps", FLOAT, ["t", "n", 3]), ("lengths", TensorProto.INT32, ["n"])],
        [
            (rnn, FLOAT, [None] * 4),
            (end, FLOAT, [None] * 3),
            (last, FLOAT, [None] * 3),
            (cell, FLOAT, [None] * 3),
        ],
    )
