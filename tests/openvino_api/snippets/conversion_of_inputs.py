"""Arrays of another type than the input's."""

import numpy as np
import openvino as ov
from openvino import opset13 as ops

x = ops.parameter([3], np.float32, name="x")
compiled = ov.compile_model(ov.Model([ops.add(x, x)], [x], "m"), "CPU")
result = [
    compiled(np.array([1, 2, 3]))[0],
    compiled(np.array([0.1, 0.2, 0.3]))[0],
    compiled(np.array([1, 0, 1], bool))[0],
]
assert result[0].dtype == np.float32 and result[0].tolist() == [2, 4, 6]
