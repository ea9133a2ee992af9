"""Semantic segmentation: down and up again, and the class of every pixel, in a batch of two."""

import numpy as np
import openvino as ov
from openvino import opset13 as ops

rng = np.random.default_rng(2)


def kernel(*shape):
    """Random weights."""
    return ops.constant((rng.normal(size=shape) / np.sqrt(shape[1] * 9)).astype(np.float32))


image = ops.parameter([-1, 3, -1, -1], np.float32, name="image")
one = ops.relu(ops.convolution(image, kernel(8, 3, 3, 3), [1, 1], [1, 1], [1, 1], [1, 1]))
down = ops.max_pool(one, [2, 2], [1, 1], [0, 0], [0, 0], [2, 2]).output(0)
two = ops.relu(ops.convolution(down, kernel(16, 8, 3, 3), [1, 1], [1, 1], [1, 1], [1, 1]))
up = ops.convolution_backprop_data(two, kernel(16, 8, 2, 2), [2, 2])
joined = ops.concat([one, up], 1)
logits = ops.convolution(joined, kernel(4, 16, 1, 1), [1, 1], [0, 0], [0, 0], [1, 1], name="logits")
classes = ops.squeeze(
    ops.topk(logits, np.int64(1), 1, "max", "none", index_element_type="i64").output(1),
    np.array([1]),
)
model = ov.Model([classes, logits], [image], "segmentation")
ov.save_model(model, "segmentation.xml", compress_to_fp16=False)

core = ov.Core()
model = core.read_model("segmentation.xml")
height, width = 24, 16
model.reshape([2, 3, height, width])
compiled = core.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
pictures = rng.normal(size=(2, 3, height, width)).astype(np.float32)
mask, scores = compiled([pictures]).values()
colours = rng.integers(0, 256, (4, 3), dtype=np.uint8)
coloured = colours[mask]
assert mask.shape == (2, height, width) and coloured.shape == (2, height, width, 3)
assert (np.take_along_axis(scores, mask[:, None], 1)[:, 0] == scores.max(1)).all()
result = [scores, [int((mask == label).sum()) > 0 for label in range(4)]]
