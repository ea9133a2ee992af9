"""Which networks OpenVINO converts and saves for `test_saved_models`, and what they are called
with.
"""

from __future__ import annotations

import functools
import json
import subprocess
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

Arrays = list[np.ndarray]


@dataclass(frozen=True)
class Network:
    """`inputs(random, batch, size)` makes the inputs of a call. `contains` is what its file must
    have for the test to mean anything.

    `fixed` says why OpenVINO is asked with the shapes of the call although the file leaves them
    open.
    """

    source: Callable[[], Any]
    inputs: Callable[[np.random.Generator, int, int], Sequence[Any]]
    contains: str
    fixed: str = ""

    def call(self, batch: int, size: int) -> Arrays:
        return [
            np.asarray(a)
            for a in self.inputs(np.random.default_rng(batch * 100 + size), batch, size)
        ]


def _torch(name: str, script: bool = False) -> Callable[[], Any]:
    def make() -> Any:
        from tests.oracles import _saved_models_torch as networks

        return (networks.scripted if script else networks.seeded)(getattr(networks, name))

    return make


def _onnx(name: str) -> Callable[[], Any]:
    def make() -> Any:
        from tests.oracles import _saved_models_onnx as networks

        return getattr(networks, name)()

    return make


def floats(random: np.random.Generator, *shape: int) -> np.ndarray:
    return random.standard_normal(shape).astype(np.float32)


def _token_ids(random: np.random.Generator, batch: int, size: int) -> Arrays:
    """Rows that end with padding (0), at different places."""
    ids = random.integers(1, 50, (batch, 6 * size + 1))
    for row in range(1, batch):
        ids[row, -row:] = 0
    return [ids]


def _bags(random: np.random.Generator, batch: int, size: int) -> Arrays:
    starts = np.sort(
        random.integers(0, 9 * size, 2 * batch - 1)
    )  # some bags are empty, the last one is not
    return [
        random.integers(0, 40, 9 * size),
        np.concatenate([[0], starts]),
        floats(random, 9 * size),
        floats(random, 2 * batch, 5),
    ]


NETWORKS = {
    "residual network": Network(
        _torch("ResNet"),
        lambda r, n, s: [floats(r, n, 3, 32 * s, 40 * s)],
        "Convolution MaxPool ReduceMean MatMul",
    ),
    "depthwise convolution, squeeze and excitation": Network(
        _torch("MobileBlock"),
        lambda r, n, s: [floats(r, n, 3, 16 * s, 24)],
        "GroupConvolution GroupNormalization HSwish HSigmoid AvgPool",
    ),
    "segmentation": Network(
        _torch("Segmentation"),
        lambda r, n, s: [floats(r, n, 3, 32 * s, 24)],
        "ConvolutionBackpropData GroupConvolutionBackpropData Interpolate MVN Mish TopK",
    ),
    "transformer encoder": Network(
        _torch("Encoder"), _token_ids, "Gather MVN Gelu ScaledDotProductAttention"
    ),
    "attention": Network(
        _torch("Attention"),
        lambda r, n, s: [floats(r, n, 5 * s, 32), r.random((n, 1, 5 * s, 5 * s)) < 0.7],
        "ScaledDotProductAttention Broadcast Swish",
    ),
    "decoder step": Network(
        _torch("DecoderStep"),
        lambda r, n, s: [floats(r, n, 1, 32), floats(r, n, 1, 3 * s, 8), floats(r, n, 1, 3 * s, 8)],
        "ScaledDotProductAttention Concat",
    ),
    "LSTM in a loop": Network(
        _torch("LstmLoop", script=True), lambda r, n, s: [floats(r, 4 * s, n, 6)], "Loop If MatMul"
    ),
    "recurrent layers": Network(
        _torch("Recurrent"),
        lambda r, n, s: [floats(r, n, 5 * s, 6)],
        "GRUSequence LSTMSequence RNNSequence CumSum",
    ),
    "embedding bags": Network(
        _torch("Bags"),
        _bags,
        "EmbeddingBagOffsets PReLU",
        "OpenVINO refuses weights of an open length",
    ),
    "windows and routing": Network(
        _torch("WindowedVision"),
        lambda r, n, s: [floats(r, n, 3, 16 * s, 24)],
        "Roll TopK Einsum GatherElements",
    ),
    "spectrum": Network(
        _torch("Audio"), lambda r, n, s: [floats(r, n, 128 * s)], "STFT LogSoftmax MaxPool Pad"
    ),
    "detector": Network(
        _onnx("detector"),
        lambda r, n, s: [floats(r, n, 3, 32 * s, 48)],
        "NonMaxSuppression GatherND Range",
    ),
    "scan": Network(
        _onnx("scanned"),
        lambda r, n, s: [floats(r, n, 6), floats(r, 5 * s, n, 5)],
        "TensorIterator",
    ),
    "loop until": Network(
        _onnx("searching"),
        lambda r, n, s: [np.array(10 * s), floats(r, n, 4) * np.float32(0.01**s)],
        "Loop If",
    ),
    "quantized": Network(
        _onnx("quantized"),
        lambda r, n, s: [floats(r, n, 3, 8 * s, 12)],
        "FakeQuantize GroupConvolution Convert",
    ),
    "enlarging": Network(
        _onnx("enlarging"),
        lambda r, n, s: [floats(r, n, 1, 8 * s, 10)],
        "DepthToSpace Interpolate Pad Slice TopK NormalizeL2",
    ),
    "sequences of own lengths": Network(
        _onnx("sequences"),
        lambda r, n, s: [floats(r, 4 * s, n, 3), np.array([4 * s, 1, 3][:n], np.int32)],
        "LSTMSequence GRUSequence RNNSequence",
        "with open shapes OpenVINO ignores the lengths",
    ),
}
#: Batch and size of the call that a network is converted with, and of another.
FIRST, SECOND = (2, 1), (3, 2)


