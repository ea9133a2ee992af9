"""Cases of TDPBUSD and TDPBSUD: exact sums of bytes without a sign times bytes with one."""

from __future__ import annotations

import itertools

import numpy as np

from tests.kernels.amx.case import FULL, case, random, steps
from tests.kernels.amx.machine_code import configuration

_LEAST, _MOST = np.iinfo(np.int32).min, np.iinfo(np.int32).max


def codes(rows: int, inner: int) -> np.ndarray:
    return random.integers(0, 256, (rows, inner)).astype(np.uint8)


def weights(inner: int, columns: int) -> np.ndarray:
    return random.integers(-128, 128, (inner, columns)).astype(np.int8)


def sums(rows: int, columns: int) -> np.ndarray:
    return random.integers(-9999, 9999, (rows, columns)).astype(np.int32)


def in_words(numbers: np.ndarray) -> np.ndarray:
    """The right factor as tiles hold it: four rows by turns, in one row."""
    rows, columns = numbers.shape
    return np.ascontiguousarray(numbers.reshape(rows // 4, 4, columns).transpose(0, 2, 1)).reshape(
        rows // 4, 4 * columns
    )


def exact(c: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return c.astype(np.int64) + a.astype(np.int64) @ b.astype(np.int64)


def dot_bytes(c: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """c + a b by one instruction."""
    result = c.copy()
    shapes = configuration(
        (len(a), 4 * b.shape[1]), (len(a), a.shape[1]), (len(b) // 4, 4 * b.shape[1])
    )
    s = steps().configure(shapes).load(0, result).load(1, a).load(2, in_words(b))
    s.dot_bytes(0, 1, 2, signed=a.dtype == np.int8).store(0, result).release().run()
    return result


@case
def full_tiles_of_bytes() -> None:
    c, a, b = sums(16, 16), codes(16, 64), weights(64, 16)
    assert (dot_bytes(c, a, b) == exact(c, a, b)).all()


@case
def first_bytes_with_a_sign() -> None:
    for rows, words, columns in itertools.product((1, 9, 16), (1, 16), (2, 16)):
        c, a, b = sums(rows, columns), weights(rows, 4 * words), codes(4 * words, columns)
        assert (dot_bytes(c, a, b) == exact(c, a, b)).all()
    a, b = np.full((16, 64), -128, np.int8), np.full((64, 16), 255, np.uint8)
    assert (dot_bytes(np.zeros((16, 16), np.int32), a, b) == -128 * 255 * 64).all()


@case
def bytes_in_every_tile() -> None:
    for tiles in itertools.permutations(range(8), 3):
        c, a, b = sums(16, 16), codes(16, 64), weights(64, 16)
        result = np.zeros_like(c)
        s = steps().configure(FULL).load(tiles[0], c).load(tiles[1], a).load(tiles[2], in_words(b))
        s.dot_bytes(*tiles).store(tiles[0], result).release().run()
        assert (result == exact(c, a, b)).all(), tiles


@case
def parts_of_tiles_of_bytes() -> None:
    """Some rows, some columns, some words; what lies beside them is not read."""
    for rows, columns, words in itertools.product((1, 2, 15, 16), (1, 7, 16), (1, 3, 16)):
        c, a, b = sums(rows, columns), codes(rows, 4 * words), weights(4 * words, columns)
        left = np.full((rows, 4 * words + 5), 0xFF, np.uint8)
        left[:, : 4 * words] = a
        result = c.copy()
        shapes = configuration((rows, 4 * columns), (rows, 4 * words), (words, 4 * columns))
        s = steps().configure(shapes).load(0, result).load(1, left).load(2, in_words(b))
        s.dot_bytes(0, 1, 2).store(0, result).release().run()
        assert (result == exact(c, a, b)).all(), (rows, columns, words)


@case
def the_largest_bytes() -> None:
    """255 is no -1 and -128 no 128; nothing saturates."""
    for of_code, of_weight in itertools.product((0, 1, 127, 128, 255), (-128, -1, 1, 127)):
        a = np.full((16, 64), of_code, np.uint8)
        b = np.full((64, 16), of_weight, np.int8)
        c = np.zeros((16, 16), np.int32)
        assert (dot_bytes(c, a, b) == 64 * of_code * of_weight).all()


@case
def sums_of_bytes_wrap_around() -> None:
    """As the page says: the sums are added as numbers of 32 bits."""
    one, minus = np.full((1, 4), 1, np.uint8), np.array([[-1], [0], [0], [0]], np.int8)
    assert dot_bytes(np.array([[_LEAST]], np.int32), one, minus)[0, 0] == _MOST
    assert dot_bytes(np.array([[_MOST]], np.int32), one, -minus)[0, 0] == _LEAST
