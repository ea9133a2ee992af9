"""Results that are shared, and results that are not."""

import numpy as np
import openvino as ov
from openvino import opset13 as ops

x = ops.parameter([2], np.float32, name="x")
compiled = ov.compile_model(ov.Model([ops.add(x, x)], [x], "double"), "CPU")
request = compiled.create_infer_request()
first = request.infer([np.array([1, 2], np.float32)], share_inputs=True, share_outputs=False)[0]
second = request.infer([np.array([3, 4], np.float32)], share_inputs=True, share_outputs=True)[0]
assert first.tolist() == [2, 4] and second.tolist() == [6, 8]
result = [first, compiled([np.array([5, 6], np.float32)], share_outputs=True)[0]]
assert first.tolist() == [2, 4]
