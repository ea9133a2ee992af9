"""Speech: a spectrogram of a signal and a network that says where somebody speaks."""

import numpy as np
import openvino as ov
from openvino import opset15 as ops

rng = np.random.default_rng(5)
rate, frame, step = 8000, 256, 128
signal = ops.parameter([1, -1], np.float32, name="signal")
window = ops.constant(np.hanning(frame).astype(np.float32))
spectrum = ops.stft(signal, window, np.int64(frame), np.int64(step), False)
power = ops.reduce_sum(ops.multiply(spectrum, spectrum), np.array([3]), False)
level = ops.log(ops.add(ops.reduce_mean(power, np.array([2]), False), np.float32(1e-6)))
smooth = ops.squeeze(
    ops.convolution(
        ops.unsqueeze(level, np.array([1])),
        np.full((1, 1, 5), 0.2, np.float32),
        [1],
        [2],
        [2],
        [1],
    ),
    np.array([1]),
)
speech = ops.sigmoid(ops.add(smooth, np.float32(-1)))
speech.output(0).set_names({"speech"})
model = ov.Model([speech], [signal], "speech")

compiled = ov.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
request = compiled.create_infer_request()
time = np.arange(rate) / rate
wave = (np.sin(2 * np.pi * 440 * time) * (time > 0.5) + 0.001 * rng.normal(size=rate)) / 2
segments = []
for part in (wave, wave[: rate // 2], wave[rate // 2 :]):
    request.infer([part[None].astype(np.float32)])
    segments.append(request.get_output_tensor().data[0].copy())
speaks = [float((values > 0.5).mean()) for values in segments]
assert 0.4 < speaks[0] < 0.6 and speaks[1] < 0.1 and speaks[2] > 0.9
result = [segments, speaks]
