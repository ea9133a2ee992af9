"""Random numbers: other numbers than the IR's generators give, from the same distributions."""

from __future__ import annotations

from typing import Any

import numpy as np

from uncork.export.onnx.graph import I64, Graph, Tensor
from uncork.export.onnx.registry import lowers
from uncork.onnx.types import ONNX_TYPES
from uncork.ops.multinomial import Multinomial
from uncork.ops.random_uniform import RandomUniform
from uncork.types import ElementType

T = ElementType


def _seeded(g: Graph, op: RandomUniform | Multinomial) -> dict[str, Any]:
    """The seed attribute. Without seeds any numbers will do; with seeds the IR names the generator,
    which ONNX does not have.
    """
    if not op.global_seed and not op.op_seed:
        return {}
    g.approximate(f"{op.type_name} with seeds draws other numbers of the same distribution")
    return {"seed": float((op.global_seed * 31 + op.op_seed) % 2**24)}


def _uniform(g: Graph, shape: Tensor, element_type: ElementType, seed: dict[str, Any]) -> Tensor:
    """Uniform random numbers of [0, 1)."""
    like = g.op("Expand", g.constant(np.array(0, element_type.dtype)), shape)
    return g.op(
        "RandomUniformLike",
        like,
        dtype=ONNX_TYPES[element_type],
        low=0.0,
        high=1.0,
        type=element_type,
        **seed,
    )


@lowers("RandomUniform")
def random_uniform(g: Graph, op: RandomUniform, shape: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """Uniform random numbers of a range; integers are rounded down."""
    seed = _seeded(g, op)
    own = op.output_type
    wide = T.f32 if own in (T.f32, T.f16, T.bf16) else T.f64
    fraction = _uniform(g, g.vector(shape), wide, seed)
    least, most = (g.cast(g.scalar(t), wide) for t in (low, high))
    value = g.op("Add", g.op("Mul", fraction, g.op("Sub", most, least)), least)
    if own.is_integer:
        value = g.op("Floor", value)
    return g.cast(value, own)


@lowers("Multinomial")
def multinomial(g: Graph, op: Multinomial, probs: Tensor, num_samples: Tensor) -> Tensor:
    """Draws by the Gumbel-max trick: the largest of the logarithms with Gumbel noise is a draw, the
    k largest are k draws without replacement.
    """
    seed = _seeded(g, op)
    logits = g.cast(probs, T.f64) if op.log_probs else g.op("Log", g.cast(probs, T.f64))
    count = g.vector(num_samples)
    if not op.with_replacement:
        noisy = g.op("Sub", logits, _gumbel(g, g.op("Shape", probs, type=I64), seed))
        chosen = g.ops("TopK", noisy, count, types=[None, I64], axis=1, largest=1, sorted=1)[1]
        return g.cast(chosen, op.convert_type)
    shape = g.concat([g.dim(probs, 0), count, g.dim(probs, 1)])
    noisy = g.op("Sub", g.op("Unsqueeze", logits, [1]), _gumbel(g, shape, seed))
    return g.cast(g.op("ArgMax", noisy, axis=2, keepdims=0), op.convert_type)


def _gumbel(g: Graph, shape: Tensor, seed: dict[str, Any]) -> Tensor:
    """Negated Gumbel noise, ln(-ln(u)), which is subtracted."""
    small = g.constant(np.float64(1e-300))
    uniform = g.op("Add", _uniform(g, shape, T.f64, seed), small)
    return g.op("Log", g.op("Neg", g.op("Log", uniform)))
