"""Question answering: attention over words, and where the answer begins and ends."""

import numpy as np
import openvino as ov
from openvino import opset13 as ops

rng = np.random.default_rng(4)
vocabulary = {}
for word in ("who", "what", "opens", "bottle", "a", "the", "cork", "uncork", "[SEP]"):
    vocabulary[word] = len(vocabulary)
size, heads = 16, 2


def weights(*shape):
    """Random weights."""
    return ops.constant((rng.normal(size=shape) / np.sqrt(shape[0])).astype(np.float32))


def split_heads(data):
    """[batch, words, size] to [batch, heads, words, size / heads]."""
    parted = ops.reshape(data, np.array([0, 0, heads, size // heads]), True)
    return ops.transpose(parted, np.array([0, 2, 1, 3]))


input_ids = ops.parameter([-1, -1], np.int64, name="input_ids")
attention_mask = ops.parameter([-1, -1], np.int64, name="attention_mask")
words = ops.gather(weights(len(vocabulary), size), input_ids, np.int64(0))
query, key, value = (split_heads(ops.matmul(words, weights(size, size), 0, 0)) for _ in range(3))
missing = ops.subtract(np.float32(1), ops.convert(attention_mask, "f32"))
bias = ops.unsqueeze(ops.multiply(missing, np.float32(-1e9)), np.array([1, 2]))
seen = ops.scaled_dot_product_attention(query, key, value, bias)
joined = ops.reshape(ops.transpose(seen, np.array([0, 2, 1, 3])), np.array([0, 0, size]), True)
normal = ops.mvn(ops.add(words, joined), np.array([-1]), True, 1e-5, "inside_sqrt")
ends = ops.split(ops.matmul(normal, weights(size, 2), False, False), np.int64(2), 2)
ends.output(0).set_names({"output_s"})
ends.output(1).set_names({"output_e"})
model = ov.Model([ends.output(0), ends.output(1)], [input_ids, attention_mask], "answers")
ov.save_model(model, "answers.xml", compress_to_fp16=False)

core = ov.Core()
compiled = core.compile_model("answers.xml", "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
output_s, output_e = compiled.output("output_s"), compiled.output("output_e")


def answer(question, context):
    """The most likely part of the context, and its score."""
    tokens = [*question.split(), "[SEP]", *context.split()]
    inputs = {
        "input_ids": np.array([[vocabulary[word] for word in tokens]]),
        "attention_mask": np.ones((1, len(tokens)), np.int64),
    }
    results = compiled(inputs)
    first = len(question.split()) + 1
    start, end = results[output_s][0, first:, 0], results[output_e][0, first:, 0]
    scores = np.triu(start[:, None] + end)
    at = np.unravel_index(scores.argmax(), scores.shape)
    return context.split()[at[0] : at[1] + 1], scores.max()


result = [answer("who opens the bottle", "uncork opens a bottle"), answer("what", "the cork")]
assert all(set(found) <= set(vocabulary) - {"[SEP]"} for found, _ in result)
