"""Asking OpenVINO from a test, through `openvino_worker`: one process for many questions, started
again after a crash.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np


class Died(Exception):
    """OpenVINO's process ended or hung on this model."""


class Refused(Exception):
    """OpenVINO raised an error."""


class OpenVino:
    """A worker process and a scratch folder."""

    def __init__(self, timeout: float = 60) -> None:
        self.timeout = timeout
        self.folder = tempfile.TemporaryDirectory()
        self.process: subprocess.Popen[str] | None = None

    def run(
        self, model: str | os.PathLike[str], inputs: list[Any], reshape: bool = False
    ) -> list[np.ndarray]:
        """The results of one call, in order. Raises Refused or Died."""
        if self.process is None or self.process.poll() is not None:
            worker = Path(__file__).with_name("openvino_worker.py")
            self.process = subprocess.Popen(
                [sys.executable, str(worker)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        assert self.process.stdin is not None and self.process.stdout is not None
        given, made = (os.path.join(self.folder.name, name) for name in ("in.npz", "out.npz"))
        np.savez(
            given,
            **{
                str(i): a.astype(str) if a.dtype == object else a
                for i, a in enumerate(map(np.asarray, inputs))
            },
        )
        self.process.stdin.write(
            json.dumps({"model": str(model), "inputs": given, "outputs": made, "reshape": reshape})
            + "\n"
        )
        self.process.stdin.flush()
        ready, _, _ = select.select([self.process.stdout], [], [], self.timeout)
        line = self.process.stdout.readline() if ready else ""
        if not line:
            self.process.kill()
            self.process.wait()
            raise Died(f"OpenVINO's process {'ended' if ready else 'hung'}")
        error = json.loads(line)["error"]
        if error:
            raise Refused(error)
        with np.load(made) as results:
            return [results[str(i)] for i in range(len(results.files))]

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            for stream in (self.process.stdin, self.process.stdout):
                if stream is not None:
                    stream.close()
        self.folder.cleanup()
