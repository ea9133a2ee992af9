"""OpenVINO's devices and properties: every device but the CPU and all properties are refused, and
the message names the option of this package to give instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from uncork.errors import Problem, UnsupportedError, ValidationError

#: OpenVINO's properties that are options here.
_OPTIONS = {
    "INFERENCE_NUM_THREADS": "give threads=N",
    "INFERENCE_PRECISION_HINT": "give precision='f32' or 'bf16'; f32 is the default here",
    "EXECUTION_MODE_HINT": "f32 is computed as f32 here unless precision= says otherwise",
    "CACHE_DIR": "kernels are kept on disk by themselves: see `uncork cache`",
}
_NONE_LIKE_IT = "there is nothing like it here: leave it out"


def check_device(device_name: str, config: Mapping[str, Any]) -> None:
    """Refuse every device but the CPU, and properties. Raises UnsupportedError or
    ValidationError.
    """
    ValidationError.when(
        not isinstance(device_name, str),
        f"device_name: expected 'CPU', got {device_name!r}; options are given by name, as in "
        "threads=2",
    )
    UnsupportedError.when(
        device_name.upper() not in ("CPU", "AUTO"),
        f"device_name: there is no device {device_name!r}: uncork runs models on the CPU",
    )
    ValidationError.when(
        not isinstance(config, Mapping),
        f"config: expected nothing or an empty mapping, got {repr(config)[:80]}; options are "
        "given by name, as in threads=2",
    )
    problems = [
        Problem(
            f"config, {name}", _OPTIONS.get(str(name).rpartition(".")[2].upper(), _NONE_LIKE_IT)
        )
        for name in config
    ]
    ValidationError.when_any("", problems)
