"""The warning for whoever reshapes as in OpenVINO, in place: `model.reshape(...)` gives a new model
here, and one that is dropped changes nothing.

A new model that nobody looked at and that is gone, when the old one is used, was dropped. A model
is looked at by its inputs and outputs; it is gone as soon as nothing refers to it.
"""

from __future__ import annotations

import warnings
import weakref
from typing import Any

from msgspec import Struct

from uncork.errors import UncorkWarning


class Made(Struct, weakref=True):
    """What became of a new model."""

    looked_at: bool = False


def remember(old: Any, new: Any) -> None:
    """Note, at both, that `new` was made of `old`."""
    made = new.__dict__["_made"] = Made()
    old.__dict__["_reshaped"] = (weakref.ref(new), made)


def looked_at(model: Any) -> None:
    """Note that somebody asked for inputs, outputs or names of the model."""
    made = model.__dict__.get("_made")
    if made is not None:
        made.looked_at = True


def warn_if_dropped(model: Any, stacklevel: int) -> None:
    """Warn, once, where the model is used and what `reshape` last made of it was dropped."""
    looked_at(model)
    new, made = model.__dict__.pop("_reshaped", (None, None))
    if new is not None and made is not None and new() is None and not made.looked_at:
        warnings.warn(
            f"{model.source}: has the shapes that it had: reshape() gives a new model, and that "
            "was dropped; write model = model.reshape(...)",
            UncorkWarning,
            stacklevel=stacklevel + 1,
        )
