"""Layers with several outputs, and models of several."""

import numpy as np
import openvino as ov
from openvino import opset13 as ops

x = ops.parameter([6, 2], np.float32, name="x")
parts = ops.split(x, np.int64(0), 3, name="parts")
model = ov.Model([parts.output(2), parts.output(0)], [x], "parts")
compiled = ov.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
numbers = np.arange(12, dtype=np.float32).reshape(6, 2)
results = compiled(numbers)
result = [results[0], results[1], parts.get_output_size(), parts.get_attributes()]
assert (results[0] == numbers[4:]).all() and (results[1] == numbers[:2]).all()
