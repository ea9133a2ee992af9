"""Pre- and postprocessing built into a model: from bytes of a camera to a picture again."""

import numpy as np
import openvino as ov
from openvino import opset13 as ops
from openvino.preprocess import ColorFormat, PrePostProcessor, ResizeAlgorithm

small = ops.parameter([1, 3, 8, 8], np.float32, name="small")
sharp = np.full((3, 1, 1, 3, 3), -0.1, np.float32)
sharp[..., 1, 1] = 1.8
filtered = ops.group_convolution(small, sharp, [1, 1], [1, 1], [1, 1], [1, 1])
large = ops.interpolate(
    ops.clamp(filtered, 0.0, 1.0), np.array([16, 16]), "linear_onnx", "sizes", axes=np.array([2, 3])
)
large.output(0).set_names({"large"})
model = ov.Model([large], [small], "sharper")
ppp = PrePostProcessor(model)
camera = ppp.input("small")
camera.tensor().set_element_type(ov.Type.u8).set_layout(ov.Layout("NHWC")).set_color_format(
    ColorFormat.NV12_SINGLE_PLANE
).set_spatial_static_shape(12, 16)
camera.preprocess().convert_color(ColorFormat.RGB).convert_element_type(ov.Type.f32)
camera.preprocess().resize(ResizeAlgorithm.RESIZE_NEAREST).scale(255.0)
camera.model().set_layout(ov.Layout("NCHW"))
ppp.output("large").model().set_layout(ov.Layout("NCHW"))
ppp.output("large").tensor().set_layout(ov.Layout("NHWC"))
ppp.output("large").postprocess().custom(lambda port: ops.multiply(port, np.float32(255)).output(0))
model = ppp.build()
ov.save_model(model, "sharper.xml", compress_to_fp16=False)

compiled = ov.compile_model("sharper.xml", "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
shape = list(compiled.input().shape)
frame = np.random.default_rng(8).integers(0, 256, shape, dtype=np.uint8)
picture = compiled([frame])["large"]
assert shape == [1, 18, 16, 1] and picture.shape == (1, 16, 16, 3)
assert picture.min() >= 0 and picture.max() <= 255.001
result = [shape, picture]
