"""`PrePostProcessor`: pictures to what a model takes, and what it gives to what is wanted, as
layers of the model: they are as fast as others, and are saved with it.
"""

from __future__ import annotations

from uncork.openvino.preprocess._processor import (
    InputInfo,
    InputModelInfo,
    InputTensorInfo,
    OutputInfo,
    OutputModelInfo,
    OutputTensorInfo,
    PostProcessSteps,
    PrePostProcessor,
    PreProcessSteps,
)
from uncork.preprocessing.formats import ColorFormat, PaddingMode, ResizeAlgorithm

__all__ = [
    "ColorFormat",
    "InputInfo",
    "InputModelInfo",
    "InputTensorInfo",
    "OutputInfo",
    "OutputModelInfo",
    "OutputTensorInfo",
    "PaddingMode",
    "PostProcessSteps",
    "PrePostProcessor",
    "PreProcessSteps",
    "ResizeAlgorithm",
]
