"""Changes to an existing model: its constants, its sizes, the names of its inputs and outputs, and
parts of it, and models of whole sequences made into streams. Each gives a new checked Model, which
`uncork.write_model` writes.

model = uncork.read_model("model.xml")
uncork.with_constants(model, {"table": array})
uncork.surgery.reshape(model, {"x": [1, 3, 224, 224]})
uncork.surgery.preprocess(model, {"x": uncork.surgery.Pictures(scale=(255.0,))})
uncork.surgery.rename(model, inputs={"x": "image"}, outputs={"y": "scores"})
uncork.surgery.cut(model, start=["encoder"], end=["pooled"])
uncork.surgery.extract(model, inputs=["hidden"], outputs=["scores"])
uncork.surgery.streaming(model, input="audio", axis=1, frames=(1, 16))
uncork.surgery.with_state(model, {"h": "hn", "c": "cn"})
"""

from uncork.preprocessing.pictures import Pictures
from uncork.surgery.changes import changes
from uncork.surgery.constants import with_constants
from uncork.surgery.parts import cut, extract
from uncork.surgery.ports import rename, reshape
from uncork.surgery.preprocess import preprocess
from uncork.surgery.states import with_state
from uncork.surgery.streams.metadata import StreamInfo, stream_info
from uncork.surgery.streams.streaming import check_stream, streaming

__all__ = [
    "Pictures",
    "StreamInfo",
    "changes",
    "check_stream",
    "cut",
    "extract",
    "preprocess",
    "rename",
    "reshape",
    "stream_info",
    "streaming",
    "with_constants",
    "with_state",
]
