"""Forecasting: an LSTM over the past, and its own forecasts fed back."""

import numpy as np
import openvino as ov
from openvino import opset13 as ops

rng = np.random.default_rng(6)
hidden, past = 8, 24


def weights(*shape):
    """Random weights."""
    return ops.constant((rng.normal(size=shape) / 3).astype(np.float32))


history = ops.parameter([-1, past, 1], np.float32, name="history")
batch = ops.gather(ops.shape_of(history), np.array([0]), np.int64(0))
zeros = ops.broadcast(np.float32(0), ops.concat([batch, np.array([1, hidden])], 0))
lengths = ops.broadcast(np.int64(past), batch)
states = ops.lstm_sequence(
    history,
    zeros,
    zeros,
    lengths,
    weights(1, 4 * hidden, 1),
    weights(1, 4 * hidden, hidden),
    weights(1, 4 * hidden),
    hidden,
    "forward",
)
last = ops.squeeze(states.output(1), np.array([1]))
forecast = ops.matmul(last, weights(hidden, 1), False, False, name="forecast")
model = ov.Model([forecast], [history], "forecast")
compiled = ov.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})

series = np.stack([np.sin(np.arange(past) / 3 + phase) for phase in (0, 1, 2)])
window = series[..., None].astype(np.float32)
forecasts = []
for _ in range(5):
    following = compiled({"history": window})[0]
    forecasts.append(following[:, 0])
    window = np.concatenate([window[:, 1:], following[:, None]], 1)
assert np.isfinite(forecasts).all() and np.shape(forecasts) == (5, 3)
result = [np.array(forecasts)]
