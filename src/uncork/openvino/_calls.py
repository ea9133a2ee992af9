"""What a call is given, by position, and what it gives: `OVDict`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from uncork.openvino._errors import wrong_input
from uncork.openvino._ports import ConstOutput
from uncork.openvino._positions import position_of
from uncork.types import Array, ElementType


class OVDict(Mapping[ConstOutput, Array]):
    """What a call gave: arrays by output, by name and by position."""

    def __init__(self, arrays: Mapping[ConstOutput, Array]) -> None:
        self._arrays = dict(arrays)

    def __getitem__(self, key: Any) -> Array:
        if isinstance(key, ConstOutput):
            if key in self._arrays:
                return self._arrays[key]
            try:
                return list(self._arrays.values())[position_of(list(self._arrays), key, "output")]
            except RuntimeError:
                raise KeyError(key) from None
        if isinstance(key, str):
            for port, array in self._arrays.items():
                if key in port.names:
                    return array
            raise KeyError(key)
        if isinstance(key, (int, np.integer)):
            arrays = list(self._arrays.values())
            if not -len(arrays) <= key < len(arrays):
                raise KeyError(key)
            return arrays[key]
        raise TypeError(f"expected an output, a name or a position, got {type(key).__name__}")

    def __iter__(self) -> Iterator[ConstOutput]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def __contains__(self, key: object) -> bool:
        try:
            self[key]
        except (KeyError, TypeError):
            return False
        return True

    def names(self) -> tuple[set[str], ...]:
        """The names of every output."""
        return tuple(port.names for port in self._arrays)

    def to_dict(self) -> dict[ConstOutput, Array]:
        """A dictionary of the arrays by output."""
        return dict(self._arrays)

    def to_tuple(self) -> tuple[Array, ...]:
        """The arrays, in order."""
        return tuple(self._arrays.values())

    def __repr__(self) -> str:
        return repr(self._arrays)


def given_inputs(ports: Sequence[ConstOutput], inputs: Any) -> dict[int, Any]:
    """What a call was given, by the positions of inputs."""
    if inputs is None:
        return {}
    if isinstance(inputs, Mapping):
        return {position_of(ports, key, "input"): value for key, value in inputs.items()}
    if isinstance(inputs, (list, tuple)):
        if len(inputs) > len(ports):
            raise wrong_input(f"expected at most {len(ports)} inputs, got {len(inputs)}")
        return dict(enumerate(inputs))
    if len(ports) == 1:
        return {0: inputs}
    raise wrong_input(
        f"the model has {len(ports)} inputs: give them as a list, or as a dictionary by name; got "
        f"one {type(inputs).__name__}"
    )


def shown(element: ElementType, array: Array, decode_strings: bool) -> Array:
    """An array of a call as programs read it: strings as text, or as bytes."""
    if element is ElementType.string and not decode_strings:
        flat = [str(t).encode() for t in array.reshape(-1)]
        return np.array(flat, "S").reshape(array.shape)
    return array.astype(str) if element is ElementType.string else array
