"""How a compiled model ran a call."""

from __future__ import annotations

from typing import Any

import uncork
from uncork.compiler.plan import Step


def steps_of(compiled: uncork.CompiledModel, inputs: list[Any]) -> list[Step]:
    """The steps of the plans for every size, and of the plan made for the sizes of these inputs where there is one."""
    executor = compiled._executor
    known = executor.known(inputs)
    every_size = executor.plans.plans if executor.plans is not None else []
    return [*(known.plan.steps if known is not None else ()), *(step for plan in every_size for step in plan.printed)]
