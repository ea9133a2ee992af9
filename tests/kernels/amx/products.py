"""Cases of TDPBF16PS: which numbers come out."""

from __future__ import annotations

import itertools

import numpy as np

from tests.kernels.amx.case import FULL, bits_of, case, integers, paired, random, steps
from tests.kernels.amx.machine_code import configuration


def dot(c: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """c + a b by one instruction. All are f32, a and b such that they are bf16 as well."""
    result = np.ascontiguousarray(c, np.float32).copy()
    shapes = configuration(
        (len(a), 4 * b.shape[1]), (len(a), 2 * a.shape[1]), (len(b) // 2, 4 * b.shape[1])
    )
    steps().configure(shapes).load(0, result).load(1, bits_of(a)).load(2, paired(b)).dot(
        0, 1, 2
    ).store(0, result).release().run()
    return result


def dot_of(c: float, *pairs: tuple[float, float]) -> np.ndarray:
    """One number: c + the sum of products. The even places of `pairs` are summed apart from the odd
    ones.
    """
    padded = [*pairs, (0.0, 0.0)] if len(pairs) % 2 else pairs
    a, b = np.array(padded, np.float32).T
    return dot(np.array([[c]], np.float32), a.reshape(1, -1), b.reshape(-1, 1))[0, 0]


@case
def full_tiles() -> None:
    a, b, c = integers(16, 32), integers(32, 16), integers(16, 16)
    assert dot(c, a, b).tolist() == (c.astype(int) + a.astype(int) @ b.astype(int)).tolist()


@case
def every_tile_in_every_place() -> None:
    for tiles in itertools.permutations(range(8), 3):
        a, b, c = integers(16, 32), integers(32, 16), integers(16, 16)
        factors = [bits_of(a), paired(b)]
        after = [np.zeros_like(f) for f in factors]
        result = np.zeros((16, 16), np.float32)
        s = (
            steps()
            .configure(FULL)
            .load(tiles[0], c)
            .load(tiles[1], factors[0])
            .load(tiles[2], factors[1])
            .dot(*tiles)
        )
        s.store(tiles[1], after[0]).store(tiles[2], after[1]).store(
            tiles[0], result
        ).release().run()
        assert (result == c.astype(int) + a.astype(int) @ b.astype(int)).all(), tiles
        assert all((left == right).all() for left, right in zip(factors, after, strict=True)), tiles


@case
def parts_of_tiles() -> None:
    """Some rows, some columns, some pairs; memory around what is stored stays."""
    for rows, columns, pairs in itertools.product((1, 2, 15, 16), (1, 7, 16), (1, 3, 16)):
        a, b, c = integers(rows, 2 * pairs), integers(2 * pairs, columns), integers(rows, columns)
        memory = np.full((rows, 4 * columns + 13), 0xA5, np.uint8)  # an odd distance
        memory[:, 3:-10] = c.view(np.uint8).reshape(rows, -1)
        left = np.full((rows, 4 * pairs + 5), 0xFF, np.uint8)  # NaN wherever it must not be read
        left[:, : 4 * pairs] = bits_of(a).view(np.uint8)
        place = memory[:, 3:]
        s = steps().configure(
            configuration((rows, 4 * columns), (rows, 4 * pairs), (pairs, 4 * columns))
        )
        s.load(0, place).load(1, left).load(2, paired(b)).dot(0, 1, 2).store(
            0, place
        ).release().run()
        expected = (c.astype(int) + a.astype(int) @ b.astype(int)).astype(np.float32)
        assert (memory[:, 3:-10] == expected.view(np.uint8).reshape(rows, -1)).all(), (
            rows,
            columns,
            pairs,
        )
        assert (memory[:, :3] == 0xA5).all() and (memory[:, -10:] == 0xA5).all()


@case
def sums_over_several_products() -> None:
    a, b = (random.standard_normal((16, 320)), random.standard_normal((320, 16)))
    a, b = ((x.astype(np.float32).view(np.uint32) & 0xFFFF0000).view(np.float32) for x in (a, b))
    c, result = integers(16, 16), np.zeros((16, 16), np.float32)
    s = steps().configure(FULL).load(0, c)
    for k in range(0, 320, 32):
        s.load(1, bits_of(a[:, k : k + 32])).load(2, paired(b[k : k + 32])).dot(0, 1, 2)
    s.store(0, result).release().run()
    exact = c.astype(float) + a.astype(float) @ b.astype(float)
    size = np.abs(c) + np.abs(a).astype(float) @ np.abs(b).astype(float)
    assert (np.abs(result - exact) <= 64 * 2.0**-24 * size).all()
    assert not (np.abs(result - exact) == 0).all(), "f32 rounds"


@case
def the_order_of_sums() -> None:
    """Even and odd products apart, then together, then to c; each step rounded. Sums of doubles are
    exact at these exponents.
    """
    a, b = (
        random.integers(128, 256, shape).astype(np.float32) / 128 for shape in ((16, 32), (32, 16))
    )
    a *= random.choice([-1, 1], a.shape)
    c = random.integers(1 << 23, 1 << 24, (16, 16)).astype(np.float32) / (1 << 23)
    chains = np.zeros((2, 16, 16), np.float32)
    for k in range(32):
        chains[k % 2] = (
            chains[k % 2].astype(float) + a[:, k, None].astype(float) * b[k].astype(float)
        ).astype(np.float32)
    both = (chains[0].astype(float) + chains[1]).astype(np.float32)
    assert (dot(c, a, b) == (c.astype(float) + both).astype(np.float32)).all()
    # 2^24 swallows each 1 of its own chain: a tie, to even. The other chain's two arrive together.
    assert dot_of(0, (2.0**12, 2.0**12), (1, 1), (1, 1), (1, 1)) == 2**24 + 2
    # To c, which swallows a 1, come 3 at once: to the nearest even number, which is 4 more.
    assert dot_of(2.0**24, (1, 1), (2, 1)) == 2**24 + 4


@case
def products_are_not_rounded() -> None:
    huge = 2.0**127
    assert dot_of(0, (-huge, 1), (0, 0), (huge, 2), (0, 0)) == huge, "2^128 alone is infinite"
    small = 2.0**-126
    assert dot_of(0, (small, 1), (0, 0), (2.0**-100, 2.0**-40), (0, 0)) == np.float32(
        small + 2.0**-140
    ), "2^-140 alone is flushed"


@case
def denormals_are_zeros() -> None:
    small = float(np.finfo(np.float32).tiny)  # the smallest number that is not denormal
    denormal = 2.0**-130
    assert dot_of(0, (denormal, 2.0**100)) == 0
    assert dot_of(0, (2.0**100, denormal)) == 0
    assert dot_of(denormal, (0, 0)) == 0, "in c"
    assert dot_of(denormal, (1, 1)) == 1
    assert dot_of(0, (2.0**-70, 2.0**-60)) == 0, "a result"
    assert dot_of(0, (small, 1.5), (0, 0), (-small, 1), (0, 0)) == 0, (
        "half the smallest number, in a chain"
    )
    assert dot_of(0, (small, 1.5), (-small, 1)) == 0, "where the chains meet"
    assert dot_of(small * 1.5, (-small, 1)) == 0, "where c meets them"
    assert dot_of(0, (small, 1)) == np.float32(small)
    assert dot_of(0, (-(2.0**-70), 2.0**-60)) == 0
    negative = dot_of(-0.0, (-(2.0**-70), 2.0**-60), (-(2.0**-70), 2.0**-60))
    assert negative == 0 and np.signbit(negative), "what is flushed keeps its sign"
    positive = dot_of(-0.0, (-0.0, 1), (-0.0, 1))
    assert positive == 0 and not np.signbit(positive), "each chain begins with +0"
    denormals = np.full((16, 16), 2.0**-130, np.float32)
    moved = np.zeros_like(denormals)
    steps().configure(FULL).load(0, denormals).store(0, moved).release().run()
    assert (moved == denormals).all(), "moving is no arithmetic"


@case
def infinities_and_nan() -> None:
    inf, nan = float("inf"), float("nan")
    assert dot_of(0, (inf, 2)) == inf
    assert dot_of(0, (inf, -2)) == -inf
    assert dot_of(-inf, (1, 1)) == -inf
    assert dot_of(3.0e38, (2.0**127, 1.5)) == inf, "too large"
    for number in (
        dot_of(0, (inf, 0)),
        dot_of(0, (inf, 1), (-inf, 1)),
        dot_of(0, (inf, 1), (0, 0), (-inf, 1)),
        dot_of(inf, (-inf, 1)),
        dot_of(0, (nan, 1)),
        dot_of(0, (1, nan)),
        dot_of(nan, (1, 1)),
        dot_of(0, (inf, 2.0**-130)),
    ):
        assert np.isnan(number)
    a = np.zeros((16, 32), np.float32)
    a[3, 4] = nan
    assert np.isnan(dot(np.zeros((16, 16)), a, np.ones((32, 16)))).any(axis=1).tolist() == [
        row == 3 for row in range(16)
    ]


@case
def the_control_of_other_arithmetic_is_not_asked() -> None:
    """MXCSR: rounding up, nothing masked; it is not written to either."""
    upwards_unmasked = 0x4000
    a, b, c, control = (np.zeros((1, 2), np.float32) for _ in range(4))
    a[0, 0] = b[0, 0] = 1
    c[0, 0] = 2**24  # and 1 is a tie: to even, which is down
    s = (
        steps()
        .configure(configuration((1, 4), (1, 4), (1, 4)))
        .load(0, c)
        .load(1, bits_of(a))
        .load(2, bits_of(b))
    )
    s.set_mxcsr(upwards_unmasked).dot(0, 1, 2).get_mxcsr(control).store(0, c).release().run()
    assert c[0, 0] == 2**24
    assert control.view(np.uint32)[0, 0] == upwards_unmasked
    a[0, 0], b[0, 0] = np.inf, 0
    s = (
        steps()
        .configure(configuration((1, 4), (1, 4), (1, 4)))
        .load(1, bits_of(a))
        .load(2, bits_of(b))
    )
    s.set_mxcsr(upwards_unmasked).dot(0, 1, 2).get_mxcsr(control).store(0, c).release().run()
    assert np.isnan(c[0, 0])
    assert control.view(np.uint32)[0, 0] == upwards_unmasked
