"""Makes random chains of decompression, as converters and people might write them, and holds what
products and look-ups make of them to NumPy, which takes the same steps one after the other.

    python -m tests.fuzz.chains --count 5000 --seed 1
    python -m tests.fuzz.chains --seed 1 --only 17 --target x86-64-v2

Codes of every stored type, zero points, tables and scales; Reshape, Squeeze, Unsqueeze, Transpose
and Convert wherever they may stand. The bounds follow from what each option may round.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

import uncork
from uncork import storage
from uncork.internal_ops.compressed_linear import CompressedLinear, FusedCompressedLinear
from uncork.internal_ops.quantized_lookup import CompressedGather
from uncork.ir.build import Builder
from uncork.ir.model import Source
from uncork.types import ElementType

STORED = (
    *("u4", "u4", "u4", "i4", "u8", "i8", "u2", "u3", "u6", "u1"),
    *("nf4", "f4e2m1", "f8e4m3", "f8e5m2", "f16", "bf16"),
)
WHOLE = ("u4", "i4", "u8", "i8", "u2", "u3", "u6", "u1")
#: Half a unit of the whole numbers that rows are rounded to, of the largest of a run.
UNITS = {"f32": 2.0**-23, "i16": 2.0**-15, "i8": 2.0**-7}
READING = (CompressedLinear, FusedCompressedLinear, CompressedGather)
ROUNDED_F32, ROUNDED_F16 = 2.0**-24, 2.0**-11


class Chain:
    """A tensor of numbers that layers compute of codes: the layers in a builder, and beside them
    the numbers as those layers round them (`value`) and without any rounding (`exact`).

    `axes` are the letters of the dimensions, "1" for one of size 1 alone.
    """

    def __init__(self, seed: str) -> None:
        self.random = random.Random(seed)
        self.builder = Builder(seed)
        self.generator = np.random.default_rng(self.random.randrange(2**32))
        pick = self.random.choice
        self.experts = self.random.random() < 0.25
        group = pick((4, 8, 16, 32, 40, 56, 64, 64, 128, 1, 2, 3, 6, 5, 12))
        groups = pick((1, 1, 2, 3, 5, 8))
        self.sizes = {"e": pick((2, 3, 5)), "g": groups, "s": group}
        least = 4200 // (groups * group * (self.sizes["e"] if self.experts else 1)) + 1
        self.sizes["n"] = least + self.random.randrange(40)
        self.stored = pick(STORED)
        self.axes = ["n", "g", "s"]
        if self.random.random() < 0.7:
            self.random.shuffle(self.axes)
        if self.experts:
            self.axes.insert(0 if self.random.random() < 0.7 else self.random.randrange(4), "e")
        self.said: list[str] = [self.stored, str(self.sizes), "".join(self.axes)]
        self.source: Source
        self.value: np.ndarray
        self.type = self.stored
        #: How large what each number is the sum of may be: nothing before it is scaled.
        self.size: np.ndarray | None = None
        self._codes()
        self._decoded()

    # ---- steps

    def _codes(self) -> None:
        shape = tuple(self.sizes[axis] for axis in self.axes)
        self.source, self.value = self._small(self.stored, shape)
        if self.stored == "i8" and self.random.random() < 0.3:
            self._moves()
            operand = self._shape_of_operand()
            points = self.generator.integers(-8, 8, operand).astype(np.int8)
            # within i8, as converters write it
            self._layer("Subtract", 1, self.builder.constant(points))
            self.value = (self.value.astype(np.int8) - points).astype(np.int8)
            self.said.append(f"i8 - {operand}")

    def _small(self, stored: str, shape: tuple[int, ...]) -> tuple[Source, np.ndarray]:
        """A constant of any codes that are finite numbers, and what those are."""
        kind = ElementType.parse(stored)
        if stored in ("f16", "bf16"):
            numbers = self.generator.standard_normal(shape).astype(np.float32)
            codes = storage.encode(numbers, kind)
        else:
            codes = self.generator.integers(0, 1 << kind.bits, shape).astype(np.uint8)
            if stored.startswith("f8"):
                codes &= 0xB7
                if self.random.random() < 0.2:  # with a NaN, where the type has one
                    codes.reshape(-1)[0] = 0x7F
            if stored == "i8":
                codes = (codes >> 1).astype(np.int8) - np.int8(60)
            if stored == "i4":
                codes = (codes.astype(np.int8) ^ 8) - np.int8(8)
        value = storage.decode(codes, kind)
        return self.builder.constant(codes, stored), value

    def _decoded(self) -> None:
        self._moves()
        whole = self.stored in WHOLE
        if self.stored in ("u4", "u2", "u3", "u6", "u8") and self.random.random() < 0.25:
            to = self.random.choice(("f16", "f32"))
            count = max(16, 1 << ElementType.parse(self.stored).bits)
            numbers = np.sort(self.generator.standard_normal(count)).astype(np.float32)
            kind = np.float16 if to == "f16" else np.float32
            table = numbers.astype(kind)
            self._layer("Convert", 1, destination_type=self.random.choice(("u8", "i32")))
            zero = self.builder.constant(np.int64(0))
            (self.source,) = self.builder.add(
                "Gather", 8, self.builder.constant(table), self.source, zero
            )
            self.value = table[self.value.astype(np.int64)]
            self.exact = self.value.astype(np.float64)
            self.said.append(f"table of {to}")
        else:
            to = "f32" if self.stored in ("bf16",) else self.random.choice(("f16", "f32"))
            if to != self.stored:
                self._layer("Convert", 1, destination_type=to)
            self.said.append(f"Convert {to}")
            self.value = self.value.astype(np.float16 if to == "f16" else np.float32)
            self.exact = self.value.astype(np.float64)
        self.type = to
        self._moves()
        if whole and self.random.random() < 0.6:
            self._operand("Subtract", self.random.choice(("u8", self.stored, "f")))
        for _ in range(self.random.choice((0, 1, 1, 1, 2, 3))):
            self._moves()
            # zero points behind scales, too
            self._operand("Subtract" if self.random.random() < 0.15 else "Multiply", "f")
        self._moves()
        self._convert(1.0)

    def _convert(self, chance: float) -> None:
        """From f16 to f32."""
        if self.type == "f16" and self.random.random() < chance:
            self._layer("Convert", 1, destination_type="f32")
            self.type = "f32"
            self.value = self.value.astype(np.float32)
            self.said.append("Convert f32")

    def _shape_of_operand(self) -> tuple[int, ...]:
        """A shape that broadcasts: groups vary, places in a group seldom do."""
        shape = [
            1 if axis == "1" or self.random.random() < (0.94 if axis == "s" else 0.3) else size
            for axis, size in zip(self.axes, self.value.shape, strict=True)
        ]
        while shape and shape[0] == 1 and self.random.random() < 0.5:
            del shape[0]
        return tuple(shape)

    def _operand(self, type_name: str, kind: str) -> None:
        shape = self._shape_of_operand()
        if kind == "f":
            low, high = (-4, 20) if type_name == "Subtract" else (0.25, 2)
            numbers = self.generator.uniform(low, high, shape)
            made = numbers.astype(np.float16 if self.type == "f16" else np.float32)
            operand, number = self.builder.constant(made), made
        else:
            operand, number = self._small(kind, shape)
            (operand,) = self.builder.add("Convert", 1, operand, destination_type=self.type)
        exact = np.asarray(number, np.float64)
        wide, other = self.value.astype(np.float32), np.asarray(number, np.float32)
        first, second = self.source, operand
        if type_name == "Multiply" and self.random.random() < 0.3:
            first, second = second, first
        (self.source,) = self.builder.add(type_name, 1, first, second)
        if type_name == "Subtract":
            self.exact, rounded = self.exact - exact, wide - other
            if self.size is not None:
                self.size = self.size + np.abs(exact)
        else:
            size = np.abs(self.exact) if self.size is None else self.size
            self.size = size * np.abs(exact)
            self.exact, rounded = self.exact * exact, wide * other
        self.value = rounded.astype(self.value.dtype)
        self.said.append(f"{type_name} {kind} {shape}")
        self._convert(0.15)

    def _layer(self, type_name: str, opset: int, *inputs: Source, **attributes: Any) -> None:
        (self.source,) = self.builder.add(type_name, opset, self.source, *inputs, **attributes)

    # ---- moves

    def _moves(self) -> None:
        while self.random.random() < 0.3:
            self.random.choice((self._transpose, self._unsqueeze, self._squeeze))()

    def _vector(self, numbers: Sequence[int]) -> Source:
        return self.builder.constant(np.array(numbers, np.int64))

    def _moved(self, change: Any) -> None:
        self.value = change(self.value)
        if hasattr(self, "exact"):
            self.exact = change(self.exact)
        if self.size is not None:
            self.size = change(self.size)

    def _transpose(self, order: Sequence[int] | None = None) -> None:
        if order is None:
            order = self.random.sample(range(len(self.axes)), len(self.axes))
        self._layer("Transpose", 1, self._vector(order))
        self.axes = [self.axes[i] for i in order]
        self._moved(lambda x: x.transpose(order))
        self.said.append(f"Transpose {list(order)}")

    def _unsqueeze(self) -> None:
        if len(self.axes) > 5:
            return
        place = self.random.randrange(len(self.axes) + 1)
        self._layer("Unsqueeze", 1, self._vector([place]))
        self.axes.insert(place, "1")
        self._moved(lambda x: np.expand_dims(x, place))
        self.said.append(f"Unsqueeze {place}")

    def _squeeze(self) -> None:
        if "1" not in self.axes:
            return
        place = self.axes.index("1")
        self._layer("Squeeze", 1, self._vector([place]))
        del self.axes[place]
        self._moved(lambda x: x.squeeze(place))
        self.said.append(f"Squeeze {place}")

    def joined(self, order: str) -> None:
        """The axes in this order, groups and places in them as one dimension."""
        while "1" in self.axes:
            self._squeeze()
        wanted = list(order.replace("k", "gs"))
        if self.axes != wanted:
            self._transpose([self.axes.index(axis) for axis in wanted])
        sizes = {**self.sizes, "k": self.sizes["g"] * self.sizes["s"]}
        shape = [sizes[axis] for axis in order]
        self._layer("Reshape", 1, self._vector(shape), special_zero=False)
        self._moved(lambda x: x.reshape(shape))
        self.axes = list(order)
        self.said.append(f"Reshape {order}")


class Case:
    """A chain, and a model in which a product and a look-up read it."""

    def __init__(self, seed: str, target: str | None = None) -> None:
        self.chain = chain = Chain(seed)
        pick = chain.random.choice
        lead = "e" if chain.experts else ""
        self.turned = pick((True, True, False))
        chain.joined(lead + ("nk" if self.turned else "kn"))
        builder = chain.builder
        inner = chain.sizes["g"] * chain.sizes["s"]
        experts = chain.sizes["e"]
        self.multiplies = pick((True, True, True, False))
        self.looks_up = not self.multiplies or chain.random.random() < 0.3
        self.chosen: list[int] | None = None
        matrix = chain.source
        if self.multiplies and lead and chain.random.random() < 0.5:
            self.chosen = pick(([], [1], [3]))
            index = builder.parameter("chosen", pick(("i64", "i32")), self.chosen)
            zero = builder.constant(np.int64(0))
            (matrix,) = builder.add("Gather", 8, matrix, index, zero)
        if self.multiplies:
            count = self.chosen if self.chosen is not None else [experts] if lead else []
            self.data: list[int | None] = [*pick((count, [])), pick((None, 1, 3, 17)), inner]
            alone = len(self.data) == 2 and not lead
            self.first = alone and random.Random(f"{seed} first").random() < 0.2
            x = builder.parameter("x", "f32", self.data[::-1] if self.first else self.data)
            if self.first:
                (y,) = builder.add("MatMul", 1, matrix, x, transpose_a=not self.turned)
                chain.said.append("weights first")
            else:
                (y,) = builder.add("MatMul", 1, x, matrix, transpose_b=self.turned)
            if chain.random.random() < 0.3:
                (y,) = builder.add("Swish", 4, y)
                y = builder.add("Add", 1, y, builder.constant(np.float32(0)))[0]
                self.ends = True
            else:
                self.ends = False
            builder.result(y, "y")
        if self.looks_up:
            ids = builder.parameter("ids", "i64", [None])
            (rows,) = builder.add("Gather", 8, chain.source, ids, builder.constant(np.int64(0)))
            builder.result(rows, "rows")
        whole = chain.stored in WHOLE
        self.options: dict[str, Any] = {
            "decompression": pick(("as-written", "f32")),
            "activations": pick(("f32", "i16", "i8")) if whole else "f32",
            "threads": pick((1, 2)),
            "target": target,
        }

    def __str__(self) -> str:
        return "\n".join([*self.chain.said, str(self.options), str(vars(self).get("data"))])

    def check(self) -> tuple[str, bool]:
        """What is wrong, nothing where all is right; whether all read what is stored."""
        chain = self.chain
        compiled = uncork.compile_model(chain.builder.model(), **self.options)
        for rows in (1, 2, 5, 17, 0, 67):
            inputs: dict[str, np.ndarray] = {}
            if self.multiplies:
                shape = [rows if size is None else size for size in self.data]
                inputs["x"] = chain.generator.standard_normal(shape).astype(np.float32)
            if self.chosen is not None:
                first = chain.sizes["e"]
                inputs["chosen"] = chain.generator.integers(-first, first, self.chosen)
                port = next(p for p in compiled.inputs if p.name == "chosen")
                inputs["chosen"] = inputs["chosen"].astype(port.element_type.dtype)
            if self.looks_up:
                size = chain.value.shape[0]
                inputs["ids"] = chain.generator.integers(-size, size, rows + 3 if rows else 0)
            given = dict(inputs)
            if self.multiplies and self.first:
                given["x"] = np.ascontiguousarray(inputs["x"].T)
            results = {name: np.asarray(array) for name, array in compiled(given).items()}
            if self.multiplies and self.first:
                results["y"] = results["y"].T
            if self.multiplies and (wrong := self._product(inputs, results["y"])):
                return f"{rows} rows: {wrong}", False
            if self.looks_up and (wrong := self._rows(inputs["ids"], results["rows"])):
                return f"{rows} ids: {wrong}", False
        left = [step.reason for step in compiled.plan.steps if step.kernel == "reference"]
        operations = [node.operation for node in compiled.executor.prepared.nodes]
        reading = [op for op in operations if type(op) in READING]
        stored = len(reading) == self.multiplies + self.looks_up
        made = "" if stored else f"made: {[type(op).__name__ for op in operations]}"
        return f"left to references: {left}" if left else made, stored

    def _numbers(self) -> tuple[np.ndarray, np.ndarray]:
        """The matrix, and by how much each number of it may be off."""
        as_written = self.chain.value.astype(np.float64)
        exact = self.chain.exact
        # Products join scales, whatever is subtracted behind them.
        size = np.abs(exact) if self.chain.size is None else self.chain.size
        if self.options["decompression"] == "as-written":
            return as_written, size * (4 * ROUNDED_F32)
        # f32 drops roundings where products know how: both are right.
        return exact, np.abs(exact - as_written) + size * (4 * ROUNDED_F32)

    def _product(self, inputs: dict[str, np.ndarray], got: np.ndarray) -> str:
        matrix, off = self._numbers()
        if self.chosen is not None:
            matrix, off = matrix[inputs["chosen"]], off[inputs["chosen"]]
        if self.turned:
            matrix, off = matrix.swapaxes(-1, -2), off.swapaxes(-1, -2)
        x = inputs["x"].astype(np.float64)
        size = np.abs(x)
        expected = x @ matrix
        terms = size @ np.abs(matrix)
        unit = size.max(axis=-1, keepdims=True) * UNITS[self.options["activations"]]
        # zero points are taken off sums: what they add counts, too
        sums = np.abs(matrix).sum(axis=-2, keepdims=True)
        bound = size @ off + unit * sums + terms * ROUNDED_F32 * (8 + x.shape[-1] / 8)
        bound = bound + self._cancelled(size, unit)
        if self.ends:
            swish = expected / (1 + np.exp(-np.maximum(expected, -700)))
            expected, bound = swish, bound * 1.1 + np.abs(swish) * 1e-5
        if got.shape != expected.shape:
            return f"shape {got.shape}, expected {expected.shape}"
        none = np.isnan(expected)
        if not np.array_equal(none, np.isnan(got)):
            return f"{np.isnan(got).sum()} numbers are NaN, expected {none.sum()}"
        got, expected, bound = (np.where(none, 0, x) for x in (got, expected, bound))
        beyond = np.abs(got - expected) - bound
        if (beyond > 1e-30).any() or not np.isfinite(got).all():
            worst = np.unravel_index(np.argmax(beyond), beyond.shape)
            return f"at {worst} got {got[worst]}, expected {expected[worst]}, bound {bound[worst]}"
        return ""

    def _cancelled(self, size: np.ndarray, unit: np.ndarray) -> Any:
        """What zero points taken off sums may add: codes are multiplied before they are."""
        if self.chain.stored not in WHOLE:
            return 0.0
        largest = 256.0 * np.abs(self.chain.value).max()
        return size.sum(axis=-1, keepdims=True) * largest * ROUNDED_F32 * 0.02 + unit * 0

    def _rows(self, ids: np.ndarray, got: np.ndarray) -> str:
        expected = self.chain.value.astype(np.float32)[ids]
        if got.shape != expected.shape:
            return f"shape {got.shape}, expected {expected.shape}"
        if not np.array_equal(got, expected, equal_nan=True):
            worst = np.unravel_index(np.argmax(np.abs(got - expected)), got.shape)
            return f"row at {worst}: got {got[worst]!r}, expected {expected[worst]!r}"
        return ""


def fuzz(
    seed: int | str, numbers: Sequence[int], target: str | None = None
) -> tuple[Counter[str], list[str]]:
    """Try the numbered chains, by kernels of a target: how many read what is stored, and what is
    wrong.
    """
    outcomes: Counter[str] = Counter()
    findings: list[str] = []
    for number in numbers:
        case = Case(f"{seed}:{number}", target)
        try:
            wrong, stored = case.check()
        except Exception as error:  # whatever it is, it is a finding
            wrong, stored = f"{type(error).__name__}: {error}", False
        outcomes["stored" if stored else "made"] += 1
        outcomes[case.chain.stored] += stored
        if wrong:
            findings.append(f"{number}: {wrong}\n{case}")
    return outcomes, findings


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--only", type=int)
    parser.add_argument("--target", help="a level, such as x86-64-v2")
    given = parser.parse_args()
    numbers = range(given.count) if given.only is None else [given.only]
    if given.only is not None:
        print(Case(f"{given.seed}:{given.only}"))
    outcomes, findings = fuzz(given.seed, numbers, given.target)
    print(dict(outcomes))
    print("\n\n".join(findings) or "nothing wrong")


if __name__ == "__main__":
    main()
