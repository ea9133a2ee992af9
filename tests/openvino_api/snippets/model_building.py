"""A small network by opset13."""

import numpy as np
import openvino as ov
from openvino import opset13 as ops

rng = np.random.default_rng(2)
image = ops.parameter([1, 1, 8, 8], np.float32, name="image")
kernel = ops.constant(rng.normal(size=(2, 1, 3, 3)).astype(np.float32))
convolved = ops.convolution(image, kernel, [1, 1], [1, 1], [1, 1], [1, 1], name="convolved")
pooled = ops.max_pool(
    ops.relu(convolved), [2, 2], [1, 1], [0, 0], [0, 0], [2, 2], "floor", name="pooled"
)
flat = ops.reshape(pooled.output(0), np.array([1, -1]), False)
weights = ops.constant(rng.normal(size=(5, 32)).astype(np.float32))
logits = ops.add(ops.matmul(flat, weights, False, True), np.ones((1, 5), np.float32))
probabilities = ops.softmax(logits, 1, name="probabilities")
model = ov.Model([probabilities], [image], "small")
compiled = ov.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
result = [compiled(rng.normal(size=(1, 1, 8, 8)).astype(np.float32))[0]]
result += ([node.get_type_name() for node in model.get_ordered_ops()].count("Constant") > 0,)
assert result[0].shape == (1, 5) and abs(result[0].sum() - 1) < 1e-5
