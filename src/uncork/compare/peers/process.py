"""A peer as the comparison sees it: values by key, from a process that is started again when it
dies.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from uncork.compare.peers.base import GivenInput
from uncork.compare.tensors import PeerModel
from uncork.errors import UncorkError
from uncork.types import Array

#: `python -c` looks for modules in the current folder first ('' in the path), which this process
#: may not do.
_START = (
    "import sys; sys.path[:] = filter(None, sys.path); import json; sys.path[:] = "
    "json.loads(sys.argv[1]); "
    "from uncork.compare.peers.worker import main; main()"
)


#: The packages of a kind of peer.
_NEEDS = {"openvino": ("openvino",), "onnxruntime": ("onnx", "onnxruntime"), "torch": ("torch",)}


@dataclass(frozen=True)
class Failed:
    """A tensor that the peer has no value for, and why."""

    reason: str


class PeerProcess:
    """A peer in a process of its own; see the module. Close it at the end."""

    def __init__(
        self, kind: str, path: str, inputs: Sequence[GivenInput], weights: str | None, name: str
    ) -> None:
        """Raises UncorkError when the peer cannot open the model."""
        self.name = name
        _check(kind, path)
        self._opening = (kind, path, list(inputs), weights)
        self._process: subprocess.Popen[bytes] | None = None
        self.model: PeerModel = self._open()

    def outputs(self) -> list[Array] | Failed:
        """The results of the model as the peer runs it."""
        found = self._asked("outputs")
        return found if isinstance(found, Failed) else list(found)

    def values(self, keys: Sequence[str]) -> dict[str, Array | Failed]:
        """The value of each tensor. Where the peer fails with several it is asked for fewer, so
        that one tells of itself only.
        """
        result: dict[str, Array | Failed] = {}
        waiting = [list(keys)] if keys else []
        while waiting:
            part = waiting.pop(0)
            values = self._asked("values", part)
            if not isinstance(values, Failed):
                result.update(zip(part, values, strict=True))
            elif len(part) == 1:
                result[part[0]] = values
            else:
                waiting[:0] = [part[: len(part) // 2], part[len(part) // 2 :]]
        return result

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            process, self._process = self._process, None
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    with contextlib.suppress(
                        OSError
                    ):  # of what was not sent to a process that is gone
                        stream.close()
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _open(self) -> PeerModel:
        command = [sys.executable, "-c", _START, json.dumps([str(path) for path in sys.path])]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        found = self._asked("open", *self._opening)
        if isinstance(found, Failed):
            self.close()
            reason = found.reason.removeprefix(f"{self.name}: ")
            raise UncorkError(f"cannot open the model: {reason}", self.name)
        model: PeerModel = found
        return model

    def _asked(self, *message: Any) -> Any:
        if self._process is None:
            self._open()
        process = self._process
        assert process is not None and process.stdin is not None and process.stdout is not None
        try:
            pickle.dump(message, process.stdin, pickle.HIGHEST_PROTOCOL)
            process.stdin.flush()
            kind, value = pickle.load(process.stdout)
        except (EOFError, OSError, pickle.UnpicklingError):
            process.wait()
            status = process.returncode
            self.close()
            return Failed(
                f"the process ended by signal {-status}"
                if status < 0
                else f"the process ended with status {status}"
            )
        return Failed(value) if kind == "error" else value


def _check(kind: str, path: str) -> None:
    """Check what can be known before a process is started. Raises UncorkError."""
    missing = [name for name in _NEEDS.get(kind, ()) if importlib.util.find_spec(name) is None]
    if missing:
        what = f"{' and '.join(missing)}, which {'are' if missing[1:] else 'is'} not installed"
        raise UncorkError(
            f"needs {what}: pip install {' '.join(missing)}",
            f"against {kind}",
        )
    try:
        os.stat(path)
    except OSError as error:
        raise UncorkError(f"cannot be read: {error.strerror or error}", path) from None
