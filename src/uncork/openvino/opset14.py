"""The functions of opset 14, which make layers."""

from uncork.openvino._opsets import opset as _opset

__getattr__, __dir__ = _opset(14)
