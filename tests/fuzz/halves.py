"""Random networks in bf16: convolutions, products, attention and what stands between them, held
against the same network in f32.

    python -m tests.fuzz.halves --count 1000 --seed 1

Every network is called with sizes that change from call to call, by one thread and by two, as a
model of these sizes alone, again, and on arrays that stay; all that may be rounded is, whether it
pays or not. What differs by more than rounding explains, or is computed by more references than in
f32, is a finding.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import sys
from collections.abc import Iterator, Sequence
from unittest import mock

import numpy as np

import uncork
from tests.fuzz.half_networks import Network, inputs
from tests.fuzz.opened_worker import answer
from uncork.ir.reshape import reshaped
from uncork.types import Array

#: The largest error, as a share of the results' root mean square: layers add theirs.
_MOST = 0.06


@contextlib.contextmanager
def everything_pays() -> Iterator[None]:
    """Round all that may be rounded."""
    with (
        mock.patch("uncork.passes.hold_halves._CONVERTED", 0.0),
        mock.patch("uncork.passes.block_choice._CONVERTED", 1e9),
    ):
        yield


def off_by(got: Array, right: Array) -> tuple[float, float]:
    """The root mean squares of a difference, and of what is right."""
    pair = got.astype(np.float64) - right, right.astype(np.float64)
    error, size = (float(np.sqrt(np.mean(x**2))) if x.size else 0.0 for x in pair)
    return error, size


def finding(seed: str) -> tuple[str, bool]:
    """What is wrong with the network of a seed, empty where nothing is; and whether any of its
    tensors was held as bf16.
    """
    made = Network(seed)
    model = made.model()
    with everything_pays():
        plain = uncork.compile_model(model, threads=1)
        rounded = [uncork.compile_model(model, precision="bf16", threads=n) for n in (1, 2)]
        for number in range(5):
            x = inputs(model, made.random, least=0 if number == 4 else 1)
            found = _differs(plain, rounded, x)
            if not found and number in (1, 3):
                sizes = reshaped(model, model.inputs, {0: x.shape})
                found = _differs(plain, [uncork.compile_model(sizes, precision="bf16")], x)
                found = found and f"of fixed sizes {found}"
            if found:
                return f"call {number} {x.shape}, {found}", True
        plans = [str(one.plan) for one in (plain, rounded[0])]
        by_reference = [re.findall(r"  reference  .*", plan) for plan in plans]
        if len(by_reference[0]) < len(by_reference[1]):
            return f"more references: {by_reference[1]}", True
        return "", "bf16[" in plans[1]


def _differs(plain: uncork.CompiledModel, rounded: Sequence[uncork.CompiledModel], x: Array) -> str:
    """What is wrong with a call in bf16, each of which must give the same once more, and on arrays
    that stay.
    """
    expected = answer(plain, [x])
    for compiled in rounded:
        first = answer(compiled, [x])
        if isinstance(expected, str) or isinstance(first, str):
            if expected != first:
                return f"{expected} and {first}"
            continue
        again = [answer(compiled, [x]), [np.array(y) for y in compiled.bind(x)()]]
        for number, (port, right, got) in enumerate(
            zip(plain.outputs, expected, first, strict=True)
        ):
            if got.shape != right.shape or got.dtype != right.dtype:
                return f"{port.name}: {got.dtype}{got.shape}"
            error, size = off_by(got, right)
            if not error <= _MOST * size + 1e-6:
                return f"{port.name}: {error / size:.1e}"
            for way, other in zip(("again", "bound"), again, strict=True):
                if not np.array_equal(got, other[number]):
                    return f"{port.name}: another result {way}"
    return ""


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", type=int, default=0)
    options = parser.parse_args(arguments)
    wrong = held = 0
    for number in range(options.start, options.start + options.count):
        found, halves = finding(f"{options.seed}:{number}")
        held += halves
        wrong += bool(found)
        if found:
            print(f"{options.seed}:{number} {found}", flush=True)
    print(f"{options.count} networks, {held} with tensors of bf16, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
