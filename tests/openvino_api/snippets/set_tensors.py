"""Tensors of the program for inputs and outputs."""

import numpy as np
import openvino as ov
from openvino import opset13 as ops

a = ops.parameter([3], np.float32, name="a")
b = ops.parameter([3], np.float32, name="b")
total = ops.add(a, b)
total.output(0).set_names({"total"})
model = ov.Model([total], [a, b], "sum")
compiled = ov.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
request = compiled.create_infer_request()
left, right = np.array([1, 2, 3], np.float32), np.array([10, 20, 30], np.float32)
out = np.zeros(3, np.float32)
request.set_tensor("a", ov.Tensor(left, shared_memory=True))
request.set_input_tensor(1, ov.Tensor(right, shared_memory=True))
request.set_output_tensor(0, ov.Tensor(out, shared_memory=True))
request.infer()
assert out.tolist() == [11, 22, 33]
left[:] = 0
request.infer()
result = [out.copy(), request.get_tensor("total").data.copy()]
assert out.tolist() == [10, 20, 30]
request.set_tensors({"a": ov.Tensor(right), "b": ov.Tensor(right)})
request.infer()
result.append(out.copy())
request.set_input_tensors({0: ov.Tensor(left), 1: ov.Tensor(left)})
request.set_tensor(compiled.output(0), ov.Tensor(np.ones(3, np.float32)))
request.infer()
result.append(request.results[0])
assert out.tolist() == [20, 40, 60] and request.results[0].tolist() == [0, 0, 0]
try:
    request.set_tensor("a", ov.Tensor(np.zeros(3, np.int64)))
except RuntimeError:
    result.append("another type")
assert result[-1] == "another type"
