"""`ScoreOptions`: what `uncork.score` is told about a model and its rows, wherever they are."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from uncork.compiler.options import Options, RoundingOptions

Location = str | os.PathLike[str]


@dataclass(frozen=True)
class ScoreOptions:
    """The options of `uncork.score` that decide what comes out; it says what each of them is."""

    inputs: Mapping[str, Any] | None = None
    mapping: Location | None = None
    outputs: Mapping[str, str | int] | None = None
    keep: Sequence[str] | None = None
    top_k: int | None = None
    strict: bool = True
    negative_ids: bool = True
    on_error: str = "fail"
    batch_size: int | None = None
    rows_per_part: int | None = None
    format: str | None = None
    limit: int | None = None
    weights: Location | None = None
    tables: Mapping[str, Location] | None = None
    backend: str = "cpu"
    rounding: RoundingOptions = field(default_factory=RoundingOptions)

    def with_mapping(self) -> ScoreOptions:
        """The options with what the file `mapping` says where they say nothing."""
        if self.mapping is None:
            return self
        from uncork.score.mapping import read_toml

        file = read_toml(self.mapping)
        others = ("outputs", "keep", "top_k")
        told: dict[str, Any] = {
            name: file.get(name) for name in others if getattr(self, name) is None
        }
        return replace(self, inputs={**file.get("inputs", {}), **(self.inputs or {})}, **told)

    def for_load(self) -> dict[str, Any]:
        """The keywords of `uncork.load`, which pickle."""
        paths = None if self.tables is None else {k: os.fspath(v) for k, v in self.tables.items()}
        weights = None if self.weights is None else os.fspath(self.weights)
        return {
            "weights": weights,
            "tables": paths,
            "strict": self.strict,
            "backend": self.backend,
            **Options(**self.rounding).given(),
        }
