"""Recognition of text: a GRU over the columns of a line, and the best path of CTC."""

import numpy as np
import openvino as ov
from openvino import opset13 as ops

rng = np.random.default_rng(3)
letters = "abcdefghij"
hidden, columns, height = 12, 20, 8


def weights(*shape):
    """Random weights."""
    return ops.constant((rng.normal(size=shape) / 2).astype(np.float32))


line = ops.parameter([1, 1, height, columns], np.float32, name="line")
steps = ops.transpose(ops.reshape(line, np.array([1, height, columns]), False), np.array([0, 2, 1]))
states = ops.gru_sequence(
    steps,
    ops.constant(np.zeros((1, 2, hidden), np.float32)),
    ops.constant(np.array([columns])),
    weights(2, 3 * hidden, height),
    weights(2, 3 * hidden, hidden),
    weights(2, 3 * hidden),
    hidden,
    "bidirectional",
)
rows = ops.reshape(
    ops.transpose(states.output(0), np.array([0, 2, 1, 3])), np.array([1, columns, -1]), False
)
logits = ops.matmul(rows, weights(2 * hidden, len(letters) + 1), False, False)
decoded = ops.ctc_greedy_decoder_seq_len(logits, ops.constant(np.array([columns])))
logits.output(0).set_names({"logits"})
decoded.output(0).set_names({"letters"})
decoded.output(1).set_names({"length"})
outputs = [logits.output(0), decoded.output(0), decoded.output(1)]
model = ov.Model(outputs, [line], "ocr")

compiled = ov.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
results = compiled(rng.normal(size=(1, 1, height, columns)).astype(np.float32))
length = int(results["length"][0])
text = "".join(letters[number] for number in results["letters"][0, :length])
path = results["logits"][0].argmax(-1)
collapsed = [n for n, before in zip(path, [-1, *path[:-1]], strict=True) if n not in (before, 10)]
assert text == "".join(letters[number] for number in collapsed)
result = [results["logits"], text]
