"""What every peer is: a model opened by another system, that gives the values of tensors by their
keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from uncork.compare.tensors import PeerModel
from uncork.types import Array


@dataclass(frozen=True)
class GivenInput:
    """An input of the comparison: the layer's name, its tensor's names, its element type's name and
    its carrier array.
    """

    layer: str
    names: tuple[str, ...]
    element_type: str
    array: Any


class PeerRuntime(Protocol):
    """A peer inside its worker process, made from the path of a model and the inputs. Narrow floats
    that NumPy lacks are given as f32.
    """

    @property
    def model(self) -> PeerModel:
        """The tensors that the peer can give, as it names them."""

    def outputs(self) -> list[Array]:
        """The results of the model as the peer runs it when nobody looks inside."""

    def values(self, keys: Sequence[str]) -> list[Array]:
        """The values of tensors."""


def in_order(inputs: Sequence[GivenInput], wanted: Sequence[tuple[str, ...]]) -> list[GivenInput]:
    """The given inputs in the order of the peer's inputs: by a name that both have, or by position
    where names do not match all of them.

    Raises ValueError when there are more or fewer.
    """
    if len(inputs) != len(wanted):
        raise ValueError(f"the peer's model has {len(wanted)} inputs and this one {len(inputs)}")
    by_name = {name: given for given in inputs for name in (given.layer, *given.names)}
    found = [next((by_name[name] for name in names if name in by_name), None) for names in wanted]
    if None in found or len({id(given) for given in found}) < len(found):
        return list(inputs)
    return [given for given in found if given is not None]


def of_bf16(bits: Array) -> Array:
    """The values of bf16 numbers, given as arrays of two bytes, as f32."""
    values: Array = (bits.view(np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32)
    return values
