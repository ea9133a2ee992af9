"""Small models with faults planted into copies of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import uncork
from uncork.ir.model import Source

GENERATOR = np.random.default_rng(7)
FIRST = GENERATOR.standard_normal((6, 5)).astype(np.float32)
SECOND = GENERATOR.standard_normal((5, 4)).astype(np.float32)
X = GENERATOR.standard_normal((3, 2, 6)).astype(np.float32)


@dataclass(frozen=True)
class Parts:
    """What `network` is made of, so that one part can be another."""

    second: np.ndarray
    axis: int = -1
    prefix: str = ""
    order: tuple[int, ...] = (0, 2, 1)


def network(path: Path, change: Callable[[Parts], Parts] = lambda parts: parts) -> Path:
    """x f32[?,?,6] -> product, Relu, product, Softmax over `axis`, Transpose -> y, and the sum of
    all -> total.
    """
    parts = change(Parts(SECOND))
    builder = uncork.Builder("network")

    def layer(
        type_name: str, opset: int, *inputs: Source, name: str, **attributes: object
    ) -> Source:
        return builder.add(type_name, opset, *inputs, name=parts.prefix + name, **attributes)[0]

    x = builder.parameter("x", "f32", [None, None, 6])
    hidden = layer(
        "MatMul", 1, x, builder.constant(FIRST), name="first", transpose_a=False, transpose_b=False
    )
    active = layer("ReLU", 1, hidden, name="relu")
    product = layer(
        "MatMul",
        1,
        active,
        builder.constant(parts.second),
        name="second",
        transpose_a=False,
        transpose_b=False,
    )
    soft = layer("SoftMax", 8, product, name="soft", axis=parts.axis)
    turned = layer("Transpose", 1, soft, builder.constant(np.array(parts.order)), name="turned")
    builder.result(turned, "y")
    total = layer(
        "ReduceSum", 1, soft, builder.constant(np.array([1, 2])), name="sum", keep_dims=False
    )
    builder.result(total, "total")
    uncork.write_model(builder.model(), path)
    return path


def wrong_weight(parts: Parts) -> Parts:
    """One weight of the second product is another."""
    second = parts.second.copy()
    second[2, 1] += 0.25
    return Parts(second)


def wrong_axis(parts: Parts) -> Parts:
    """The softmax is over another axis."""
    return Parts(parts.second, axis=1)


def named_anew(change: Callable[[Parts], Parts] = lambda parts: parts) -> Callable[[Parts], Parts]:
    """Every layer has another name; tensors have none but the results."""

    def changed(parts: Parts) -> Parts:
        made = change(parts)
        return Parts(made.second, made.axis, "other/", made.order)

    return changed
