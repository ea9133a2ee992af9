"""What the command line asks for, and the peers that are there to be measured."""

from __future__ import annotations

import importlib
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PEERS = ("openvino", "torch", "fbgemm", "onnxruntime", "numpy")
#: Packages that a peer needs beside the one it is named after.
_NEEDS = {"onnxruntime": ("onnx",), "fbgemm": ("fbgemm_gpu",)}
#: Peers that are operators of torch.
_OF_TORCH = ("fbgemm",)


class Peers:
    """The systems to compare with. One that is not installed is said once and skipped."""

    def __init__(self, names: tuple[str, ...], threads: int) -> None:
        self.names = names
        self.threads = threads
        self._loaded: dict[str, Any] = {}

    def get(self, name: str) -> Any:
        """The module of a peer, set to this many threads; None when it was not asked for or is not
        installed.
        """
        return self._module(name) if name in self.names else None

    def _module(self, name: str) -> Any:
        if name not in self._loaded:
            self._loaded[name] = self._load(name)
        return self._loaded[name]

    def _load(self, name: str) -> Any:
        try:
            for needed in _NEEDS.get(name, ()):
                importlib.import_module(needed)
            if name in _OF_TORCH:
                return self._module("torch")
            module = importlib.import_module(name)
        # a library that another torch was built for is an OSError
        except (ImportError, OSError) as error:
            print(f"peer {name} is skipped: {error}", flush=True)
            return None
        if name == "torch":
            module.set_num_threads(self.threads)
            module.set_num_interop_threads(1)
            # For the whole process: the cheapest mode torch has, and not to be paid for in every
            # call.
            self._mode = module.inference_mode()
            self._mode.__enter__()
        return module


@dataclass(frozen=True)
class Options:
    """One run of the command."""

    peers: Peers
    out: Path
    models: Path
    only: re.Pattern[str] = field(default_factory=lambda: re.compile(""))
    quick: bool = False
    threads: int = 1
    seconds: float = 2.0
    """Of timing, per case."""
    calls: int | None = None
    """Of each kind of traffic at most."""
    simulate: int = 0
    """The most threads that `gain` simulates; 0: it measures."""

    source: str = "ir"
    """What `zoo` opens: the networks as "ir" or as "onnx"."""

    target: str = ""
    """The level whose instructions alone are used; none: this processor's own."""

    def wants(self, name: str) -> bool:
        return self.only.search(name) is not None
