"""Inputs as a list, by name, by position, by port."""

import numpy as np
import openvino as ov
from openvino import opset13 as ops

a = ops.parameter([2], np.float32, name="a")
b = ops.parameter([2], np.float32, name="b")
model = ov.Model([ops.subtract(a, b)], [a, b], "difference")
compiled = ov.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
x, y = np.array([5, 6], np.float32), np.array([1, 1], np.float32)
result = [
    compiled([x, y])[0],
    compiled((x, y))[0],
    compiled({"a": x, "b": y})[0],
    compiled({0: x, 1: y})[0],
    compiled({compiled.input("a"): x, compiled.inputs[1]: y})[0],
]
assert all(r.tolist() == [4, 5] for r in result)
