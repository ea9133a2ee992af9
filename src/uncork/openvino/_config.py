"""Properties of OpenVINO: which are taken, which are ignored with one warning, which are refused.

"CPU_THREADS_NUM" and other words that nobody knows are refused by name.
"""

from __future__ import annotations

import os
import platform
import warnings
from collections.abc import Mapping
from typing import Any

from uncork.compiler.threads import available_threads
from uncork.errors import UncorkWarning, did_you_mean
from uncork.openvino._any import OVAny
from uncork.openvino._errors import invalid, invalid_if, unsupported
from uncork.openvino._types import Type, element_of

#: Properties that change what is done here, with what they are by default.
TAKEN: dict[str, Any] = {
    "INFERENCE_NUM_THREADS": 0,
    "INFERENCE_PRECISION_HINT": Type.f32,
    "NUM_STREAMS": 1,
    "PERFORMANCE_HINT": "LATENCY",
    "PERFORMANCE_HINT_NUM_REQUESTS": 0,
    "PERF_COUNT": False,
    "ENABLE_MMAP": True,
    "EXECUTION_MODE_HINT": "PERFORMANCE",
    "KV_CACHE_PRECISION": Type.dynamic,
}
#: Properties that change no result, and why they are not needed here.
IGNORED = {
    "CACHE_DIR": "kernels are kept on disk by themselves (`uncork cache` tells where)",
    "CACHE_MODE": "kernels are kept on disk by themselves (`uncork cache` tells where)",
    "CACHE_ENCRYPTION_CALLBACKS": "kernels are kept on disk by themselves, and no constants",
    "AFFINITY": "threads are not pinned",
    "ENABLE_CPU_PINNING": "threads are not pinned",
    "ENABLE_CPU_RESERVATION": "processors are not reserved",
    "ENABLE_HYPER_THREADING": "the system places threads",
    "ENABLE_NUMA": "the system places threads",
    "SCHEDULING_CORE_TYPE": "the system places threads",
    "MODEL_DISTRIBUTION_POLICY": "a model runs on the one CPU",
    "MODEL_PRIORITY": "calls have no priorities",
    "COMPILATION_NUM_THREADS": "kernels are compiled by as many threads as a call may use",
    "CPU_DENORMALS_OPTIMIZATION": "numbers near zero are computed as they are",
    "CPU_SPARSE_WEIGHTS_DECOMPRESSION_RATE": "constants are multiplied as they are stored",
    "DYNAMIC_QUANTIZATION_GROUP_SIZE": "products are exact: nothing is quantized on the way",
    "KEY_CACHE_PRECISION": "keys and values are kept in one type: KV_CACHE_PRECISION says which",
    "VALUE_CACHE_PRECISION": "keys and values are kept in one type: KV_CACHE_PRECISION says which",
    "KEY_CACHE_GROUP_SIZE": "each row of a head has a grid of its own",
    "VALUE_CACHE_GROUP_SIZE": "each row of a head has a grid of its own",
    "ACTIVATIONS_SCALE_FACTOR": "activations are f32",
    "ENABLE_SAGE_ATTN": "attention is computed exactly",
    "LOG_LEVEL": "there is no log",
    "AUTO_BATCH_TIMEOUT": "calls are not gathered into batches",
    "ALLOW_AUTO_BATCHING": "calls are not gathered into batches",
    "ENABLE_STARTUP_FALLBACK": "there is one device",
    "ENABLE_RUNTIME_FALLBACK": "there is one device",
    "MULTI_DEVICE_PRIORITIES": "there is one device",
    "WORKLOAD_TYPE": "calls have no priorities",
    "TBB_PARTITIONER": "there is no TBB",
    "FORCE_TBB_TERMINATE": "there is no TBB",
    "WEIGHTS_PATH": "constants come with the model",
    "ENABLE_WEIGHTLESS": "kernels are kept on disk without constants",
    "DEVICE_ID": "there is one device",
    "ENABLE_TENSOR_PARALLEL": "a model runs on the one CPU",
}
#: Properties that can be asked for only.
ASKED = (
    "SUPPORTED_PROPERTIES",
    "AVAILABLE_DEVICES",
    "FULL_DEVICE_NAME",
    "OPTIMIZATION_CAPABILITIES",
    "RANGE_FOR_STREAMS",
    "RANGE_FOR_ASYNC_INFER_REQUESTS",
    "EXECUTION_DEVICES",
    "DEVICE_TYPE",
    "DEVICE_ARCHITECTURE",
    "NETWORK_NAME",
    "OPTIMAL_NUMBER_OF_INFER_REQUESTS",
)
#: Properties that are element types, and which.
_TYPES = {
    "INFERENCE_PRECISION_HINT": ("f32", "bf16", "f16"),
    "KV_CACHE_PRECISION": ("f32", "f16", "bf16", "u8"),
}
_told: set[str] = set()


def check_device(name: Any) -> None:
    """Refuse devices other than the CPU (or AUTO, which chooses it)."""
    if not isinstance(name, str):
        raise TypeError(f"device_name: expected 'CPU', got {name!r}")
    first, _, rest = name.upper().partition(":")
    chosen = [d.strip().partition(".")[0] for d in rest.split(",")] if rest else ["CPU"]
    if first == "CPU" or (first in ("AUTO", "MULTI", "HETERO", "BATCH") and "CPU" in chosen):
        return
    raise unsupported(
        f"there is no device '{name}': uncork runs models on the CPU, device_name='CPU' or 'AUTO'"
    )


