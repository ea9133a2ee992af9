"""Einsum-7. The numbered examples are those of the specification page."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import strategies as st

from tests.samples._arrays import arrays
from tests.samples._elementwise import NUMBERS, numbers, of_type
from tests.samples._sample import Case, Refusal, Sample, Samples
from uncork.ops.einsum import Einsum

SQUARE = np.arange(1, 10, dtype=np.float32).reshape(3, 3)
TWO = np.stack([SQUARE, 2 * SQUARE])


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def example(name, equation, inputs, output, openvino=""):
    return Sample(
        name,
        [np.asarray(a, np.float32) for a in inputs],
        [np.array(output, np.float32)],
        {"equation": equation},
        openvino=openvino,
    )


EXAMPLES = [
    example("page example 1: inner product", "i,i->", [f32(1, 2, 3), f32(4, 5, 6)], 32),
    example(
        "page example 2: matrix and vector",
        "ij,j->i",
        [np.stack([f32(1, 2, 3)] * 2), f32(4, 5, 6)],
        [32, 32],
    ),
    example("page example 3: traces", "kii->k", [TWO], [15, 30]),
    example("page example 4: diagonals", "kii->ki", [TWO], [[1, 5, 9], [2, 10, 18]]),
    example(
        "page example 5: transposed",
        "ijk->kij",
        [SQUARE[None]],
        [[[1, 4, 7]], [[2, 5, 8]], [[3, 6, 9]]],
    ),
    example("page example 6: an ellipsis", "a...->...", [SQUARE], [12, 15, 18]),
    example(
        "page example 7: two operands stretch", "a...,...->a...", [SQUARE, f32(0.5)], SQUARE / 2
    ),
    example(
        "page example 8: implicit, capitals first",
        "AbC",
        [SQUARE[None, :2]],
        [[[1, 4], [2, 5], [3, 6]]],
    ),
    example(
        "page: implicit, repeated labels are summed",
        "dbbc,ca",
        [np.ones((1, 2, 2, 3)), np.ones((3, 2))],
        [[6], [6]],
        "OpenVINO fails to compile it",
    ),
    example(
        "implicit: the ellipsis first",
        "b...a",
        [np.arange(6).reshape(1, 3, 2)],
        [[[0], [1]], [[2], [3]], [[4], [5]]],
    ),
    example("blanks", " i j , j k -> i k ", [SQUARE, np.eye(3)], SQUARE, "OpenVINO refuses blanks"),
    example("scalars", ",->", [np.float32(2), np.float32(3)], 6),
    example(
        "a label of size 1 stretches",
        "ij,ij->ij",
        [SQUARE, f32(1, 2, 3)[:, None]],
        SQUARE * f32(1, 2, 3)[:, None],
    ),
    example("an ellipsis that is left out is summed", "a...->a", [TWO], [45, 90]),
    example("nothing", "ij,jk->ik", [np.zeros((2, 0)), np.zeros((0, 2))], np.zeros((2, 2))),
    Sample(
        "u8 wraps",
        [np.array([16, 16], np.uint8), np.array([16, 1], np.uint8)],
        [np.array(16, np.uint8)],
        {"equation": "i,i->"},
        openvino="OpenVINO takes floats only",
    ),
]


def refusal(name, equation, inputs, message):
    return Refusal(name, inputs, message, {"equation": equation})


MANY = "abcdefghijklmnopqrstuvwxyzABCDEF,GHIJKLMNOPQRSTUVWXYZ...->"
REFUSALS = [
    refusal("unknown output label", "ij->ik", [SQUARE], "'k' of the output is in no input"),
    refusal(
        "unknown output ellipsis", "ij->...", [SQUARE], r"'\.\.\.' of the output is in no input"
    ),
    refusal("a label twice in the output", "ij->ii", [SQUARE], "'i' comes twice in the output"),
    refusal("a digit", "i1->i", [SQUARE], r"expected letters and at most one '\.\.\.' in 'i1'"),
    refusal(
        "too many dimensions", MANY, [np.zeros((1,) * 32)] * 2, "more than 52 different dimensions"
    ),
    refusal(
        "two arrows", "i->i->i", [SQUARE], r"expected letters and at most one '\.\.\.' in 'i->i'"
    ),
    refusal(
        "two ellipses",
        "......->...",
        [SQUARE],
        r"expected letters and at most one '\.\.\.' in '\.\.\.\.\.\.'",
    ),
    refusal(
        "a lonely dot", "i.j->i", [SQUARE], r"expected letters and at most one '\.\.\.' in 'i\.j'"
    ),
    refusal("number of inputs", "ij,jk->ik", [SQUARE], "expected 2 inputs, got 1"),
    refusal("rank", "ijk->i", [SQUARE], r"input 0 has shape \[3,3\], which 'ijk' does not cover"),
    refusal(
        "rank below the ellipsis",
        "ijk...->i",
        [SQUARE],
        r"input 0 has shape \[3,3\], which 'ijk\.\.\.' does not cover",
    ),
    refusal(
        "a repeated label does not stretch",
        "ii->i",
        [SQUARE[:1]],
        r"the dimensions 'i' of input 0 differ: \[1,3\]",
    ),
    refusal("sizes", "ij,jk->ik", [SQUARE, SQUARE[:2]], "'j' is 3 before and 2 in input 1"),
    refusal(
        "sizes under the ellipsis",
        "...,...->...",
        [SQUARE, SQUARE[:2]],
        r"'\.\.\.' is 3 before and 2 in input 1",
    ),
    Refusal("no equation", [SQUARE], "attribute 'equation' is missing: expected text"),
    Refusal(
        "unequal types",
        [SQUARE, SQUARE.astype(np.float64)],
        r"expected f32 as 'operands' has, got f64",
        {"equation": "ij,ij->i"},
    ),
]
SIZES = {"a": 2, "b": 3, "C": 1, "d": 2}


@st.composite
def cases(draw: st.DrawFn) -> Case:
    under = draw(st.lists(st.integers(0, 3), max_size=2))
    subscripts, operands, ellipses, name = [], [], 0, ""
    for _ in range(draw(st.integers(1, 3))):
        labels = draw(st.lists(st.sampled_from("abCd"), max_size=3))
        shape = [
            1 if labels.count(c) == 1 and draw(st.integers(0, 5)) == 0 else SIZES[c] for c in labels
        ]
        if draw(st.booleans()):
            at = draw(st.integers(0, len(labels)))
            covered = under[draw(st.integers(0, len(under))) :]
            shape[at:at] = [1 if draw(st.integers(0, 3)) == 0 else d for d in covered]
            labels.insert(at, "...")
            ellipses += 1
        data, name = draw(arrays(tuple(shape), (name,) if name else NUMBERS, -2, 2))
        subscripts.append("".join(labels))
        operands.append(data)
    equation = ",".join(subscripts)
    if draw(st.booleans()):
        known = sorted({c for c in equation if c.isalpha()})
        output = draw(st.lists(st.sampled_from(known), unique=True)) if known else []
        if ellipses:
            output.insert(draw(st.integers(0, len(output))), "...")
        equation += "->" + "".join(output)
    return Case(operands, {"equation": equation}, [name] * len(operands))


def loop(case: Case) -> list[np.ndarray]:
    left, arrow, right = case.attributes["equation"].partition("->")
    operands = [numbers(a, t) for a, t in zip(case.inputs, case.types, strict=True)]
    dims: list[list[str]] = []
    for subscript, operand in zip(left.split(","), operands, strict=True):
        letters = [c for c in subscript if c.isalpha()]
        covered = operand.ndim - len(letters)
        at = subscript.index("...") if "..." in subscript else 0
        dims.append([*letters[:at], *(f"#{covered - i}" for i in range(covered)), *letters[at:]])
    hidden = sorted({n for names in dims for n in names if n[0] == "#"}, reverse=True)
    if not arrow:
        once = sorted(c for c in set(left) if c.isalpha() and left.count(c) == 1)
        wanted = hidden + once
    else:
        at = right.index("...") if "..." in right else 0
        letters = [c for c in right if c.isalpha()]
        wanted = [*letters[:at], *hidden, *letters[at:]]
    sizes: dict[str, int] = {}
    for names, operand in zip(dims, operands, strict=True):
        for name, size in zip(names, operand.shape, strict=True):
            sizes[name] = size if sizes.get(name, 1) == 1 else sizes[name]
    summed = [n for n in sizes if n not in wanted]
    values = []
    for outer in itertools.product(*(range(sizes[n]) for n in wanted)):
        total = 0
        for inner in itertools.product(*(range(sizes[n]) for n in summed)):
            place = dict(zip([*wanted, *summed], [*outer, *inner], strict=True))
            product = 1
            for names, operand in zip(dims, operands, strict=True):
                product = (
                    product
                    * operand[
                        tuple(
                            0 if size == 1 else place[n]
                            for n, size in zip(names, operand.shape, strict=True)
                        )
                    ]
                )
            total += product
        values.append(total)
    return [of_type(values, [sizes[n] for n in wanted], case.types[0])]


SAMPLES = [Samples(Einsum, EXAMPLES, REFUSALS, cases(), loop)]
