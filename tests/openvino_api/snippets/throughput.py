"""Many calls side by side."""

import numpy as np
import openvino as ov
from openvino import opset13 as ops

x = ops.parameter([8], np.float32, name="x")
model = ov.Model([ops.sigmoid(x)], [x], "many")
config = {"PERFORMANCE_HINT": "THROUGHPUT", "INFERENCE_PRECISION_HINT": "f32"}
compiled = ov.compile_model(model, "CPU", config)
requests = compiled.get_property("OPTIMAL_NUMBER_OF_INFER_REQUESTS")
assert requests >= 1
queue = ov.AsyncInferQueue(compiled)
found = {}
queue.set_callback(lambda request, n: found.update({n: float(request.get_output_tensor().data[0])}))
for n in range(10):
    queue.start_async([np.full(8, n, np.float32)], n)
queue.wait_all()
result = [found[n] for n in range(10)]
np.testing.assert_allclose(result, 1 / (1 + np.exp(-np.arange(10.0))), rtol=1e-4)
