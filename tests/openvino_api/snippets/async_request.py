"""A call on a thread, with a callback."""

import numpy as np
import openvino as ov
from openvino import opset13 as ops

x = ops.parameter([4], np.float32, name="x")
model = ov.Model([ops.negative(x)], [x], "negative")
request = ov.compile_model(model, "CPU").create_infer_request()
seen = []
request.set_callback(lambda userdata: seen.append(userdata), "first")
request.start_async({"x": np.arange(4, dtype=np.float32)}, "mine")
request.wait()
result = [request.results[0], seen, request.wait_for(1000)]
assert result[0].tolist() == [0, -1, -2, -3] and len(seen) == 1
