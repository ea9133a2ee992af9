"""How much is written to the log: there is none."""

from __future__ import annotations

from enum import Enum

from uncork.openvino.properties._property import Property


class Level(Enum):
    """What is written."""

    NO = -1
    ERR = 0
    WARNING = 1
    INFO = 2
    DEBUG = 3
    TRACE = 4


level = Property("LOG_LEVEL")
