"""Properties, given by names and by functions."""

import numpy as np
import openvino as ov
import openvino.properties as props
import openvino.properties.hint as hints
from openvino import opset13 as ops

x = ops.parameter([1], np.float32, name="x")
model = ov.Model([ops.relu(x)], [x], "properties")
core = ov.Core()
core.set_property("CPU", {hints.inference_precision: ov.Type.f32})
config = {
    props.inference_num_threads: 1,
    hints.performance_mode: hints.PerformanceMode.LATENCY,
    hints.execution_mode: hints.ExecutionMode.ACCURACY,
    "NUM_STREAMS": "1",
    "PERF_COUNT": "YES",
}
compiled = core.compile_model(model, "CPU", config)
request = compiled.create_infer_request()
request.infer([np.ones(1, np.float32)])
times = request.profiling_info
result = [
    core.available_devices, compiled.get_property("NETWORK_NAME"),
    compiled.get_property(props.inference_num_threads), len(times) > 0,
    all(info.real_time.total_seconds() >= 0 for info in times),
    compiled.get_property("EXECUTION_DEVICES"), "CPU" in core.get_versions("CPU"),
    isinstance(core.get_property("CPU", "FULL_DEVICE_NAME"), str),
    str(compiled.get_property(hints.inference_precision)),
]  # fmt: skip
for wrong in ({"NO_SUCH_PROPERTY": 1}, {"PERFORMANCE_HINT": "SLOW"}):
    try:
        core.compile_model(model, "CPU", wrong)
    except RuntimeError:
        result.append("refused")
assert result[-2:] == ["refused", "refused"]
