"""A camera's picture of several planes, each an input of its own, by the names of the planes."""

import numpy as np
import openvino as ov
from openvino import opset13 as ops
from openvino.preprocess import ColorFormat, PrePostProcessor

result = []
rng = np.random.default_rng(9)
for color, names, shapes in (
    (ColorFormat.NV12_TWO_PLANES, ["y", "uv"], [(1, 8, 6, 1), (1, 4, 3, 2)]),
    (ColorFormat.I420_THREE_PLANES, ["y", "u", "v"], [(1, 8, 6, 1), (1, 4, 3, 1), (1, 4, 3, 1)]),
):
    image = ops.parameter([1, 3, 8, 6], np.float32, name="image")
    image.output(0).set_names({"image"})
    ppp = PrePostProcessor(ov.Model([ops.relu(image)], [image], "planes"))
    ppp.input().tensor().set_element_type(ov.Type.u8).set_color_format(color, names)
    ppp.input().preprocess().convert_color(ColorFormat.BGR).convert_element_type(ov.Type.f32)
    ppp.input().preprocess().mean([1.0, 2.0, 3.0])
    ppp.input().model().set_layout(ov.Layout("NCHW"))
    model = ppp.build()
    assert [port.any_name for port in model.inputs] == [f"image/{name}" for name in names]
    compiled = ov.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    planes = {
        f"image/{name}": rng.integers(0, 256, shape, dtype=np.uint8)
        for name, shape in zip(names, shapes, strict=True)
    }
    result.append([list(port.shape) for port in model.inputs])
    result.append(compiled(planes)[0])
