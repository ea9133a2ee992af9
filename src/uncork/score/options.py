"""The options of scoring: what comes out of rows, and how the files of a run are made.

`uncork.score` says what each of them is.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from uncork.compiler.options import (
    Activations,
    BackendOptions,
    Decompression,
    OptionRecord,
    Options,
    Precision,
)

Location = str | os.PathLike[str]


class RowOptions(OptionRecord, frozen=True, kw_only=True):
    """What comes out of rows, whoever brings them."""

    inputs: Mapping[str, Any] | None = None
    outputs: Mapping[str, str | int] | None = None
    keep: Sequence[str] | None = None
    top_k: int | None = None
    strict: bool = True
    negative_ids: bool = True
    on_error: str = "fail"
    batch_size: int | None = None
    weights: Location | None = None
    tables: Mapping[str, Location] | None = None
    backend: str = "cpu"
    precision: Precision = "f32"
    decompression: Decompression = "as-written"
    activations: Activations = "f32"

    def check(self) -> None:
        """Raise ValidationError for a rounding that there is not."""
        self._rounding().check()

    def _rounding(self) -> Options:
        return Options(
            precision=self.precision,
            decompression=self.decompression,
            activations=self.activations,
        )

    def for_load(self) -> dict[str, Any]:
        """The keywords of `uncork.load`, which pickle."""
        paths = None if self.tables is None else {k: os.fspath(v) for k, v in self.tables.items()}
        weights = None if self.weights is None else os.fspath(self.weights)
        return {
            "weights": weights,
            "tables": paths,
            "strict": self.strict,
            "backend": self.backend,
            **self._rounding().given(),
        }


class ScorerOptions(RowOptions, frozen=True, kw_only=True):
    """The options of a function on rows."""

    threads: int | None = 1


class ScoreOptions(RowOptions, frozen=True, kw_only=True):
    """The options that decide what comes out of a source."""

    mapping: Location | None = None
    rows_per_part: int | None = None
    format: str | None = None
    limit: int | None = None

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


class RunOptions(OptionRecord, frozen=True, kw_only=True):
    """The options of how files are scored, and of what becomes of an output that is there."""

    rejects: Location | None = None
    engine: str = "local"
    ray_address: str | None = None
    workers: int | None = None
    resume: bool = False
    overwrite: bool = False
    progress: bool = False


class RowArguments(BackendOptions, total=False):
    """The options of `RowOptions`, as keywords."""

    inputs: Mapping[str, Any] | None
    outputs: Mapping[str, str | int] | None
    keep: Sequence[str] | None
    top_k: int | None
    strict: bool
    negative_ids: bool
    on_error: str
    batch_size: int | None
    weights: Location | None
    tables: Mapping[str, Location] | None


class ScorerArguments(RowArguments, total=False):
    """The options of `ScorerOptions`, as keywords."""

    threads: int | None


class ScoreArguments(RowArguments, total=False):
    """The options of `ScoreOptions` and of `RunOptions`, as keywords."""

    mapping: Location | None
    rows_per_part: int | None
    format: str | None
    limit: int | None
    rejects: Location | None
    engine: str
    ray_address: str | None
    workers: int | None
    resume: bool
    overwrite: bool
    progress: bool
