"""Marks of functions that make layers for a PrePostProcessor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def custom_preprocess_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function itself: `preprocess().custom(function)` takes any."""
    return function
