"""Properties by name, as programs for OpenVINO give them. Which of them do something is said by
docs/change_one_line.md.
"""

from __future__ import annotations

from enum import Enum

from uncork.openvino.properties import device as device
from uncork.openvino.properties import hint as hint
from uncork.openvino.properties import intel_cpu as intel_cpu
from uncork.openvino.properties import log as log
from uncork.openvino.properties import streams as streams
from uncork.openvino.properties._property import Property


class CacheMode(Enum):
    """What a cache is made for."""

    OPTIMIZE_SIZE = 0
    OPTIMIZE_SPEED = 1


class WorkloadType(Enum):
    """How urgent calls are."""

    DEFAULT = 0
    EFFICIENT = 1


enable_profiling = Property("PERF_COUNT")
inference_num_threads = Property("INFERENCE_NUM_THREADS")
compilation_num_threads = Property("COMPILATION_NUM_THREADS")
num_streams = Property("NUM_STREAMS")
cache_dir = Property("CACHE_DIR")
cache_mode = Property("CACHE_MODE")
enable_mmap = Property("ENABLE_MMAP")
force_tbb_terminate = Property("FORCE_TBB_TERMINATE")
auto_batch_timeout = Property("AUTO_BATCH_TIMEOUT")
workload_type = Property("WORKLOAD_TYPE")
weights_path = Property("WEIGHTS_PATH")
key_cache_precision = Property("KEY_CACHE_PRECISION")
value_cache_precision = Property("VALUE_CACHE_PRECISION")
supported_properties = Property("SUPPORTED_PROPERTIES")
available_devices = Property("AVAILABLE_DEVICES")
model_name = Property("NETWORK_NAME")
optimal_number_of_infer_requests = Property("OPTIMAL_NUMBER_OF_INFER_REQUESTS")
range_for_streams = Property("RANGE_FOR_STREAMS")
range_for_async_infer_requests = Property("RANGE_FOR_ASYNC_INFER_REQUESTS")
execution_devices = Property("EXECUTION_DEVICES")
