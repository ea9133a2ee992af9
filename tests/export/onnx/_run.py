"""Models of one layer, and an exported model run by onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import uncork
from tests.samples._sample import Case
from uncork.ir.model import Model
from uncork.ops import Operation
from uncork.types import ElementType

#: Types that NumPy has, so that onnxruntime can be given arrays of them.
FED = {t for t in ElementType if t.is_native or t is ElementType.string}


def one_layer(
    operation: type[Operation], case: Case, constants: bool, dynamic: bool
) -> tuple[Model, dict[str, Any]] | None:
    """A model of one layer and what to feed it. `constants`: small integers after the first input
    are constants.

    None where an input is left out between others, which the format cannot say.
    """
    builder, inputs, feeds = uncork.Builder("one"), [], {}
    for position, spec in enumerate(case.specs()):
        if spec is None:
            return None
        value = spec.value
        small = spec.element_type.is_integer and value.size <= 4096
        if spec.element_type not in FED or (constants and position > 0 and small):
            inputs.append(builder.constant(value, spec.element_type))
            continue
        name = f"in{position}"
        inputs.append(
            builder.parameter(
                name, spec.element_type, [None] * value.ndim if dynamic else list(value.shape)
            )
        )
        feeds[name] = value
    for position, output in enumerate(
        builder.add(operation.type_name, operation.opset, *inputs, **case.attributes)
    ):
        builder.result(output, f"out{position}")
    return builder.model(), feeds


def session(proto: Any) -> Any:
    """The checked model in onnxruntime."""
    import onnx
    import onnxruntime

    onnx.checker.check_model(proto, full_check=True)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(
        proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def run(proto: Any, feeds: Mapping[str, Any] | Sequence[Any]) -> list[Any]:
    """The outputs, in order, of inputs by name or in order."""
    ready = session(proto)
    if not isinstance(feeds, Mapping):
        feeds = {port.name: value for port, value in zip(ready.get_inputs(), feeds, strict=True)}
    return [np.asarray(value) for value in ready.run(None, dict(feeds))]
