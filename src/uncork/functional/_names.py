"""Every function by its name: those of `torch.nn.functional`, and those of operations.

A name that both have takes what torch's takes. Arguments that only the operation has (`axis=`,
`pads_begin=`, `strict=`), or more than torch's takes, call the operation.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from uncork.errors import did_you_mean
from uncork.functional._generated import TYPES, operation_function
from uncork.functional._torch import (
    activations,  # noqa: F401
    arrays,
    images,  # noqa: F401
    layered,
    losses,  # noqa: F401
    normalisation,  # noqa: F401
    pooling,  # noqa: F401
    products,  # noqa: F401
)

#: What torch.nn.functional has and is not here, and why.
ABSENT = {
    **dict.fromkeys(
        ("fractional_max_pool2d", "fractional_max_pool3d", "gumbel_softmax"),
        "it draws random numbers",
    ),
    "multi_head_attention_forward": "F.linear and F.scaled_dot_product_attention are its parts",
    "multilabel_margin_loss": "no layers say it; F.multilabel_soft_margin_loss is there",
    "triplet_margin_with_distance_loss": "it calls a function; F.triplet_margin_loss is there",
}


def names() -> set[str]:
    """The names of all functions that are made when they are asked for."""
    return {*layered.LAYERS, *TYPES}


def function_of(name: str) -> Callable[..., Any]:
    """The function of a name. Raises AttributeError where there is none."""
    made = arrays.one_hot if name == "one_hot" else layered.function_of(name)
    if made is not None:
        return _either(made, operation_function(name)) if name in TYPES else made
    if name in TYPES:
        return operation_function(name)
    message = f"module 'uncork.functional' has no attribute {name!r}"
    if way := _way(name):
        message += f": {way}"
    elif not name.startswith("_"):
        message += did_you_mean(name, sorted(names()))
    raise AttributeError(message, name=name, obj=None)


def _way(name: str) -> str:
    """Why a name of torch's is not there, and what is; "" for any other."""
    plain = name.removesuffix("_with_indices")
    if plain != name and plain in layered.LAYERS:
        return f"F.{plain}(..., return_indices=True)"
    if name.endswith("_") and name[:-1] in layered.LAYERS:
        return f"arrays are not changed: take the result of F.{name[:-1]}"
    return ABSENT.get(name, "")


def _either(layers: Callable[..., Any], operation: Callable[..., Any]) -> Callable[..., Any]:
    """Torch's function, or the operation where arguments are given that only this has."""
    own = inspect.signature(layers).parameters
    others = {*inspect.signature(operation).parameters} - {*own}

    @functools.wraps(layers)
    def function(*args: Any, **options: Any) -> Any:
        if len(args) > len(own) or (options and not others.isdisjoint(options)):
            return operation(*args, **options)
        return layers(*args, **options)

    function.__doc__ = (
        f"{layers.__doc__}\n\nWith arguments that only the operation has "
        f"({', '.join(sorted(others))}): {operation.__doc__}"
    )
    return function
