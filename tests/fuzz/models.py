"""The models that are changed: one of each worked example, small ones of several layers, and whole
ones where there are some.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

import tests.samples
import uncork
from tests.ir._models import BUILT, COMMITTED, WHOLE
from tests.samples._sample import Sample, Samples

#: Of each operation, the first examples.
EXAMPLES = 6


@dataclass(frozen=True)
class Seed:
    """The files of a good model."""

    name: str
    xml: bytes
    weights: bytes


def seeds(whole: bool = True, pattern: str = "") -> list[Seed]:
    """Those whose name `pattern` finds, in an order that depends on their names alone. Whole models
    count five times.
    """
    found: dict[str, Seed] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.xml")
        for name, make in BUILT.items():
            if not re.search(pattern, name):
                continue
            uncork.write_model(make(), path)
            found[name] = _read(name, path)
        for entry in _entries():
            for number, sample in enumerate(entry.samples[:EXAMPLES]):
                name = f"{entry.operation.label()}/{number}"
                if not re.search(pattern, name):
                    continue
                try:
                    uncork.write_model(_one_layer(entry, sample, number), path)
                except uncork.UncorkError:
                    # an example that is to be refused at the call, or of a type that no file holds
                    continue
                found[name] = _read(name, path)
    for path in COMMITTED + (WHOLE if whole else []):
        for number in range(5 if re.search(pattern, path.parent.name) else 0):
            found[f"{path.parent.name}#{number}"] = _read(path.parent.name, path)
    return [found[name] for name in sorted(found)]


def _read(name: str, path: Path) -> Seed:
    weights = path.with_suffix(".bin")
    return Seed(name, path.read_bytes(), weights.read_bytes() if weights.exists() else b"")


def _entries() -> list[Samples]:
    entries: list[Samples] = []
    for module in pkgutil.iter_modules(tests.samples.__path__):
        if not module.name.startswith("_"):
            entries += importlib.import_module(f"tests.samples.{module.name}").SAMPLES
    return entries


def _one_layer(entry: Samples, sample: Sample, number: int) -> uncork.Model:
    """A model of one operation. Inputs that give shapes are constants, the others too in every
    third example.
    """
    case = sample.case
    builder = uncork.Builder("sample")
    sources = []
    for position, (array, element_type) in enumerate(zip(case.inputs, case.types, strict=True)):
        if array is None:
            break
        if number % 3 == 2 or (
            position > 0 and element_type.is_integer and array.ndim <= 1 and number % 3 == 0
        ):
            sources.append(builder.constant(array, element_type))
        else:
            shape = array.shape if number % 2 else [None] * array.ndim
            sources.append(builder.parameter(f"in{position}", element_type, shape))
    for position, output in enumerate(
        builder.add(entry.operation.type_name, entry.operation.opset, *sources, **case.attributes)
    ):
        builder.result(output, f"out{position}")
    return builder.model()
