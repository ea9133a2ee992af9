"""Results kept by the requests of a queue."""

import numpy as np
import openvino as ov
from openvino import opset13 as ops

x = ops.parameter([1], np.float32, name="x")
compiled = ov.compile_model(ov.Model([ops.sqrt(x)], [x], "root"), "CPU")
jobs = ov.AsyncInferQueue(compiled, 2)
for number in range(2):
    jobs.start_async([np.array([float(number**2)], np.float32)], userdata=number)
jobs.wait_all()
pairs = sorted(zip(jobs.userdata, (float(r.results[0][0]) for r in jobs), strict=True))
result = [pairs, float(jobs[0].get_output_tensor().data[0]) in (0, 1)]
assert pairs == [(0, 0.0), (1, 1.0)]
