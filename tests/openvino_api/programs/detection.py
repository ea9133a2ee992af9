"""Object detection: boxes and scores of a head, and the best of them that do not overlap."""

import numpy as np
import openvino as ov
from openvino import opset13 as ops

rng = np.random.default_rng(1)
features = ops.parameter([1, 8, 6, 6], np.float32, name="features")


def head(channels, name):
    """A 1x1 convolution whose cells are rows of `channels` numbers."""
    kernel = rng.normal(size=(channels, 8, 1, 1)).astype(np.float32)
    made = ops.convolution(features, kernel, [1, 1], [0, 0], [0, 0], [1, 1], name=name)
    moved = ops.transpose(made, np.array([0, 2, 3, 1]))
    return ops.reshape(moved, np.array([1, 36, channels]), False)


centres = np.stack(np.meshgrid(np.arange(6), np.arange(6)), -1).reshape(1, 36, 2) + 0.5
centres = (centres * 10).astype(np.float32)
offsets = ops.tanh(head(4, "boxes"))
low = ops.add(ops.multiply(ops.slice(offsets, [0], [2], [1], [2]), np.float32(5)), centres)
size = ops.add(ops.multiply(ops.slice(offsets, [2], [4], [1], [2]), np.float32(5)), np.float32(12))
boxes = ops.concat([low, ops.add(low, size)], 2)
scores = ops.transpose(ops.sigmoid(head(3, "scores")), np.array([0, 2, 1]))
chosen = ops.non_max_suppression(
    boxes,
    scores,
    ops.constant(np.array(5)),
    ops.constant(np.array(0.5, np.float32)),
    ops.constant(np.array(0.6, np.float32)),
    box_encoding="corner",
)
boxes.output(0).set_names({"boxes"})
for number, name in enumerate(("chosen", "chosen_scores", "count")):
    chosen.output(number).set_names({name})
outputs = [boxes.output(0), *(chosen.output(number) for number in range(3))]
model = ov.Model(outputs, [features], "detection")

compiled = ov.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
request = compiled.create_infer_request()
request.infer({"features": rng.normal(size=(1, 8, 6, 6)).astype(np.float32)})
count = int(request.get_tensor("count").data.reshape(-1)[0])
found = request.get_tensor("chosen").data[:count]
all_boxes = request.get_tensor("boxes").data
detections = [(int(label), all_boxes[image, box]) for image, label, box in found]
assert 0 < count <= 15 and all(0 <= label < 3 for label, _ in detections)
result = [count, [label for label, _ in detections], np.array([box for _, box in detections])]
