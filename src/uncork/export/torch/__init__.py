"""Export to torch: one file per family of operations lowers them to expressions that mean the same.

`model.py` walks the graph, `writer.py` is what a lowering writes statements with, `helpers/` are
functions that the source brings along, `classes.py` makes modules of the statements, `module.py`
executes the source and `folder.py` writes it. The module of `to_torch` is the source that
`write_torch` writes, executed: they cannot differ.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from uncork.ir.model import Model

if TYPE_CHECKING:
    from torch import nn

    from uncork.compiler.options import Ids


def to_torch(
    model: Model | str | os.PathLike[str], *, approximate: bool = False, ids: Ids = "64-bit"
) -> nn.Module:
    """The model as a torch module. `model` is a Model or the path of its .xml file.

    `module(*tensors)` takes the inputs in order and gives a tuple of the outputs, or the tensor
    where there is one. The model's constants are its parameters (what is trained) and buffers,
    under the names of their layers; `module.source` is the source that it runs, and
    `module.layers` tells the layer of each key of its state.

    What torch defines otherwise is spelled out, so that the answers are the same. A layer for
    which that cannot be is refused, all such layers in one UnsupportedError; with `approximate`
    those that come near are exported. `ids` is as for `load`: rows are looked up by the numbers
    that were given, or with "as-written" by what conversions in the model make of them.
    """
    from uncork.export.onnx.files import given_model
    from uncork.export.torch.model import torch_source
    from uncork.export.torch.module import import_torch, module_of

    import_torch()
    module: Any = module_of(torch_source(given_model(model), approximate, ids))
    return module
