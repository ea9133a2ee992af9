"""Frames of a video through a queue of requests, put back in their order."""

import numpy as np
import openvino as ov
import openvino.properties.hint as hints
from openvino import opset13 as ops
from openvino.preprocess import ColorFormat, PrePostProcessor

frame = ops.parameter([1, 3, 16, 16], np.float32, name="frame")
edges = np.zeros((1, 3, 3, 3), np.float32)
edges[:, :, 1, 1], edges[:, :, 1, 0] = 1, -1
found = ops.abs(ops.convolution(frame, edges, [1, 1], [1, 1], [1, 1], [1, 1]))
motion = ops.reduce_mean(found, np.array([1, 2, 3]), False, name="motion")
ppp = PrePostProcessor(ov.Model([motion], [frame], "motion"))
ppp.input().tensor().set_element_type(ov.Type.u8).set_layout(ov.Layout("NHWC"))
ppp.input().tensor().set_color_format(ColorFormat.BGR)
ppp.input().preprocess().convert_element_type(ov.Type.f32).convert_color(ColorFormat.RGB)
ppp.input().preprocess().scale(255.0)
ppp.input().model().set_layout(ov.Layout("NCHW"))
config = {
    hints.performance_mode: hints.PerformanceMode.THROUGHPUT,
    hints.inference_precision: ov.Type.f32,
}
compiled = ov.Core().compile_model(ppp.build(), "CPU", config)

scores = {}


def done(request, number):
    """The score of a frame."""
    scores[number] = float(request.get_output_tensor().data[0])


queue = ov.AsyncInferQueue(compiled, 4)
queue.set_callback(done)
video = np.random.default_rng(7).integers(0, 256, (30, 16, 16, 3), dtype=np.uint8)
for number, picture in enumerate(video):
    queue.start_async({0: picture[None]}, number)
queue.wait_all()
result = [scores[number] for number in range(len(video))]
one_by_one = [float(compiled(picture[None])[0][0]) for picture in video]
np.testing.assert_allclose(result, one_by_one, rtol=1e-5)
