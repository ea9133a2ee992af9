"""What tests of bodies ask for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from uncork.compiler.body_runs import BranchRun, LoopRun


@pytest.fixture
def in_python(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Has one entry more for each loop and each branch that Python runs."""
    made: list[str] = []

    def count(kind: Any) -> None:
        run = kind.evaluate

        def counted(self: Any, inputs: Sequence[Any]) -> Sequence[Any]:
            made.append(kind.__name__)
            outputs: Sequence[Any] = run(self, inputs)
            return outputs

        monkeypatch.setattr(kind, "evaluate", counted)

    count(LoopRun)
    count(BranchRun)
    return made
