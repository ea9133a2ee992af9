"""Properties of the device."""

from __future__ import annotations

from enum import Enum

from uncork.openvino.properties._property import Property


class Type(Enum):
    """Whether a device is a part of the computer."""

    INTEGRATED = 0
    DISCRETE = 1


full_name = Property("FULL_DEVICE_NAME")
architecture = Property("DEVICE_ARCHITECTURE")
type = Property("DEVICE_TYPE")
capabilities = Property("OPTIMIZATION_CAPABILITIES")
priorities = Property("MULTI_DEVICE_PRIORITIES")
properties = Property("DEVICE_PROPERTIES")
