"""Cases of what lies where: rows, distances, addresses of every form, configurations, threads."""

from __future__ import annotations

import ctypes
import threading

import numpy as np

from tests.kernels._bf16 import TILES
from tests.kernels.amx.case import (
    FULL,
    bits_of,
    case,
    code,
    emulators,
    integers,
    paired,
    random,
    steps,
)
from tests.kernels.amx.machine_code import FORMS, LOW, LOW_FORMS, LOW_ROWS, Form, configuration


@case
def tiles_are_apart() -> None:
    values = random.integers(0, 256, (8, 16, 64)).astype(np.uint8)
    result = np.zeros_like(values)
    s = steps().configure(FULL)
    for n in range(8):
        s.load(n, values[n])
    s.zero(5)
    for n in range(8):
        s.store(n, result[n])
    s.release().run()
    values[5] = 0
    assert (result == values).all()


@case
def distances_of_rows() -> None:
    values = random.integers(0, 256, (16, 64)).astype(np.uint8)
    result = np.zeros((16, 64), np.uint8)
    steps().configure(FULL).load(0, values[15], -64).store(0, result).release().run()
    assert (result == values[::-1]).all()
    steps().configure(FULL).load(0, values[3], 0).store(0, result).release().run()
    assert (result == values[3]).all()
    steps().configure(FULL).load(0, values).store(0, result[15], -64).release().run()
    assert (result == values[::-1]).all()


@case
def nothing_else_is_read_or_written() -> None:
    """Rows that end, or begin, where a page begins that nobody may touch."""
    from tests.kernels._fences import (
        Fenced,  # which takes longer to import than all other cases to run
    )

    values = random.integers(0, 256, (5, 20)).astype(np.uint8)
    for first in (False, True):
        source, target = Fenced(4 * 33 + 20, first), Fenced(4 * 33 + 20, first)
        rows, written = (
            np.lib.stride_tricks.as_strided(fenced.bytes, (5, 20), (33, 1))
            for fenced in (source, target)
        )
        rows[:] = values
        source.only_read()
        steps().configure(configuration((5, 20))).load(0, rows).store(0, written).release().run()
        assert (written == values).all()
        target.check()


@case
def configuring_makes_zeros() -> None:
    values, result = integers(16, 16), integers(16, 16)
    s = steps().configure(FULL).load(0, values).configure(FULL).store(0, result)
    s.run()
    assert not result.any()
    result += 1
    steps().configure(FULL).load(7, values).zero(7).store(7, result).release().run()
    assert not result.any()


@case
def a_start_row_is_for_one_instruction() -> None:
    """It is where an interrupted load or store begins again; whatever follows begins at 0."""
    values = random.integers(1, 256, (16, 64)).astype(np.uint8)
    once, twice = np.zeros_like(values), np.zeros_like(values)
    shapes = configuration((16, 64), (16, 64), start_row=3)
    steps().configure(shapes).load(0, values).store(0, once).load(0, values).store(
        0, twice
    ).release().run()
    assert not once[:3].any() and (once[3:] == values[3:]).all()
    assert (twice == values).all()
    untouched = np.full_like(values, 0xA5)
    steps().configure(shapes).store(0, untouched).store(1, once).release().run()
    assert (untouched[:3] == 0xA5).all() and not untouched[3:].any()
    assert not once.any()
    steps().configure(shapes).zero(0).load(0, values).store(0, once).release().run()
    assert (once == values).all()


@case
def every_form_of_address() -> None:
    """Registers as base and index, all scales, displacements of 0, 8 and 32 bits."""
    assert len(FORMS) > 200
    for form in FORMS:
        stride = 0 if form.index is None else 64 * form.scale
        _moves_rows(form, stride)
        image = configuration((5, 12), (2, 8), (1, 4), (7, 20))
        address = (
            image.ctypes.data - form.displacement - (0 if form.index is None else 64 * form.scale)
        )
        values, result = (
            random.integers(0, 256, (16, 64)).astype(np.uint8),
            np.full((16, 64), 0xA5, np.uint8),
        )
        steps().call(form.function("configure"), address, 64).load(3, values).store(
            3, result
        ).release().run()
        assert (
            (result[:7, :20] == values[:7, :20]).all()
            and (result[7:] == 0xA5).all()
            and (result[:, 20:] == 0xA5).all()
        ), form.text


