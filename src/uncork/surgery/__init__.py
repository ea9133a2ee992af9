"""Changes to an existing model: its constants, its sizes, the names of its inputs and outputs, and
parts of it. Each gives a new checked Model, which `uncork.write_model` writes.

model = uncork.read_model("model.xml")
uncork.with_constants(model, {"table": array})
uncork.surgery.reshape(model, {"x": [1, 3, 224, 224]})
uncork.surgery.rename(model, inputs={"x": "image"}, outputs={"y": "scores"})
uncork.surgery.cut(model, start=["encoder"], end=["pooled"])
uncork.surgery.extract(model, inputs=["hidden"], outputs=["scores"])
"""

from uncork.surgery.changes import changes
from uncork.surgery.constants import with_constants
from uncork.surgery.parts import cut, extract
from uncork.surgery.ports import rename, reshape

__all__ = ["changes", "cut", "extract", "rename", "reshape", "with_constants"]
