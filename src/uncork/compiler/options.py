"""The options of `compile_model` that take one of a few words."""

from __future__ import annotations

from typing import Literal

Backend = Literal["cpu", "reference"]
Precision = Literal["f32", "bf16", "bf16x3", "fast"]
Decompression = Literal["as-written", "f32"]
Activations = Literal["f32", "i16", "i8"]
Kernels = Literal["if-available", "required"]
Ids = Literal["64-bit", "as-written"]
