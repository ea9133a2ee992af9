"""Programs written for OpenVINO, run with the one line changed."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def changed(text: str) -> str:
    """A program that imports uncork.openvino in place of openvino."""
    text = re.sub(r"(?m)^( *)import openvino\.([\w.]+) as", r"\1import uncork.openvino.\2 as", text)
    text = re.sub(r"(?m)^( *)import openvino as", r"\1import uncork.openvino as", text)
    return re.sub(r"(?m)^( *)from openvino", r"\1from uncork.openvino", text)


def run(path: Path, with_uncork: bool) -> Any:
    """What a program leaves in `result`."""
    text = path.read_text(encoding="utf-8")
    if with_uncork:
        text = changed(text)
        assert not re.search(r"(?m)^\s*(import|from) openvino", text)
    space: dict[str, Any] = {"__name__": "program"}
    with warnings.catch_warnings():
        if not with_uncork:
            warnings.simplefilter("ignore")
        exec(compile(text, str(path), "exec"), space)
    return space["result"]
