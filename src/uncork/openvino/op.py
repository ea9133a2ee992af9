"""Nodes by what they are: `isinstance(node, op.Constant)`."""

from __future__ import annotations

from uncork.openvino._node import Constant as Constant
from uncork.openvino._node import Parameter as Parameter
from uncork.openvino._node import Result as Result

__all__ = ["Constant", "Parameter", "Result"]
