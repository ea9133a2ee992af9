"""A model that counts: a variable, read, set and reset."""

import numpy as np
import openvino as ov
from openvino import opset6
from openvino import opset13 as ops

x = ops.parameter([1], np.float32, name="x")
before = opset6.read_value(ops.constant(np.zeros(1, np.float32)), "count", np.float32, [1])
total = ops.add(before, x, name="total")
keep = opset6.assign(total, "count")
model = ov.Model([ops.result(total)], [keep], [x], "counter")
compiled = ov.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
request = compiled.create_infer_request()
one = np.ones(1, np.float32)
result = [float(request.infer([one])[0][0]) for _ in range(3)]
(state,) = request.query_state()
result += [state.name, state.state.data.copy()]
state.state = ov.Tensor(np.array([10], np.float32))
result.append(float(request.infer([one])[0][0]))
state.reset()
result.append(float(request.infer([one])[0][0]))
request.reset_state()
result.append(float(request.infer([one])[0][0]))
result.append(len(model.get_sinks()))
assert result[:3] == [1, 2, 3] and result[5:8] == [11, 1, 1]
