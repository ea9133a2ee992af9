"""OpenVINO's contenders: infer requests whose tensors share our arrays, and the ordinary
`compiled(inputs)`.

The cheapest way depends on the size: a request for each set of inputs, bound before, wins on small
work; one request whose inputs are bound in each call wins on large work, since it keeps its own
memory in the caches. Both are measured. Results go to one shared array where their shape is known,
which OpenVINO does faster than into its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.arrays import aligned
from benchmarks.timing import Contender
from uncork.types import Array


def of_model(
    openvino: Any,
    model: Any,
    sets: Sequence[Sequence[Array]],
    threads: int,
    outputs: Sequence[tuple[tuple[int, ...], Any]] = (),
    precision: str | None = "f32",
    tolerance: float | None = None,
    name: str = "openvino",
    system: str = "openvino",
    properties: Mapping[str, Any] | None = None,
) -> list[Contender]:
    """Contenders that run a model.

    `outputs` are (shape, dtype) of the results, where all sets have the same; `precision` None is
    OpenVINO's default; `properties` are further ones that the model is compiled with.
    """
    options = {"INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY"}
    options |= properties or {}
    if precision is not None:
        options["INFERENCE_PRECISION_HINT"] = precision
    compiled = openvino.Core().compile_model(model, "CPU", options)
    if precision is None:
        name = f"{name} default"
    used = str(compiled.get_property("INFERENCE_PRECISION_HINT"))
    kind = "bf16" if "bfloat16" in used or "bf16" in used else "f32"
    count = len(compiled.outputs)
    # Below the public method of the same name, which adds a Python call and nothing else.
    infer: Callable[..., Any] = openvino._pyopenvino.InferRequest.infer
    # Tensors do not keep the arrays alive that they share.
    given = [[np.ascontiguousarray(array) for array in arrays] for arrays in sets]
    made_before = [aligned(shape, dtype) for shape, dtype in outputs]
    tensors = [[openvino.Tensor(array, shared_memory=True) for array in arrays] for arrays in given]
    shared = [openvino.Tensor(array, shared_memory=True) for array in made_before]

    def request(bound: Sequence[Any]) -> Any:
        made = compiled.create_infer_request()
        for position, tensor in enumerate(shared):
            made.set_output_tensor(position, tensor)
        for position, tensor in enumerate(bound):
            made.set_input_tensor(position, tensor)
        return made

    requests = [request(arrays) for arrays in tensors]
    single = request(tensors[0])

    def preset(i: int) -> Any:
        infer(requests[i], {}, share_outputs=True, decode_strings=False)
        return requests[i]

    def one_request(i: int) -> Any:
        for position, tensor in enumerate(tensors[i]):
            single.set_input_tensor(position, tensor)
        infer(single, {}, share_outputs=True, decode_strings=False)
        return single

    def read(made: Any) -> list[Array]:
        assert given and len(made_before) == len(shared)
        return [np.array(made.get_output_tensor(position).data) for position in range(count)]

    def call(i: int) -> Any:
        return compiled(sets[i])

    def read_call(results: Any) -> list[Array]:
        return [np.asarray(results[position]) for position in range(count)]

    ways: list[tuple[str, str, Callable[[int], Any], Callable[[Any], list[Array]]]] = [
        ("preset", "preset", preset, read),
        ("one request", "preset", one_request, read),
        ("call", "call", call, read_call),
    ]
    return [
        Contender(f"{name} {way}", system, like, run, results, kind, tolerance)
        for way, like, run, results in ways
    ]


def _constant(openvino: Any, array: Array) -> Any:
    return openvino.op.Constant(array, shared_memory=True)


def _parameter(openvino: Any, shape: Sequence[int], dtype: Any) -> Any:
    return openvino.opset8.parameter(list(shape), openvino.Type(np.dtype(dtype)))


def bags(
    openvino: Any,
    table: Array,
    index: str,
    count: int | None,
    number: int,
    weighted: bool,
    segments: bool,
) -> Any:
    """EmbeddingBagOffsetsSum-3 or EmbeddingSegmentsSum-3 on a table. `count` is None when the
    number of indices varies.

    With weights OpenVINO compiles static shapes only, so there `count` has to be known.
    """
    import openvino.opset3 as operations

    some = -1 if count is None else count
    indices = _parameter(openvino, [some], index)
    places = _parameter(openvino, [some if segments else number], index)
    parameters = [indices, places]
    more: dict[str, Any] = {}
    if weighted:
        weights = _parameter(openvino, [some], table.dtype)
        parameters.append(weights)
        more = {
            "per_sample_weights": weights,
            "default_index": _constant(openvino, np.array(-1, index)),
        }
    if segments:
        more["num_segments"] = _constant(openvino, np.array(number, index))
        node = operations.embedding_segments_sum(
            _constant(openvino, table), indices, places, **more
        )
    else:
        node = operations.embedding_bag_offsets_sum(
            _constant(openvino, table), indices, places, **more
        )
    return openvino.Model([node], parameters, "bags")


def gather(
    openvino: Any, data: Array, constant: bool, indices: Array, axis: int, batch_dims: int
) -> Any:
    """Gather-8; `data` is a constant of the model or its first input."""
    import openvino.opset8 as operations

    given = _parameter(openvino, indices.shape, indices.dtype)
    source = _constant(openvino, data) if constant else _parameter(openvino, data.shape, data.dtype)
    node = operations.gather(
        source, given, _constant(openvino, np.array(axis, np.int64)), batch_dims
    )
    return openvino.Model([node], [given] if constant else [source, given], "gather")


def sequence(
    openvino: Any,
    cell: str,
    inputs: Sequence[Array],
    weights: Sequence[Array],
    lengths: Array | None,
    after: bool,
) -> Any:
    """GRUSequence-5, LSTMSequence-5 or RNNSequence-5 of static shape. `lengths` is a constant, or
    None for a further input.
    """
    import openvino.opset5 as operations

    parameters = [_parameter(openvino, array.shape, array.dtype) for array in inputs]
    states = parameters[: 3 if cell == "lstm" else 2]
    sizes = _constant(openvino, lengths) if lengths is not None else parameters[-1]
    w, r, b = (_constant(openvino, array) for array in weights)
    hidden, direction = weights[1].shape[2], "bidirectional" if len(weights[1]) == 2 else "forward"
    if cell == "gru":
        node = operations.gru_sequence(
            *states, sizes, w, r, b, hidden, direction, linear_before_reset=after
        )
    elif cell == "lstm":
        node = operations.lstm_sequence(*states, sizes, w, r, b, hidden, direction)
    else:
        node = operations.rnn_sequence(*states, sizes, w, r, b, hidden, direction)
    return openvino.Model(
        [node.output(i) for i in range(node.get_output_size())], parameters, "sequence"
    )
