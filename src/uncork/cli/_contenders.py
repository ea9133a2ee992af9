"""Other systems that `uncork bench` times beside uncork, on the same arrays and threads."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from uncork.cli._latency import Contender
from uncork.cli._parser import mistyped_if
from uncork.compare.peers.base import GivenInput, in_order
from uncork.errors import UncorkError
from uncork.ir.model import Model
from uncork.types import Array

#: What `--against` takes.
AGAINST = "openvino, onnxruntime:FILE.onnx or torch:FILE.pt2"


def against(text: str) -> str:
    """`--against`: another system, with its own file of the model where it does not read IR."""
    system, _, path = text.partition(":")
    mistyped_if(
        text != "openvino" and (system not in ("onnxruntime", "torch") or not path),
        f"expected {AGAINST}, got '{text}'",
    )
    return text


def contender(
    arguments: argparse.Namespace, model: Model, inputs: Sequence[Array], threads: int
) -> Contender:
    """The other side. Raises UncorkError where it is not installed, or cannot run the model."""
    system, _, path = arguments.against.partition(":")
    if system == "openvino":
        return _guarded("OpenVINO", "openvino", lambda: _openvino(arguments, inputs, threads))
    UncorkError.when(model.sinks, f"{system} has no variables as this model has", "--against")
    given = [
        GivenInput(model.by_id[node].name, port.names, port.element_type.name, array)
        for node, port, array in zip(model.parameters, model.inputs, inputs, strict=True)
    ]
    if system == "onnxruntime":
        return _guarded("ONNX Runtime", system, lambda: _onnxruntime(path, given, threads))
    UncorkError.when(
        not arguments.trust,
        "PyTorch runs what such a file says, pickles included: give --trust if you know where "
        "it comes from",
        path,
    )
    return _guarded("PyTorch", system, lambda: _torch(path, given, threads))


def _guarded(name: str, module: str, make: Callable[[], Contender]) -> Contender:
    try:
        importlib.import_module(module)
    except ImportError:
        raise UncorkError(f"{module} is not installed: pip install {module}", "--against") from None
    try:
        return make()
    except Exception as error:  # each system has kinds of its own
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        raise UncorkError(
            f"{name} cannot run it: {lines[-1][:300] if lines else type(error).__name__}",
            "--against",
        ) from None


def _openvino(arguments: argparse.Namespace, inputs: Sequence[Array], threads: int) -> Contender:
    """OpenVINO's CPU with the same file, arrays, threads and precision ("fast": its default)."""
    core = importlib.import_module("openvino").Core()
    path, weights = arguments.model, arguments.weights
    model = core.read_model(path, weights) if weights else core.read_model(path)
    options = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY"}
    if arguments.precision != "fast":  # its default is what is fast
        hint = "bf16" if arguments.precision == "bf16" else "f32"
        options["INFERENCE_PRECISION_HINT"] = hint
    request = core.compile_model(model, "CPU", options).create_infer_request()
    given = [np.ascontiguousarray(array) for array in inputs]
    request.infer(given)
    states = bool(request.query_state())
    return Contender(
        "openvino", lambda: request.infer(given), request.reset_state if states else None
    )


def _onnxruntime(path: str, given: Sequence[GivenInput], threads: int) -> Contender:
    """ONNX Runtime with all its optimisations."""
    runtime = importlib.import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 3
    session = runtime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [port.name for port in session.get_inputs()]
    ordered = in_order(given, [(name,) for name in names])
    feed = {name: one.array for name, one in zip(names, ordered, strict=True)}
    session.run(None, feed)
    return Contender("onnxruntime", lambda: session.run(None, feed))


def _torch(path: str, given: Sequence[GivenInput], threads: int) -> Contender:
    """A program saved by `torch.export.save`, run as it is."""
    torch = importlib.import_module("torch")
    torch.set_num_threads(threads)
    module = torch.export.load(path).module()
    names = [node.name for node in module.graph.nodes if node.op == "placeholder"]
    ordered = in_order(given, [(name, f"{name}:0") for name in names])
    tensors = [torch.from_numpy(np.array(one.array)) for one in ordered]

    def predict() -> Any:
        with torch.inference_mode():
            return module(*tensors)

    predict()
    return Contender("torch", predict)
