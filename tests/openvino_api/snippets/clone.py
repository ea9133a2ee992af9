"""A copy that is changed alone."""

import numpy as np
import openvino as ov
from openvino import opset13 as ops

x = ops.parameter([-1], np.float32, name="x")
model = ov.Model([ops.floor(x)], [x], "original")
copy = model.clone()
copy.reshape([7])
copy.set_friendly_name("copy")
result = [
    str(model.input().partial_shape), str(copy.input().partial_shape), model.is_dynamic(),
    copy.is_dynamic(), model.friendly_name, copy.get_friendly_name(),
]  # fmt: skip
assert result == ["[?]", "[7]", True, False, "original", "copy"]
