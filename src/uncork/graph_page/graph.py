"""What a page shows of a model: boxes with their texts, and what is known of each layer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from uncork.graph_page.layout import Box, laid_out
from uncork.ir.model import Model, Node
from uncork.ops.parameter import Const
from uncork.quoting import in_terminal
from uncork.types import ElementType, TensorSpec

#: Characters of a line in a box, of a value in the details, and values of a constant that are told.
_LINE, _VALUE, _VALUES = 30, 400, 8
#: The size of letters and boxes.
_BOLD, _LETTER, _PADDING, _NARROWEST, _HEIGHT = 7.6, 6.7, 20.0, 70.0, 40.0
#: Operations by what a reader looks for, for their colours.
_GROUPS = {
    "io": "Parameter Result ReadValue Assign",
    "product": "MatMul Convolution GroupConvolution ConvolutionBackpropData Einsum "
    "GroupConvolutionBackpropData DeformableConvolution BinaryConvolution "
    "ScaledDotProductAttention",
    "sequence": "GRUSequence LSTMSequence RNNSequence GRUCell LSTMCell RNNCell Loop If "
    "TensorIterator",
    "table": "Gather GatherElements GatherND EmbeddingBagOffsets EmbeddingBagOffsetsSum "
    "EmbeddingBagPacked EmbeddingBagPackedSum EmbeddingSegmentsSum ScatterUpdate "
    "ScatterNDUpdate ScatterElementsUpdate",
    "activation": "ReLU Relu PReLU Sigmoid Tanh Gelu Elu Selu Swish HSwish HSigmoid Mish SoftMax "
    "LogSoftmax Softmax SoftPlus SoftSign Clamp HardSigmoid",
    "norm": "BatchNormInference MVN LRN NormalizeL2 GroupNormalization FakeQuantize",
    "pool": "MaxPool AvgPool AdaptiveAvgPool AdaptiveMaxPool ReduceMean ReduceSum ReduceMax "
    "Interpolate",
    "move": "Reshape Transpose Squeeze Unsqueeze Concat Split VariadicSplit Slice StridedSlice Pad "
    "Broadcast Tile Convert ConvertLike ShapeOf",
}
_GROUP_OF = {name: group for group, names in _GROUPS.items() for name in names.split()}


class Findings(Struct, frozen=True):
    """What is known beside the file, by names of layers: kernels, seconds, how they compare with
    another system, and the first layer that differs.
    """

    kernels: Mapping[str, str] = {}
    seconds: Mapping[str, float] = {}
    verdicts: Mapping[str, str] = {}
    first: str = ""


def graphs_of(model: Model, findings: Findings) -> list[dict[str, Any]]:
    """The model's graph, and those of its bodies behind it, as the page's script reads them. All
    texts are without characters that steer or hide.
    """
    models = [("", model), *_bodies(model, "")]
    numbers = {id(body): number for number, (_, body) in enumerate(models)}
    return [
        _graph(body, path, numbers, findings if number == 0 else Findings())
        for number, (path, body) in enumerate(models)
    ]


def _bodies(model: Model, path: str) -> Iterator[tuple[str, Model]]:
    todo = [(path, model)]
    while todo:
        path, graph = todo.pop(0)
        for node in graph.nodes:
            for what, body in node.bodies:
                inside = f"{path}{' / ' if path else ''}{node.name}: {what}"
                yield inside, body
                todo.append((inside, body))


def _graph(
    model: Model, path: str, numbers: Mapping[int, int], findings: Findings
) -> dict[str, Any]:
    boxes = [node for node in model.nodes if not isinstance(node.operation, Const)]
    number_of = {node.id: number for number, node in enumerate(boxes)}
    arrows = [
        (number_of[source.node], number)
        for number, node in enumerate(boxes)
        for source in node.inputs
        if source.node in number_of and number_of[source.node] < number
    ]
    arrows = list(dict.fromkeys(arrows))
    readers: list[list[int]] = [[] for _ in boxes]
    for source, target in arrows:
        readers[source].append(target)
    lines = [_lines(node) for node in boxes]
    sizes = [
        Box(max(_NARROWEST, len(bold) * _BOLD + _PADDING, len(plain) * _LETTER + _PADDING), _HEIGHT)
        for bold, plain in lines
    ]
    layout = laid_out(sizes, arrows)
    return {
        "path": in_terminal(path),
        "width": round(layout.width),
        "height": round(layout.height),
        "arrows": [
            [source, target, [[round(x, 1), round(y, 1)] for x, y in route]]
            for (source, target), route in zip(arrows, layout.routes, strict=True)
        ],
        "boxes": [
            {
                "at": [round(place[0], 1), round(place[1], 1), round(size.width), _HEIGHT],
                "lines": pair,
                "group": _GROUP_OF.get(node.type_name, "other"),
                "name": in_terminal(node.name),
                "facts": _facts(node, findings),
                "inputs": _inputs(model, node, number_of),
                "outputs": [_tensor(port.spec, port.names) for port in node.outputs],
                "readers": reading,
                "bodies": [[in_terminal(what), numbers[id(body)]] for what, body in node.bodies],
                "seconds": findings.seconds.get(node.name),
                "verdict": "first"
                if node.name == findings.first and findings.first
                else findings.verdicts.get(node.name, ""),
            }
            for node, place, size, pair, reading in zip(
                boxes, layout.places, sizes, lines, readers, strict=True
            )
        ],
    }


def _lines(node: Node) -> list[str]:
    """The two lines in a box: the operation, and what it gives; of inputs and outputs the name."""
    kind = node.type_name
    if kind in ("Parameter", "Result"):
        return [_short(kind), _short(node.name)]
    return [_short(kind), _short(str(node.outputs[0].spec) if node.outputs else "")]


def _short(text: str) -> str:
    shown = in_terminal(text)
    return shown if len(shown) <= _LINE else shown[: _LINE - 1] + "…"


def _cut(text: str) -> str:
    shown = in_terminal(text)
    return shown if len(shown) <= _VALUE else f"{shown[:_VALUE]}… ({len(text):,} characters)"


def _facts(node: Node, findings: Findings) -> list[list[str]]:
    """What is said of a layer: pairs of a heading and a text."""
    label = node.operation.label() if node.operation else f"{node.file_type}@{node.opset}"
    facts = [["operation", label], ["id", str(node.id)]]
    if node.operation is None:
        facts.append(["not supported", "this version of uncork does not know the operation"])
    if kernel := findings.kernels.get(node.name):
        facts.append(["kernel", kernel])
    elif findings.kernels and node.type_name not in ("Parameter", "Result"):
        facts.append(["kernel", "none of its own: it is a part of another step, or known before"])
    if verdict := findings.verdicts.get(node.name):
        facts.append(["compared", verdict])
    facts += [[key, value] for key, value in node.attributes.items()]
    return [[_short(key), _cut(value)] for key, value in facts]


def _inputs(model: Model, node: Node, number_of: Mapping[int, int]) -> list[list[Any]]:
    """Each input: a text, and the number of the box that it comes from, or -1."""
    result: list[list[Any]] = []
    for source in node.inputs:
        giver = model.by_id.get(source.node)
        if giver is None or source.output >= len(giver.outputs):
            result.append(["missing", -1])
            continue
        port = giver.outputs[source.output]
        text = _tensor(port.spec, ())
        if isinstance(giver.operation, Const):
            text = f"constant {_short(giver.name)} {text}{_values(giver.operation)}"
        else:
            text = f"{_short(giver.name)} {text}"
        result.append([_cut(text), number_of.get(source.node, -1)])
    return result


def _values(constant: Const) -> str:
    """The values of a small constant."""
    value = constant.value
    if constant.count > _VALUES or constant.element_type is ElementType.string:
        return ""
    if not constant.element_type.is_native:
        return ""
    return " = " + np.array2string(np.asarray(value), separator=", ", threshold=_VALUES)


def _tensor(spec: TensorSpec, names: Sequence[str]) -> str:
    return _cut(" ".join([str(spec), *names]))
