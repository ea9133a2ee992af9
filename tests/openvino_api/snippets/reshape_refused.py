"""A shape that does not fit changes nothing."""

import numpy as np
import openvino as ov
from openvino import opset13 as ops

x = ops.parameter([1, 3], np.float32, name="x")
w = ops.constant(np.ones((3, 2), np.float32))
model = ov.Model([ops.matmul(x, w, False, False)], [x], "product")
result = []
for shapes in ([1, 4], {"y": [1, 3]}, {3: [1, 3]}):
    try:
        model.reshape(shapes)
    except (RuntimeError, IndexError):
        result.append("refused")
result.append(str(model.input().partial_shape))
assert result == ["refused"] * 3 + ["[1,3]"]
