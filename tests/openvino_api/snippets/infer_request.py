"""A request with tensors that stay."""

import numpy as np
import openvino as ov
from openvino import opset13 as ops

x = ops.parameter([2, 2], np.float32, name="x")
y = ops.exp(x)
y.output(0).set_names({"y"})
compiled = ov.compile_model(ov.Model([y], [x], "exp"), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
infer_request = compiled.create_infer_request()
input_tensor = infer_request.get_input_tensor()
input_tensor.data[:] = 0
infer_request.infer()
output_tensor = infer_request.get_output_tensor()
assert output_tensor.data.tolist() == [[1, 1], [1, 1]]
infer_request.get_tensor("x").data[:] = 1
infer_request.start_async()
infer_request.wait()
result = [output_tensor.data.copy(), infer_request.results["y"], list(output_tensor.shape)]
np.testing.assert_allclose(output_tensor.data, np.e, rtol=1e-6)
assert infer_request.get_compiled_model() is not None
assert len(infer_request.input_tensors) == len(infer_request.output_tensors) == 1
assert infer_request.latency >= 0
