"""Tensors within a model, as outputs of it."""

import numpy as np
import openvino as ov
from openvino import opset13 as ops

x = ops.parameter([3], np.float32, name="x")
middle = ops.sin(x, name="middle")
middle.output(0).set_names({"middle"})
model = ov.Model([ops.cos(middle, name="last")], [x], "inner")
model.add_outputs("middle")
model.add_outputs([("last", 0)])
compiled = ov.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
results = compiled(np.array([0, 1, 2], np.float32))
result = [results[0], results["middle"], len(model.outputs)]
np.testing.assert_allclose(results["middle"], np.sin([0, 1, 2]), rtol=1e-5, atol=1e-7)
