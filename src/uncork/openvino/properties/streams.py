"""How many calls run side by side."""

from __future__ import annotations

from enum import Enum

from uncork.openvino.properties._property import Property


class Num(Enum):
    """As many as the processors, or as the nodes of memory, make good."""

    AUTO = "AUTO"
    NUMA = "NUMA"


num = Property("NUM_STREAMS")
