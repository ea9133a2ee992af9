"""Traffic: calls of one model, each of another size than the one before. A call depends on its
number
alone, and so does another one of the same sizes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks import traffic_models as models
from uncork import Model, read_model
from uncork.types import Array

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


@dataclass(frozen=True)
class Traffic:
    """A model, and the inputs of its calls by their number. `calls` are made in full, `quick` ones
    to see that all is well.
    """

    name: str
    model: Callable[[], Model]
    #: Of a generator of sizes, and of values that tell sizes, and one of all other contents.
    inputs: Callable[[np.random.Generator, np.random.Generator], list[Array]]
    calls: int
    quick: int
    #: With state: calls to a sequence, before each of which the state is reset.
    sequence: int = 0
    #: Only what every system takes as it is: onnxruntime has no variables.
    onnx: bool = True

    def call(self, number: int, contents: int = 0) -> list[Array]:
        """The inputs of a call; those of other `contents` have the same sizes."""
        return self.inputs(
            np.random.default_rng((7, number)), np.random.default_rng((8, number, contents))
        )


def _length(generator: np.random.Generator, most: int) -> int:
    """Mostly short, sometimes long."""
    return int(np.clip(generator.lognormal(np.log(most / 6), 0.8), 3, most))


def _sentence(sizes: np.random.Generator, contents: np.random.Generator) -> list[Array]:
    return [contents.integers(0, models.WORDS, (1, _length(sizes, 256)))]


def _session(sizes: np.random.Generator, contents: np.random.Generator) -> list[Array]:
    batch, steps = int(sizes.integers(1, 17)), _length(sizes, 60)
    lengths = contents.integers(1, steps, batch, endpoint=True)
    lengths[0] = steps
    return [contents.integers(0, 500, (batch, steps)), lengths]


def _image(sizes: np.random.Generator, contents: np.random.Generator) -> list[Array]:
    height, width = sizes.integers(64, 225, 2)
    return [contents.standard_normal((1, 3, height, width)).astype(np.float32)]


def _mask(sizes: np.random.Generator, contents: np.random.Generator) -> list[Array]:
    count = int(sizes.integers(20, 1500))
    mask = (sizes.random(count) < sizes.random()).astype(np.float32)
    return [mask, contents.standard_normal((count, 32)).astype(np.float32)]


def _boxes(sizes: np.random.Generator, contents: np.random.Generator) -> list[Array]:
    return models.boxes_of(sizes, int(sizes.integers(20, 600)))


def _token(sizes: np.random.Generator, contents: np.random.Generator) -> list[Array]:
    return [contents.integers(0, models.WORDS, (1, 1)), np.zeros(1, np.int32)]


def _recommender() -> Model:
    return read_model(EXAMPLES / "session_recommender" / "model.xml")


CASES = (
    Traffic("sentences", models.encoder, _sentence, 10_000, 12),
    Traffic("sessions", _recommender, _session, 10_000, 40),
    Traffic("images", models.classifier, _image, 10_000, 8),
    Traffic("decoding", models.decoder, _token, 10_240, 16, sequence=256, onnx=False),
    Traffic("masked rows", models.masked_rows, _mask, 10_000, 40),
    Traffic("detections", models.detections, _boxes, 10_000, 20),
)
BY_NAME = {case.name: case for case in CASES}
