"""What is kept of plans by kind of call, and what goes."""

from __future__ import annotations

from uncork.compiler.recent import Recent


def test_a_further_kind_has_to_come_again_and_the_oldest_goes() -> None:
    made: list[str] = []
    recent: Recent[str, str] = Recent(2)

    def of(kind: str) -> str | None:
        return recent.of(kind, lambda: made.append(kind) or kind.upper())

    assert (of("a"), of("b"), of("a")) == ("A", "B", "A")
    assert of("c") is None and made == ["a", "b"]
    assert of("c") == "C" and sorted(recent.values()) == ["A", "C"], "b was used longest ago"
    assert of("b") is None and of("a") == "A", "what went has to come again, too"
    assert made == ["a", "b", "c"] and recent.get("b") is None


def test_kinds_that_come_once_are_forgotten() -> None:
    recent: Recent[int, int] = Recent(1)
    assert recent.of(0, lambda: 0) == 0
    assert all(recent.of(kind, lambda: 1) is None for kind in range(1, 18))
    assert recent.of(1, lambda: 1) is None, "16 others came since"
    assert recent.of(17, lambda: 17) == 17
    recent.clear()
    assert recent.values() == [] and recent.of(3, lambda: 3) == 3
