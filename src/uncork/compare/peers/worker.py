"""The process of a peer: it opens a model by another system and answers for tensors, by pickled
messages on its standard streams.

It is a process because other systems may end it; whoever asked learns that, and goes on.
"""

from __future__ import annotations

import importlib
import os
import pickle
import sys
import warnings
from typing import Any

from uncork.compare.peers.base import PeerRuntime
from uncork.errors import UncorkError

#: Kinds of peers, and what makes one.
KINDS = {
    "openvino": ("uncork.compare.peers.openvino_peer", "OpenVINOPeer"),
    "onnxruntime": ("uncork.compare.peers.onnxruntime_peer", "OnnxRuntimePeer"),
    "torch": ("uncork.compare.peers.torch_peer", "TorchPeer"),
    "uncork": ("uncork.compare.peers.uncork_peer", "UncorkPeer"),
    "reference": ("uncork.compare.peers.uncork_peer", "ReferencePeer"),
}


def main() -> None:
    """Serve until standard input ends."""
    messages = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what other systems print goes to standard error
    warnings.simplefilter("ignore")  # theirs are for their own users
    runtime: PeerRuntime | None = None
    while True:
        try:
            what, *rest = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        answer: tuple[str, Any]
        try:
            if what == "open":
                kind, path, inputs, weights = rest
                module, name = KINDS[kind]
                runtime = getattr(importlib.import_module(module), name)(path, inputs, weights)
                assert runtime is not None
                answer = "model", runtime.model
            else:
                assert runtime is not None, "it is opened first"
                answer = (
                    "values",
                    runtime.outputs() if what == "outputs" else runtime.values(rest[0]),
                )
        except Exception as error:  # of any system, with errors of its own
            answer = "error", _said(error)
        try:
            pickle.dump(answer, messages, pickle.HIGHEST_PROTOCOL)
            messages.flush()
        except BrokenPipeError:
            return


def _said(error: BaseException) -> str:
    """The text of an error: of another system's, the line that says most, because they begin with
    places in their sources.
    """
    if isinstance(error, UncorkError):
        found = [str(problem) for problem in error.problems]
        return "; ".join(found[:3]) + (f"; and {len(found) - 3} more" if found[3:] else "")
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    plain = [
        line
        for line in lines
        if not line.startswith(("Exception from ", "Check '", "[ GENERAL_ERROR"))
    ]
    return f"{type(error).__name__}: {(plain or lines or [''])[-1][:300]}"