def _moves_rows(form: Form, stride: int) -> None:
    values = random.integers(0, 256, (16, max(stride, 64))).astype(np.uint8)
    result = np.zeros_like(values)
    index = stride // form.scale
    steps().configure(FULL).call(
        form.function("load"), values.ctypes.data - form.displacement, index
    ).store(3, result).release().run()
    assert (result[:, :64] == (values[:, :64] if stride else values[0, :64])).all(), form.text
    result[:] = 0
    steps().configure(FULL).load(3, values).call(
        form.function("store"), result.ctypes.data - form.displacement, index
    ).release().run()
    if stride:
        assert (result[:, :64] == values[:, :64]).all() and not result[:, 64:].any(), form.text
    else:  # all rows go to one place; the last stays
        assert (result[0, :64] == values[15, :64]).all() and not result[1:].any(), form.text


@case
def addresses_without_registers() -> None:
    code().low_memory.restype = code().near_memory.restype = ctypes.c_void_p
    if code().low_memory() != LOW:
        print("skipped: that address is taken")
        return
    page = np.frombuffer((ctypes.c_ubyte * 4096).from_address(LOW), np.uint8)
    rows = page[LOW_ROWS - LOW :][: 16 * 128].reshape(16, 128)
    page[:64] = configuration((7, 20), (2, 8), (1, 4), (16, 64))
    for form in LOW_FORMS:
        rows[:] = random.integers(0, 256, rows.shape)
        result = np.zeros((16, 64), np.uint8)
        index = 128 // form.scale
        steps().call("configure_low").call(form.function("load"), 0, index).store(
            3, result
        ).release().run()
        assert (result == (rows[:, :64] if form.index else rows[0, :64])).all(), form.text
        expected = rows.copy()
        expected[:, :64] = result[::-1]
        steps().configure(FULL).load(3, result[15], -64).call(
            form.function("store"), 0, index
        ).release().run()
        assert (rows == expected).all() if form.index else (rows[0, :64] == result[0]).all(), (
            form.text
        )
    near = np.frombuffer(
        (ctypes.c_ubyte * 128).from_address(code().near_memory()), np.uint8
    ).reshape(2, 64)
    near[0], near[1] = configuration((7, 20)), configuration((5, 8))
    for number, (height, width) in enumerate(
        [(7, 20), (5, 8)]
    ):  # by their distance from the instruction
        result = np.zeros((16, 64), np.uint8)
        ones = np.ones_like(result)
        steps().call(f"configure_near_{number}").load(0, ones).store(0, result).release().run()
        assert (result[:height, :width] == 1).all() and result.sum() == height * width


@case
def over_the_stack() -> None:
    memory = np.zeros(64 + 32 + 1024, np.uint8)
    memory[:64] = FULL
    memory[96:] = values = random.integers(0, 256, 1024)
    rows = memory[64:]
    steps().call(
        "over_the_stack", memory, 32
    ).run()  # rows overlap: each is 32 bytes after the one before
    expected = np.zeros(1056, np.uint8)
    expected[32:] = values
    assert (rows == expected).all(), "tiles come back as they were"
    steps().release().run()


@case
def each_thread_has_its_own_tiles() -> None:
    meeting = threading.Barrier(4)
    results: list[bool] = []

    def work(number: int) -> None:
        rows = number + 3
        a, b, c = integers(rows, 32), integers(32, 16), integers(rows, 16)
        result = np.zeros_like(c)
        shapes = configuration((rows, 64), (rows, 64), (16, 64))
        steps().configure(shapes).load(0, c).load(1, bits_of(a)).load(2, paired(b)).run()
        meeting.wait(60)
        steps().dot(0, 1, 2).run()
        meeting.wait(60)
        steps().store(0, result).release().run()
        results.append(bool((result == c.astype(int) + a.astype(int) @ b.astype(int)).all()))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 4


@case
def instructions_are_counted() -> None:
    if not emulators:
        return
    before = emulators[0].counts()
    place = np.zeros((16, 16), np.float32)
    s = steps().configure(FULL).zero(0).zero(1).zero(2)
    for _ in range(5):
        s.load(3, place)
    s.store(3, place).store(3, place).dot(0, 1, 2).dot(0, 1, 2).dot(0, 1, 2).dot(
        0, 1, 2
    ).release().run()
    after = emulators[0].counts()
    assert tuple(after)[: len(TILES)] == TILES
    assert [after[kind] - before[kind] for kind in TILES] == [1, 1, 3, 5, 2, 4, 0, 0]
