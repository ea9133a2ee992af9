"""Text, word by word: keys and values of the past are variables of the model."""

import numpy as np
import openvino as ov
from openvino import opset13 as ops

rng = np.random.default_rng(9)
words, size = 20, 8


def weights(*shape):
    """Random weights."""
    return ops.constant((rng.normal(size=shape) / np.sqrt(shape[0])).astype(np.float32))


tokens = ops.parameter([1, -1], np.int64, name="tokens")
rows = ops.gather(weights(words, size), tokens, np.int64(0))
sinks, past = [], []
for name in ("key", "value"):
    nothing = ops.constant(np.zeros((1, 0, size), np.float32))
    before = ops.read_value(nothing, name, np.float32, [1, -1, size])
    joined = ops.concat([before, ops.matmul(rows, weights(size, size), False, False)], 1)
    sinks.append(ops.assign(joined, name))
    past.append(joined)
query = ops.matmul(rows, weights(size, size), False, False)
likeness = ops.matmul(query, past[0], False, True)
seen = ops.matmul(ops.softmax(likeness, -1), past[1], False, False)
logits = ops.matmul(ops.add(rows, seen), weights(size, words), False, False, name="logits")
model = ov.Model([ops.result(logits)], sinks, [tokens], "language")
ov.save_model(model, "language.xml", compress_to_fp16=False)

compiled = ov.compile_model("language.xml", "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
request = compiled.create_infer_request()


def generate(prompt, count):
    """The words that follow a prompt."""
    request.reset_state()
    found, given = [], prompt
    for _ in range(count):
        scores = request.infer({"tokens": np.array([given])})[0]
        given = [int(scores[0, -1].argmax())]
        found += given
    return found


first, again = generate([3, 1, 4], 6), generate([3, 1, 4], 6)
assert first == again
lengths = {state.name: state.state.shape[1] for state in request.query_state()}
assert lengths == {"key": 8, "value": 8}
whole = request.infer({"tokens": np.array([[5]])})[0]
result = [first, sorted(lengths.items()), whole]
