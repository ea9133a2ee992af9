"""Sizes that every call has anew."""

import numpy as np
import openvino as ov
from openvino import opset13 as ops

x = ops.parameter([-1, ov.Dimension(1, 10)], np.float32, name="x")
model = ov.Model([ops.reduce_sum(x, np.array([1]), True)], [x], "sums")
assert model.is_dynamic() and model.input().partial_shape[1].max_length == 10
compiled = ov.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
request = compiled.create_infer_request()
result = []
for rows, columns in ((1, 2), (4, 10), (3, 1)):
    outputs = request.infer([np.ones((rows, columns), np.float32)])
    result += [outputs[0], list(request.get_output_tensor().shape)]
assert result[3] == [4, 1]
try:
    request.infer([np.ones((1, 11), np.float32)])
except RuntimeError:
    result.append("too many columns")
assert result[-1] == "too many columns"
