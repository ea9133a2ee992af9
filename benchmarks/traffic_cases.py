"""Traffic: calls of one model, each of another size than the one before. A call depends on its number alone."""

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
    """A model, and the inputs of its calls by their number. `calls` are made in full, `quick` ones to see that all is well."""

    name: str
    model: Callable[[], Model]
    inputs: Callable[[np.random.Generator, int], list[Array]]
    calls: int
    quick: int
    #: With state: calls to a sequence, before each of which the state is reset.
    sequence: int = 0
    #: Only what every system takes as it is: onnxruntime has no variables.
    onnx: bool = True

    def call(self, number: int) -> list[Array]:
        """The inputs of a call."""
        return self.inputs(np.random.default_rng((7, number)), number)


def _length(generator: np.random.Generator, most: int) -> int:
    """Mostly short, sometimes long."""
    return int(np.clip(generator.lognormal(np.log(most / 6), 0.8), 3, most))


def _sentence(generator: np.random.Generator, number: int) -> list[Array]:
    return [generator.integers(0, models.WORDS, (1, _length(generator, 256)))]


def _session(generator: np.random.Generator, number: int) -> list[Array]:
    batch, steps = int(generator.integers(1, 17)), _length(generator, 60)
    lengths = generator.integers(1, steps, batch, endpoint=True)
    lengths[0] = steps
    return [generator.integers(0, 500, (batch, steps)), lengths]


def _image(generator: np.random.Generator, number: int) -> list[Array]:
    height, width = generator.integers(64, 225, 2)
    return [generator.standard_normal((1, 3, height, width)).astype(np.float32)]


def _mask(generator: np.random.Generator, number: int) -> list[Array]:
    count = int(generator.integers(20, 1500))
    return [(generator.random(count) < generator.random()).astype(np.float32), generator.standard_normal((count, 32)).astype(np.float32)]


def _boxes(generator: np.random.Generator, number: int) -> list[Array]:
    return models.boxes_of(generator, int(generator.integers(20, 600)))


def _token(generator: np.random.Generator, number: int) -> list[Array]:
    return [generator.integers(0, models.WORDS, (1, 1)), np.zeros(1, np.int32)]


def _recommender() -> Model:
    return read_model(EXAMPLES / "session_recommender" / "model.xml")


CASES = (
    Traffic("sentences", models.encoder, _sentence, 2000, 12),
    Traffic("sessions", _recommender, _session, 10_000, 40),
    Traffic("images", models.classifier, _image, 1000, 8),
    Traffic("decoding", models.decoder, _token, 512, 16, sequence=256, onnx=False),
    Traffic("masked rows", models.masked_rows, _mask, 10_000, 40),
    Traffic("detections", models.detections, _boxes, 5000, 20),
)
BY_NAME = {case.name: case for case in CASES}
