"""Layers by operators."""

import numpy as np
import openvino as ov
from openvino import opset13 as ops

a = ops.parameter([2], np.float32, name="a")
b = ops.parameter([2], np.float32, name="b")
two = ops.constant(np.array(2, np.float32))
value = (a + b) * two - a / b
model = ov.Model([value, a - b], [a, b], "formula")
compiled = ov.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
results = compiled([np.array([1, 2], np.float32), np.array([4, 8], np.float32)])
result = [results[0], results[1]]
assert result[0].tolist() == [9.75, 19.75] and result[1].tolist() == [-3, -6]
