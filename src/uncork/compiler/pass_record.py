"""The record of what the passes do to a model, without compiling it."""

from __future__ import annotations

from uncork.compiler.execute import kernel_target
from uncork.errors import UncorkError
from uncork.ir.model import Model
from uncork.ir.symbols import infer_symbolic
from uncork.kernels.select import unavailable
from uncork.passes import pipeline
from uncork.passes.pipeline import Applied


def pass_record(model: Model) -> tuple[list[Applied], str]:
    """What each pass did to a checked model, for this machine, in order.

    Beside it, why the passes that need sizes did not run; empty when they did. Sub-graphs go
    through the same passes when their layer is compiled and are not in the record.
    """
    record: list[Applied] = []
    options = pipeline.Options(kernel_target())
    model = pipeline.apply_passes(pipeline.AS_READ, model, options, record)
    if options.target is None:
        return record, f"{unavailable()}: references run the layers as they are"
    model = pipeline.apply_passes(pipeline.ON_LOAD, model, options, record)
    try:
        model, _ = infer_symbolic(model)
    except UncorkError as error:
        return record, f"sizes are not known before a call: {error}"
    pipeline.apply_passes(pipeline.WITH_SIZES, model, options, record)
    return record, ""
