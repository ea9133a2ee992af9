"""`Flow`: what becomes of a tensor of the whole sequence in the stream.

Frame i of the stream is frame i + shift of the whole sequence. Where the shift is above 0, the
whole sequence has that many frames before the first frame of the input (padding): they are the
`history`, which the same layers make, and with which a state begins. Where it is below 0, the
layer looks ahead: the first -shift frames of the stream are nothing yet. Every call gives exactly
as many frames as it takes, divided by `every`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from uncork.ir.model import Source
from uncork.symbolic import Size

#: still: it has no time. time: a sequence. size: numbers that lengths of the sequence tell.
#: latest: as of the last frame so far. refused: it cannot be streamed.
Kind = Literal["still", "time", "size", "latest", "refused"]


#: What can be done about a layer of any kind.
_CUT = "cut the model before that layer"


class Refusal(Exception):
    """Why a layer does not stream, and what could be done instead."""

    def __init__(self, why: str, remedy: str = "", label: str = "", layer: str = "") -> None:
        super().__init__(why)
        self.why, self.remedy = why, remedy
        #: The layer that refuses, as messages name it, and its name.
        self.label, self.layer = label, layer
        #: Whether it is for nothing but several axes that have time.
        self.is_mixed = False

    @classmethod
    def when(cls, condition: object, why: str, remedy: str = "") -> None:
        """Refuse the layer where the condition holds."""
        if condition:
            raise cls(why, remedy)

    @property
    def text(self) -> str:
        return f"{self.why}; {self.remedy or _CUT}"


@dataclass(frozen=True)
class Flow:
    """One tensor in the stream."""

    source: Source
    kind: Kind = "still"
    axis: int = -1
    shift: int = 0
    #: Frames of the input for each frame of this tensor.
    every: int = 1
    #: The `shift` frames before the stream's first; of a size, that size of the history.
    history: Source | None = None
    #: The number of frames of the whole sequence, and the elements of one frame that lie behind
    #: the time axis. Where the axis has another size, time is joined with other axes in it.
    size: Size | None = None
    within: Size | None = None
    joined: bool = False
    refusal: Refusal | None = None

    def moved(self, source: Source, history: Source | None, shift: int) -> Flow:
        """The same frames in another tensor, and begun elsewhere."""
        return replace(self, source=source, history=history, shift=shift)


def refused(refusal: Refusal) -> Flow:
    """A tensor that does not stream: told only where an output needs it."""
    return Flow(Source(-1, 0), "refused", refusal=refusal)