@functools.cache
def converted(name: str) -> Any:
    """OpenVINO's model of a network, with its shapes left open where the converter leaves them so.
    Do not change it: clone it.
    """
    import openvino
    import torch

    network = NETWORKS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of tracing
        source = network.source()
        if not isinstance(source, torch.nn.Module):
            return _from_onnx(source)
        torch.backends.mha.set_fastpath_enabled(
            False
        )  # its fused layer has no place in other formats
        example = tuple(map(torch.from_numpy, network.call(*FIRST)))
        return openvino.convert_model(source, example_input=example)


def _from_onnx(source: Any) -> Any:
    import io

    import openvino

    return openvino.convert_model(io.BytesIO(source.SerializeToString()))


def saved(model: Any, folder: Path, **options: Any) -> Path:
    """The file that OpenVINO writes of a model."""
    import openvino

    path = folder / "model.xml"
    openvino.save_model(model, path, **options)
    return path


_CALLS_IN_A_ROW = """
import json, sys
import numpy, openvino
job = json.load(sys.stdin)
options = {"INFERENCE_PRECISION_HINT": "f32"}
request = openvino.Core().compile_model(job["model"], "CPU", options).create_infer_request()
stored = numpy.load(job["calls"])
results = {}
for call in range(job["count"]):
    answers = request.infer({i: stored[f"{call}_{i}"] for i in range(job["inputs"])})
    results |= {f"{call}_{i}": answer for i, answer in enumerate(answers.values())}
numpy.savez(job["results"], **results)
"""


def calls_in_a_row(path: Path, calls: Sequence[Arrays]) -> list[Arrays]:
    """What OpenVINO, in a process of its own, gives for calls between which it keeps the model's
    variables.
    """
    given, made = path.with_name("calls.npz"), path.with_name("results.npz")
    np.savez(
        given,
        **{
            f"{call}_{i}": array
            for call, arrays in enumerate(calls)
            for i, array in enumerate(arrays)
        },
    )
    job = {
        "model": str(path),
        "calls": str(given),
        "count": len(calls),
        "inputs": len(calls[0]),
        "results": str(made),
    }
    subprocess.run(
        [sys.executable, "-c", _CALLS_IN_A_ROW],
        input=json.dumps(job),
        text=True,
        check=True,
        timeout=120,
    )
    with np.load(made) as results:
        names = [
            [name for name in results.files if name.startswith(f"{call}_")]
            for call in range(len(calls))
        ]
        return [[results[name] for name in group] for group in names]
