"""What a stream's file says of itself: its inputs and outputs in time, the delay, and the number
that frames of a call must be a multiple of.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from msgspec.structs import replace

from uncork.errors import InputError
from uncork.ir.model import Model, XmlElement

#: The group of the lines in the file's runtime information.
GROUP = "uncork_stream"


@dataclass(frozen=True)
class StreamedOutput:
    """An output of a stream.

    `time`: frame i is frame i + shift of the whole sequence, and stands for `every` frames of the
    input. `latest`: as of the last frame so far. `still`: the same in every call.
    """

    name: str
    kind: str
    axis: int
    shift: int
    every: int

    @property
    def delay(self) -> int:
        """Frames of the input that come before the first output that is something."""
        return max(0, -self.shift) * self.every


@dataclass(frozen=True)
class StreamInfo:
    """What is known of a stream."""

    #: The axis of time of each input that has one.
    inputs: dict[str, int]
    outputs: tuple[StreamedOutput, ...]
    #: Frames that a call may have: the least and the most (None: any number).
    frames: tuple[int, int | None]
    #: Frames of a call must be a multiple of this.
    multiple: int
    #: Inputs of the whole model that are its initial state, which the stream has inside.
    initial: tuple[str, ...] = ()
    #: The largest difference from the whole sequence, of the largest value of the output, when the
    #: stream was proved.
    difference: float = 0.0
    #: For how many frames the stream gives what the whole sequence gives, where attention keeps
    #: fewer frames than that sees; None: for ever.
    limit: int | None = None

    @property
    def delay(self) -> int:
        """Frames of the input by which the stream's outputs are late, at the most."""
        return max((output.delay for output in self.outputs), default=0)


def with_info(model: Model, info: StreamInfo, kept: Sequence[XmlElement]) -> Model:
    """The model with these lines, behind the runtime information `kept` of the one it was made
    of.
    """
    values = {
        "delay": str(info.delay),
        "multiple": str(info.multiple),
        "frames": json.dumps(info.frames),
        "inputs": json.dumps(info.inputs),
        "outputs": json.dumps([asdict(output) for output in info.outputs]),
        "initial": json.dumps(info.initial),
        "difference": repr(info.difference),
        **({} if info.limit is None else {"limit": str(info.limit)}),
    }
    lines = tuple(XmlElement(name, (("value", value),)) for name, value in values.items())
    own = XmlElement(GROUP, children=lines)
    others = [e for e in kept if e.tag != "rt_info"]
    before = [c for e in kept if e.tag == "rt_info" for c in e.children if c.tag != GROUP]
    return replace(model, extras=(*others, XmlElement("rt_info", children=(*before, own))))


def stream_info(model: Model) -> StreamInfo:
    """What a stream's file says of itself. Raises InputError for a model that is none."""
    found = [
        child
        for element in model.extras
        if element.tag == "rt_info"
        for child in element.children
        if child.tag == GROUP
    ]
    InputError.when(
        not found,
        "the model is no stream: nothing in it says how its frames run; make one with "
        "'uncork stream'",
        model.source,
    )
    values = {line.tag: dict(line.attributes).get("value", "") for line in found[0].children}
    try:
        low, high = json.loads(values["frames"])
        return StreamInfo(
            {str(k): int(v) for k, v in json.loads(values["inputs"]).items()},
            tuple(StreamedOutput(**output) for output in json.loads(values["outputs"])),
            (int(low), None if high is None else int(high)),
            int(values["multiple"]),
            tuple(map(str, json.loads(values.get("initial", "[]")))),
            float(values.get("difference", "0")),
            int(values["limit"]) if "limit" in values else None,
        )
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise InputError(
            f"what the file says of its stream ({GROUP}) cannot be read: {error}", model.source
        ) from None