def normal(properties: Any) -> dict[str, Any]:
    """Properties as a program gives them, by name: a mapping, or pairs of names and values.

    Raises RuntimeError for a name that nobody knows, and for a value that a property cannot have.
    """
    given: dict[str, Any] = {}
    pairs = properties.items() if isinstance(properties, Mapping) else properties or ()
    for key, value in pairs:
        if str(key).upper() in ("DEVICE_PROPERTIES",) or isinstance(value, Mapping):
            inner = value.get("CPU", value) if isinstance(value, Mapping) else {}
            given.update(normal(inner))
            continue
        given[_known(str(key))] = _value(str(key).upper(), value)
    return given


def _known(name: str) -> str:
    upper = name.upper()
    if upper in TAKEN or upper in IGNORED:
        if upper in IGNORED and upper not in _told:
            _told.add(upper)
            warnings.warn(
                f"property {upper} is ignored: {IGNORED[upper]}", UncorkWarning, stacklevel=5
            )
        return upper
    invalid_if(upper in ASKED, f"property {upper} can be asked for, not set")
    near = did_you_mean(upper, [*TAKEN, *IGNORED])
    raise unsupported(f"there is no property '{name}'{near}")


def _value(name: str, value: Any) -> Any:
    if isinstance(value, OVAny):
        value = value.value
    value = value if name in _TYPES else getattr(value, "value", value)
    wrong = invalid(f"property {name}: {value!r} is no value of it")
    if name in _TYPES:
        return _type(name, value, wrong)
    if name in ("INFERENCE_NUM_THREADS", "PERFORMANCE_HINT_NUM_REQUESTS"):
        return _number(value, wrong)
    if name == "NUM_STREAMS":
        text = str(value).upper()
        return text if text in ("AUTO", "NUMA", "-1", "-2") else _number(value, wrong)
    if name in ("PERF_COUNT", "ENABLE_MMAP"):
        words = {"YES": True, "TRUE": True, "1": True, "NO": False, "FALSE": False, "0": False}
        if str(value).upper() not in words:
            raise wrong
        return words[str(value).upper()]
    allowed = {
        "PERFORMANCE_HINT": ("LATENCY", "THROUGHPUT", "CUMULATIVE_THROUGHPUT", "UNDEFINED"),
        "EXECUTION_MODE_HINT": ("PERFORMANCE", "ACCURACY"),
    }.get(name)
    if allowed is not None:
        text = str(value).upper()
        invalid_if(
            text not in allowed,
            f"property {name}: expected one of {', '.join(allowed)}, got {value!r}",
        )
        return text
    return value


def _type(name: str, value: Any, wrong: Exception) -> Any:
    """An element type that a property may be; `dynamic` leaves it to the file."""
    if value in ("", "dynamic", Type.dynamic):
        return Type.dynamic
    try:
        found = element_of(value).name
    except TypeError:
        raise wrong from None
    *others, last = _TYPES[name]
    invalid_if(
        found not in _TYPES[name],
        f"property {name}: expected {', '.join(others)} or {last}, got {found}",
    )
    return getattr(Type, found)


def _number(value: Any, wrong: Exception) -> int:
    try:
        number = int(str(value))
    except ValueError:
        raise wrong from None
    if number < 0:
        raise wrong
    return number


def streams_of(config: Mapping[str, Any]) -> int:
    """How many calls are meant to run side by side."""
    streams = config.get("NUM_STREAMS")
    most = available_threads()
    if isinstance(streams, int) and streams > 0:
        return streams
    if streams in ("AUTO", "-1", "NUMA", "-2"):
        return most
    if "THROUGHPUT" in str(config.get("PERFORMANCE_HINT")):
        return config.get("PERFORMANCE_HINT_NUM_REQUESTS") or most
    return 1


def options_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """The options of uncork's `compile_model` that properties mean."""
    threads = config.get("INFERENCE_NUM_THREADS") or available_threads()
    options: dict[str, Any] = {"threads": max(1, int(threads) // streams_of(config))}
    if config.get("INFERENCE_PRECISION_HINT") is Type.bf16:
        options["precision"] = "bf16"
    kept = config.get("KV_CACHE_PRECISION", Type.dynamic)
    if kept is not Type.dynamic:
        options["kv_cache_precision"] = element_of(kept).name
    return options


def processor() -> str:
    """The name of the processor."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine() or f"{os.name} CPU"


def asked(name: str, config: Mapping[str, Any], model: str | None = None) -> Any:
    """The value of a property. Raises RuntimeError for one that nobody knows."""
    upper = name.upper()
    if upper in config:
        return config[upper]
    if upper in TAKEN:
        return TAKEN[upper] or (available_threads() if "THREADS" in upper else TAKEN[upper])
    values = {
        "SUPPORTED_PROPERTIES": dict.fromkeys(ASKED, "RO") | dict.fromkeys(TAKEN, "RW"),
        "AVAILABLE_DEVICES": [""],
        "FULL_DEVICE_NAME": processor(),
        "OPTIMIZATION_CAPABILITIES": ["FP32", "INT8", "BIN"],
        "RANGE_FOR_STREAMS": (1, available_threads()),
        "RANGE_FOR_ASYNC_INFER_REQUESTS": (1, 1, 1),
        "EXECUTION_DEVICES": ["CPU"],
        "DEVICE_TYPE": "integrated",
        "DEVICE_ARCHITECTURE": platform.machine(),
        "OPTIMAL_NUMBER_OF_INFER_REQUESTS": streams_of(config),
    }
    if model is not None:
        values["NETWORK_NAME"] = model
    if upper in values:
        return values[upper]
    if upper in IGNORED:
        raise unsupported(f"property {upper} has no value here: {IGNORED[upper]}")
    near = did_you_mean(upper, [*TAKEN, *values])
    raise unsupported(f"there is no property '{name}'{near}")
