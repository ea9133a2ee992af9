"""Image classification: a picture of a camera, a small convolutional network, the best classes."""

import numpy as np
import openvino as ov
from openvino import opset13 as ops
from openvino.preprocess import PrePostProcessor, ResizeAlgorithm

rng = np.random.default_rng(0)


def convolution(data, channels, stride, name):
    """A convolution with bias and ReLU."""
    before = data.shape[1]
    kernel = rng.normal(size=(channels, before, 3, 3)).astype(np.float32) / before
    bias = rng.normal(size=(1, channels, 1, 1)).astype(np.float32) / 10
    made = ops.convolution(data, kernel, [stride] * 2, [1, 1], [1, 1], [1, 1], name=name)
    return ops.relu(ops.add(made, bias))


image = ops.parameter([1, 3, 32, 32], np.float32, name="image")
data = image
for number, channels in enumerate((8, 16, 32)):
    data = convolution(data, channels, 2, f"convolution{number}")
data = ops.reduce_mean(data, np.array([2, 3]), False)
logits = ops.matmul(data, rng.normal(size=(10, 32)).astype(np.float32), False, True, name="logits")
model = ov.Model([ops.softmax(logits, 1, name="probabilities")], [image], "classification")
ov.save_model(model, "classification.xml", compress_to_fp16=False)

core = ov.Core()
model = core.read_model("classification.xml")
ppp = PrePostProcessor(model)
ppp.input().tensor().set_element_type(ov.Type.u8).set_layout(ov.Layout("NHWC"))
ppp.input().tensor().set_spatial_dynamic_shape()
ppp.input().preprocess().convert_element_type(ov.Type.f32).resize(ResizeAlgorithm.RESIZE_LINEAR)
ppp.input().preprocess().mean([123.675, 116.28, 103.53]).scale([58.395, 57.12, 57.375])
ppp.input().model().set_layout(ov.Layout("NCHW"))
model = ppp.build()
compiled_model = core.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})

picture = rng.integers(0, 256, (40, 48, 3), dtype=np.uint8)
probabilities = compiled_model(np.expand_dims(picture, 0))[compiled_model.output(0)]
top = np.argsort(probabilities[0])[::-1][:3]
labels = [f"class {number}" for number in top]
assert probabilities.shape == (1, 10) and abs(probabilities.sum() - 1) < 1e-5
result = [probabilities, labels]
