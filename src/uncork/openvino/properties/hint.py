"""Hints: what matters most, told as a property."""

from __future__ import annotations

from enum import Enum

from uncork.openvino.properties._property import Property


class PerformanceMode(str, Enum):
    """Whether one call is to be quick, or many side by side."""

    LATENCY = "LATENCY"
    THROUGHPUT = "THROUGHPUT"
    CUMULATIVE_THROUGHPUT = "CUMULATIVE_THROUGHPUT"


class ExecutionMode(str, Enum):
    """Whether speed or exactness matters: f32 is computed as f32 in both."""

    PERFORMANCE = "PERFORMANCE"
    ACCURACY = "ACCURACY"


class Priority(str, Enum):
    """How urgent a model is."""

    LOW = "LOW"
    MEDIUM = "MEDIUM"
    HIGH = "HIGH"
    DEFAULT = "MEDIUM"


class SchedulingCoreType(str, Enum):
    """On which cores threads run."""

    ANY_CORE = "ANY_CORE"
    PCORE_ONLY = "PCORE_ONLY"
    ECORE_ONLY = "ECORE_ONLY"


class ModelDistributionPolicy(str, Enum):
    """How a model is spread over devices."""

    TENSOR_PARALLEL = "TENSOR_PARALLEL"
    PIPELINE_PARALLEL = "PIPELINE_PARALLEL"


inference_precision = Property("INFERENCE_PRECISION_HINT")
performance_mode = Property("PERFORMANCE_HINT")
num_requests = Property("PERFORMANCE_HINT_NUM_REQUESTS")
execution_mode = Property("EXECUTION_MODE_HINT")
model_priority = Property("MODEL_PRIORITY")
scheduling_core_type = Property("SCHEDULING_CORE_TYPE")
model_distribution_policy = Property("MODEL_DISTRIBUTION_POLICY")
enable_cpu_pinning = Property("ENABLE_CPU_PINNING")
enable_cpu_reservation = Property("ENABLE_CPU_RESERVATION")
enable_hyper_threading = Property("ENABLE_HYPER_THREADING")
allow_auto_batching = Property("ALLOW_AUTO_BATCHING")
dynamic_quantization_group_size = Property("DYNAMIC_QUANTIZATION_GROUP_SIZE")
kv_cache_precision = Property("KV_CACHE_PRECISION")
activations_scale_factor = Property("ACTIVATIONS_SCALE_FACTOR")
