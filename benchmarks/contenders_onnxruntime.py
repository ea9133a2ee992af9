"""onnxruntime's contenders: `run` on arrays, and arrays bound before. Models are made by the `onnx`
package.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.arrays import aligned
from benchmarks.timing import Contender
from uncork.types import Array

#: Where each of the IR's gates stands in ONNX: LSTM has i, o, f, c there.
_GATES = {"gru": (0, 1, 2), "lstm": (1, 3, 0, 2), "rnn": (0,)}


def of_model(
    runtime: Any, path: str, sets: Sequence[Sequence[Array]], threads: int
) -> list[Contender]:
    """A file with its inputs in their order. Bound results have the sizes of a first call."""
    session = _session(runtime, path, threads)
    names = [port.name for port in session.get_inputs()]
    feeds = [dict(zip(names, arrays, strict=True)) for arrays in sets]
    outputs = [port.name for port in session.get_outputs()]
    made = [
        {name: aligned(a.shape, a.dtype) for name, a in zip(outputs, first, strict=True)}
        for first in (session.run(None, feed) for feed in feeds)
    ]
    return _both_ways(runtime, session, feeds, made, list)


def _session(runtime: Any, model: str | bytes, threads: int) -> Any:
    options = runtime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    return runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _contenders(
    runtime: Any,
    graph: Any,
    feeds: Sequence[Mapping[str, Array]],
    outputs: Sequence[tuple[str, tuple[int, ...]]],
    threads: int,
    results: Callable[[Sequence[Array]], list[Array]],
) -> list[Contender]:
    from onnx import helper

    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)])
    model.ir_version = 8
    session = _session(runtime, model.SerializeToString(), threads)
    made = {name: aligned(shape, np.float32) for name, shape in outputs}
    return _both_ways(runtime, session, feeds, [made] * len(feeds), results)


def _both_ways(
    runtime: Any,
    session: Any,
    feeds: Sequence[Mapping[str, Array]],
    made: Sequence[Mapping[str, Array]],
    results: Callable[[Sequence[Array]], list[Array]],
) -> list[Contender]:
    """Calls of a session whose results lie in arrays `made` for each set of inputs, and `run`."""
    kept: list[Any] = []
    bindings: list[Any] = []
    for feed, arrays in zip(feeds, made, strict=True):
        binding = session.io_binding()
        for name, array in feed.items():
            value = runtime.OrtValue.ortvalue_from_numpy(array)
            kept.append(value)
            binding.bind_ortvalue_input(name, value)
        for name, array in arrays.items():
            binding.bind_output(name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)
        bindings.append(binding)

    def bound(i: int) -> list[Array]:
        session.run_with_iobinding(bindings[i])
        return list(made[i].values())

    return [
        Contender("onnxruntime bound", "onnxruntime", "preset", bound, results),
        Contender(
            "onnxruntime run", "onnxruntime", "call", lambda i: session.run(None, feeds[i]), results
        ),
    ]


def gather(
    runtime: Any, data: Array, indices: Sequence[Array], axis: int, threads: int
) -> list[Contender]:
    """ONNX's Gather, which has no batch dimensions."""
    from onnx import TensorProto, helper

    shape = (*data.shape[:axis], *indices[0].shape, *data.shape[axis + 1 :])
    kind = TensorProto.INT64 if indices[0].dtype == np.int64 else TensorProto.INT32
    inputs = [
        helper.make_tensor_value_info("data", TensorProto.FLOAT, data.shape),
        helper.make_tensor_value_info("indices", kind, indices[0].shape),
    ]
    output = helper.make_tensor_value_info("output", TensorProto.FLOAT, shape)
    graph = helper.make_graph(
        [helper.make_node("Gather", ["data", "indices"], ["output"], axis=axis)],
        "gather",
        inputs,
        [output],
    )
    return _contenders(
        runtime,
        graph,
        [{"data": data, "indices": a} for a in indices],
        [("output", shape)],
        threads,
        list,
    )


def sequence(
    runtime: Any,
    cell: str,
    sets: Sequence[Sequence[Array]],
    weights: Sequence[Array],
    lengths: Array | None,
    after: bool,
    threads: int,
) -> list[Contender]:
    """ONNX's GRU, LSTM or RNN. `weights` are W, R and the two biases apart, in the IR's order of
    gates; X lies by step, as ONNX asks for it.
    """
    from onnx import TensorProto, helper, numpy_helper

    w, r, input_bias, recurrent_bias = (_ordered(cell, array) for array in weights)
    constants = [("W", w), ("R", r), ("B", np.concatenate([input_bias, recurrent_bias], 1))]
    batch, steps, inner = sets[0][0].shape
    directions, hidden = len(r), r.shape[2]
    states = ["H", "C"] if cell == "lstm" else ["H"]
    feeds = []
    for arrays in sets:
        feed = {
            "X": np.ascontiguousarray(arrays[0].transpose(1, 0, 2)),
            "L": lengths if lengths is not None else arrays[-1],
        }
        feed.update(
            (name, np.ascontiguousarray(a.transpose(1, 0, 2)))
            for name, a in zip(states, arrays[1 : 1 + len(states)], strict=True)
        )
        feeds.append(feed)
    attributes: dict[str, Any] = {
        "hidden_size": hidden,
        "direction": "bidirectional" if directions == 2 else "forward",
    }
    if cell == "gru":
        attributes["linear_before_reset"] = int(after)
    state = (directions, batch, hidden)
    outputs = [("Y", (steps, directions, batch, hidden)), *((f"Y{name}", state) for name in states)]
    node = helper.make_node(
        cell.upper(),
        ["X", "W", "R", "B", "L", *states],
        [name for name, _ in outputs],
        **attributes,
    )
    inputs = [
        helper.make_tensor_value_info("X", TensorProto.FLOAT, (steps, batch, inner)),
        helper.make_tensor_value_info("L", TensorProto.INT32, (batch,)),
        *(helper.make_tensor_value_info(name, TensorProto.FLOAT, state) for name in states),
    ]
    shown = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in outputs
    ]
    initial = [numpy_helper.from_array(array, name) for name, array in constants]
    graph = helper.make_graph([node], "sequence", inputs, shown, initial)

    def results(made: Sequence[Array]) -> list[Array]:
        return [made[0].transpose(2, 1, 0, 3), *(a.transpose(1, 0, 2) for a in made[1:])]

    return _contenders(runtime, graph, feeds, outputs, threads, results)


def _ordered(cell: str, array: Array) -> Array:
    blocks = np.split(array, len(_GATES[cell]), 1)
    return np.ascontiguousarray(np.concatenate([blocks[gate] for gate in _GATES[cell]], 1))
