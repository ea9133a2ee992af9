"""A picture of a camera for a network: as in OpenVINO's guide to preprocessing."""

import numpy as np
import openvino as ov
from openvino import opset13 as ops
from openvino.preprocess import ColorFormat, PrePostProcessor, ResizeAlgorithm

image = ops.parameter([1, 3, 8, 6], np.float32, name="image")
model = ov.Model([ops.relu(image)], [image], "network")
ppp = PrePostProcessor(model)
ppp.input("image").tensor().set_element_type(ov.Type.u8).set_shape([1, 12, 10, 3]).set_layout(
    ov.Layout("NHWC")
).set_color_format(ColorFormat.BGR)
ppp.input().model().set_layout(ov.Layout("NCHW"))
ppp.input().preprocess().convert_element_type(ov.Type.f32).convert_color(ColorFormat.RGB).resize(
    ResizeAlgorithm.RESIZE_LINEAR
).mean([100.5, 101, 101.5]).scale([50.0, 51.0, 52.0])
model = ppp.build()
compiled = ov.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
picture = np.random.default_rng(0).integers(0, 256, (1, 12, 10, 3), dtype=np.uint8)
result = [compiled(picture)[0], str(model.input().partial_shape), str(model.input().element_type)]
assert result[0].shape == (1, 3, 8, 6)
even = compiled(np.full((1, 12, 10, 3), 200, np.uint8))[0]
np.testing.assert_allclose(even[0, :, 0, 0], [99.5 / 50, 99 / 51, 98.5 / 52], rtol=1e-5)
