"""Constants of every kind."""

import numpy as np
import openvino as ov
from openvino import opset13 as ops

kept = [
    ops.constant(np.array([1, 2, 3], np.int32)),
    ops.constant([1.5, 2.5], ov.Type.f16),
    ops.constant(7),
    ops.constant([[1, 2], [3, 4]], np.float32, name="named"),
    ops.constant(ov.Tensor(np.ones(2, np.float32))),
]
result = [(c.get_element_type().to_string(), list(c.shape), c.data, c.get_vector()) for c in kept]
result.append(kept[3].get_friendly_name())
assert kept[1].data.dtype == np.float16 and kept[2].data == 7
