"""Export to ONNX: one file per family of operations lowers them to nodes that mean the same.

`model.py` walks the graph, `graph.py` is what a lowering writes nodes with, `signatures.py` says
which element types the
nodes take, `registry.py` finds the lowering of an operation, `files.py` writes the result.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from uncork.ir.model import Model

if TYPE_CHECKING:
    from onnx import ModelProto

    from uncork.compiler.options import Ids


def to_onnx(
    model: Model | str | os.PathLike[str],
    *,
    opset: int = 21,
    approximate: bool = False,
    ids: Ids = "64-bit",
) -> ModelProto:
    """The model in ONNX, with its constants inside. `model` is a Model or the path of its .xml
    file, `opset` the version of ONNX's operations, 21 or newer.

    What ONNX defines otherwise is spelled out, so that the answers are the same. A layer for which
    that cannot be is refused, all
    such layers in one UnsupportedError; with `approximate` those that come near are exported, and
    listed in the metadata under
    `uncork.approximations`. Variables become inputs and outputs after the others, told in the
    metadata under `uncork.states`. `ids` is as for `load`: rows are looked up by the numbers that
    were given, or with "as-written" by what conversions in the model make of them.
    """
    from uncork.export.onnx.files import filled, given_model
    from uncork.export.onnx.model import export

    proto: ModelProto = filled(export(given_model(model), opset, approximate, ids))
    return proto
