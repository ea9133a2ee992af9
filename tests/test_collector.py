"""`uncork.collector`: what is made while the garbage collector is off."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from uncork import collector
from uncork.collector import collector_paused


class Cycle:
    """An object that refers to itself."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def collector_on(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(collector, "_made_old", 0)  # as in a process that begins
    gc.unfreeze()  # Python 3.12 freezes some at its start
    gc.collect()
    yield
    gc.unfreeze()
    gc.enable()


def is_of(item: object, generation: int) -> bool:
    return any(found is item for found in gc.get_objects(generation))


def test_what_was_made_is_old() -> None:
    with collector_paused():
        assert not gc.isenabled()
        made = Cycle()
    assert gc.isenabled()
    assert is_of(made, 2)
    assert gc.get_freeze_count() == 0


def test_what_is_left_is_collected() -> None:
    class Left(Cycle):
        ended = 0

        def __del__(self) -> None:
            Left.ended += 1

    with collector_paused():
        Left()
    Left()
    gc.collect()
    assert Left.ended == 2


def test_a_collector_that_is_off_stays_off() -> None:
    gc.disable()
    with collector_paused():
        made = Cycle()
    assert not gc.isenabled()
    assert is_of(made, 0), "nobody has asked for it to be older"


def test_what_somebody_has_frozen_stays_frozen() -> None:
    gc.freeze()
    frozen = gc.get_freeze_count()
    with collector_paused(), collector_paused():
        made = Cycle()
    assert gc.isenabled()
    assert gc.get_freeze_count() == frozen > 0
    assert is_of(made, 0)


def test_what_is_made_again_and_again_does_not_stay() -> None:
    class Counted(Cycle):
        alive = 0

        def __init__(self) -> None:
            super().__init__()
            Counted.alive += 1

        def __del__(self) -> None:
            Counted.alive -= 1

    most = 0
    for _ in range(100):
        with collector_paused():
            for _ in range(10_000):
                Counted()
        most = max(most, Counted.alive)
    assert most < 500_000, "nobody has asked for a collection"
