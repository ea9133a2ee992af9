"""Other shapes of the only input."""

import numpy as np
import openvino as ov
from openvino import opset13 as ops

image = ops.parameter([1, 3, 8, 8], np.float32, name="image")
mean = ops.reduce_mean(image, np.array([2, 3]), False)
model = ov.Model([mean], [image], "mean")
result = []
for shape in (
    [2, 3, 4, 4],
    (1, 3, 5, 5),
    "1,3,6,6",
    "[1,3,7,?]",
    ov.PartialShape([-1, 3, ov.Dimension(4, 16), -1]),
    [-1, 3, (2, 8), "3..9"],
    {0: [1, 3, 2, 2]},
    {"image": ov.PartialShape([1, 3, -1, 9])},
    {model.input(0): [3, 3, 9, 9]},
):
    model.reshape(shape)
    result.append((str(model.input().partial_shape), str(model.output().partial_shape)))
assert result[-1] == ("[3,3,9,9]", "[3,3]")
