"""Requests that take turns."""

import numpy as np
import openvino as ov
from openvino import opset13 as ops

x = ops.parameter([2], np.float32, name="x")
model = ov.Model([ops.multiply(x, x)], [x], "square")
compiled = ov.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
queue = ov.AsyncInferQueue(compiled, 3)
found = {}


def keep(request, number):
    """What a call has given, by its number."""
    found[number] = request.get_output_tensor(0).data.copy()


queue.set_callback(keep)
for number in range(20):
    queue.start_async({"x": np.full(2, number, np.float32)}, number)
queue.wait_all()
assert len(queue) == 3 and queue.is_ready() and 0 <= queue.get_idle_request_id() < 3
assert all(values.tolist() == [n * n] * 2 for n, values in found.items()) and len(found) == 20
result = [found[n] for n in sorted(found)]
