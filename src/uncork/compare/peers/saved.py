"""Saved values as a peer: an .npz file with arrays by the names of tensors or layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from uncork.compare.peers.process import Failed
from uncork.compare.tensors import PeerModel, PeerTensor
from uncork.types import Array


class SavedPeer:
    """Saved values as a peer; see the module. A name with ":0" after it is that of the first output
    of a layer.
    """

    def __init__(self, arrays: Mapping[str, Array], name: str) -> None:
        self.name = name
        self._arrays = dict(arrays)
        names = [
            (key, key.removesuffix(":0")) if key.endswith(":0") else (key, f"{key}:0")
            for key in arrays
        ]
        self.model = PeerModel(
            tuple(PeerTensor(key, key, "", 0, own) for key, own in zip(arrays, names, strict=True)),
            (),
        )

    def outputs(self) -> list[Array] | Failed:
        """Nothing: saved values do not say which of them were results."""
        return []

    def values(self, keys: Sequence[str]) -> dict[str, Array | Failed]:
        """The arrays of these names."""
        return {key: self._arrays[key] for key in keys}

    def close(self) -> None:
        """Do nothing: no process is open."""
