"""Layouts, and the batch that they name."""

import numpy as np
import openvino as ov
from openvino import opset13 as ops

layout = ov.Layout("NCHW")
image = ops.parameter([1, 3, 8, 8], np.float32, name="image")
image.set_layout(layout)
model = ov.Model([ops.relu(image)], [image], "batched")
before = str(ov.get_batch(model))
ov.set_batch(model, 4)
result = [
    str(layout), layout.get_index_by_name("C"), layout.has_name("D"), layout == "NCHW",
    ov.Layout("N...C").get_index_by_name("C"), before, str(ov.get_batch(model)),
    str(model.input().partial_shape), ov.layout_helpers.width_idx(layout),
]  # fmt: skip
assert result[5:8] == ["1", "4", "[4,3,8,8]"]
