"""`uncork.score`: a model on every row of a table, Parquet in, Parquet out.

    import uncork
    expressions = {"items": "padded(items, 50)", "lengths": "length(items, 50)"}
    summary = uncork.score("model.xml", "sessions.parquet", "scores", inputs=expressions)

How it is made. Before a row is read, `plan` decides everything: `source` finds the files and
cuts their rows into units, `mapping` binds columns to the model's inputs (`expression` is its
language), `outputs` says which columns come out. All of that is one picklable `Job`. A worker takes
a job and units: `unit` scores one, batch by batch (`batch`, with `columns` for arrays out of Arrow
and `read` for the rows). An engine brings units to workers; `local` does with processes of this
machine (`waiting` says which unit comes next), `ray_engine` with those of a Ray cluster, and `sink`
makes the finished units one output, whole or not at all. pyarrow is imported when the first of
these is.

This module can be called: `uncork.score(...)` is `uncork.score.score(...)`.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import time
import types
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from msgspec.structs import replace

from uncork.compiler.options import asked, taking
from uncork.errors import InputError, UncorkError
from uncork.score.options import (
    Location,
    RowOptions,
    RunOptions,
    ScoreArguments,
    ScoreOptions,
)

if TYPE_CHECKING:
    import inspect

    from typing_extensions import Unpack

    from uncork.score.engine import Engine
    from uncork.score.plan import ScoringPlan
    from uncork.score.sink import Sink
    from uncork.score.summary import Summary


#: Options that are for files, in the order in which a message names those that a table was given.
_FILES_ONLY = (
    *("output", "rejects", "ray_address", "workers", "rows_per_part", "resume", "overwrite"),
    "format",
)


class ScoringInterrupted(KeyboardInterrupt):
    """The interruption of a run by Ctrl-C while rows were scored; the text says what is kept."""


@taking(ScoreArguments, ScoreOptions, RunOptions)
def score(
    model: Location,
    source: Any,
    output: Location | None = None,
    **options: Unpack[ScoreArguments],
) -> Any:
    """Score every row of `source` and write one row for each into `output`, in the same order.

    `source` is a Parquet, Arrow IPC or CSV file, a folder or glob of them, a URI that pyarrow's
    file systems read, or a list of these. `output` is a Parquet file when its name ends in
    .parquet, otherwise a folder of them with a part for each unit of rows. `inputs` maps the
    model's inputs to expressions such as "padded(items, 50)" (see `uncork.score.expression`) or
    constants; `mapping` is a TOML file with the same; what is in neither takes the column of its
    name. `outputs` maps columns to results of the model, by default all; `keep` names columns to be
    copied, by default "row", the row's number; `top_k` keeps the best items of each result [rows,
    items].

    `on_error` is "fail" (the first row that cannot be scored is an error), "null" (it has no
    results) or "reject" (it goes to the Parquet file `rejects` with its reason). `strict` makes a
    bad row of an id outside its table also where the operation would give zeros, and of an integer
    that a conversion in the model would change. `negative_ids=False` makes one of an id below 0,
    which Gather would count from the end of its table.

    `engine` is "local" (processes of this machine) or "ray" (pip install 'uncork[ray]';
    `ray_address` is that of a cluster, "host:port" or "auto"; without it Ray is started on this
    machine). An interrupted run goes on with `resume`; `overwrite` replaces an output that is
    there, when uncork wrote it. `limit` scores the first rows only, for a trial. `weights`,
    `tables` (paths of files), `backend`, `precision`, `decompression` and `activations` are those
    of `uncork.load`.

    `workers` is how many processes score (all processors), `batch_size` the rows of a call (1024,
    or what the model's shapes fix), `rows_per_part` about how many rows lie in a part; `format` is
    "parquet", "ipc" or "csv" where names do not say it, and `progress=True` shows on a terminal how
    far it is.

    A `source` may also be a table in memory, of pandas, Polars or pyarrow: then there is no
    `output`, and what comes back is a table of the same kind with a row for each row (see
    `uncork.score.Scorer`, which engines call). Files give a Summary.

    Raises InputError, before anything is written, when the model, the source and the mapping do not
    fit, and BadRowError for a bad row.
    """
    if not isinstance(model, (str, os.PathLike)):
        raise InputError(
            f"expected the path of a model.xml, which every process loads by itself, "
            f"got {type(model).__name__}",
            "model",
        )
    told, run = asked(score, options, ScoreOptions), asked(score, options, RunOptions)
    if isinstance(source, (list, tuple)) and not source:
        raise InputError("expected paths, or rows as dictionaries, got an empty list", "source")
    if not _is_location(source):
        values = {"output": output, **options}
        given = [
            name
            for name in _FILES_ONLY
            if values.get(name) is not None and values[name] is not False
        ]
        return _score_frame(model, source, given, told)
    if output is None:
        raise InputError(
            "expected where the scores go: a name that ends in .parquet, or a folder", "output"
        )
    workers, rejects = run.workers, run.rejects
    if workers is not None and (not isinstance(workers, int) or workers < 1):
        raise InputError(f"expected a number of at least 1, got {workers!r}", "workers")
    if (rejects is not None) != (told.on_error == "reject"):
        raise InputError(
            "on_error='reject' and the file for rejected rows go together: give both or neither",
            "rejects",
        )
    check_output_name(os.fspath(output), rejects)
    need_pyarrow()
    from uncork.score.sink import Sink

    started = time.perf_counter()
    engine = _engine(run.engine, workers, run.ray_address)
    try:
        prepared = prepare_score(model, source, told)
        rejected = None if rejects is None else os.fspath(rejects)
        reads = prepared.reads(told.mapping)
        sink = Sink(os.fspath(output), rejected, prepared.describe(), prepared.job, reads)
        return _run(engine, prepared, sink, run, started)
    finally:
        engine.close()


def _is_location(source: Any) -> bool:
    """Whether a source is a path or a list of paths."""
    several = source if isinstance(source, (list, tuple)) else [source]
    return all(isinstance(one, (str, os.PathLike)) for one in several)


def _score_frame(
    model: Location, frame: Any, files_only: Sequence[str], options: ScoreOptions
) -> Any:
    """Score a table in memory, in this process; `files_only` are options that are for files."""
    need_pyarrow()
    from uncork.score.frames import first_rows, is_frame
    from uncork.score.scorer import Scorer

    if not is_frame(frame):
        kinds = "paths, a table of pandas, Polars or pyarrow, or a list of dictionaries"
        lazy = "; give its .collect()" if hasattr(frame, "collect") else ""
        raise InputError(f"expected {kinds}, got {type(frame).__name__}{lazy}", "source")
    if files_only:
        given = ", ".join(f"{name}=" for name in files_only)
        raise InputError(
            f"a table in memory is scored in this process and returned: leave out {given}", "score"
        )
    options = options.with_mapping()
    own = {name: getattr(options, name) for name in RowOptions.__struct_fields__}
    scorer = Scorer(model, **{**own, "threads": None})
    return scorer(frame if options.limit is None else first_rows(frame, options.limit))


def check_output_name(output: str, rejects: Location | None) -> None:
    """Refuse an output or rejects with the name of a kind of file that is not written. Looks at
    nothing else.
    """
    from uncork.score.target import check_rejects_name, is_one_file

    is_one_file(output)
    if rejects is not None:
        check_rejects_name(os.fspath(rejects))


def need_pyarrow() -> None:
    """Raise UncorkError that says how to get pyarrow if it is not installed. Does not import it."""
    if importlib.util.find_spec("pyarrow") is None:
        raise UncorkError(
            "needs pyarrow, which is not installed: pip install 'uncork[score]'", "uncork score"
        )


def _engine(name: str, workers: int | None, ray_address: str | None) -> Engine:
    if name == "ray":
        from uncork.score.ray_engine import RayEngine

        return RayEngine(workers, ray_address)
    InputError.when(name != "local", f"expected local or ray, got {name!r}", "engine")
    if ray_address is not None:
        raise InputError("is for engine 'ray' only", "ray_address")
    from uncork.compiler.threads import available_threads
    from uncork.score.local import LocalEngine

    return LocalEngine(workers or available_threads())


def prepare_score(
    model: Location, source: Location | Sequence[Location], options: ScoreOptions
) -> ScoringPlan:
    """The plan of what `score` would do: the checked mapping, columns and units.

    Print it. Reads footers and no rows.
    """
    need_pyarrow()
    from uncork.score.plan import plan

    return plan(model, source, options)


def _run(
    engine: Engine,
    prepared: ScoringPlan,
    sink: Sink,
    options: RunOptions,
    started: float,
) -> Summary:
    """Score the units with an engine into a sink, and sum it up."""
    from uncork.score.summary import Summary, progress_bar

    job, units = prepared.job, prepared.units
    kept = None if sink.rejects is None else str(sink.rejects)
    before = sink.open(options.resume, options.overwrite)
    if before is not None:
        return Summary.of_finished(str(sink.target), kept, before, len(units), job.on_error)
    resumed = sink.counts.rows
    try:
        todo = [unit for unit in units if unit.number not in sink.finished]
        with progress_bar(job.source.rows, options.progress) as show:
            faults = engine.score_units(job, todo, sink, show)
        counts = sink.counts
        counts.check(job.source.rows, job.source.name)
        engine.close()
        if changed := prepared.changed(sink.description):
            raise UncorkError(
                f"changed while rows were scored: {', '.join(changed)}; "
                "rows by the old and by the new could be mixed, and no output was made",
                job.model,
            )
        seconds = time.perf_counter() - started
        workers = min(engine.workers, max(1, len(todo)))
        summary = Summary(
            str(sink.target),
            kept,
            counts,
            resumed,
            len(units),
            seconds,
            workers,
            engine.replaced,
            job.on_error,
            tuple(faults[:5]),
        )
        sink.finish(summary.to_json())
        return summary
    except BaseException as error:
        engine.close()
        _stopped(error, sink, len(units))


def _stopped(error: BaseException, sink: Sink, units: int) -> NoReturn:
    """Raise the error that stopped a run again, with what is kept of the run."""
    done = sink.counts.rows
    note = "nothing was written"
    if sink.leave():
        note = (
            f"{len(sink.finished):,} of {units:,} parts ({done:,} rows) are kept in "
            f"{sink.folder}: the same with --resume goes on from there"
        )
    if sink.placed:
        note = f"the output is whole: {sink.target}"
    if isinstance(error, KeyboardInterrupt):
        raise ScoringInterrupted(f"interrupted; {note}") from None
    if isinstance(error, OSError):
        raise UncorkError(
            f"{error.strerror or error}; {note}", error.filename or str(sink.target)
        ) from None
    if isinstance(error, UncorkError) and len(error.problems) == 1:
        noted = f"{error.message}\n{note}"
        raise type(error)(noted, error.where, [replace(error.problems[0], message=noted)]) from None
    raise error


def __getattr__(name: str) -> Any:
    """The class `Scorer`, imported when it is first asked for, since it needs pyarrow."""
    if name != "Scorer":
        raise AttributeError(f"module 'uncork.score' has no attribute '{name}'")
    need_pyarrow()
    from uncork.score.scorer import Scorer

    return Scorer


class _Callable(types.ModuleType):
    """The type of this module, which is called as its function `score`."""

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return score(*arguments, **options)

    @property
    def __signature__(self) -> inspect.Signature:
        """The signature of `score`, which `help` and completion show of the module."""
        import inspect

        return inspect.signature(score)


sys.modules[__name__].__class__ = _Callable
