"""An IR model learns new sessions in PyTorch and comes back: `python -m
examples.fine_tune.fine_tune OUT.xml`.

The session recommender was trained on what visitors did up to a day. Here it learns the sessions of
the days after, and is then held against the days after those. Its graph, the layers' names and
everything that is not trained stay as they were.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from examples.session_recommender.sessions import (
    TEST_FROM,
    TOP,
    Moment,
    mean_reciprocal_rank,
    moments,
    padded,
    ranks,
    read_sessions,
    recall,
)

import uncork

MODEL = Path(__file__).resolve().parent.parent / "session_recommender" / "model.xml"
#: What follows up to here is new; what follows later is held out.
HELD_OUT_FROM = datetime(2022, 8, 25, tzinfo=timezone.utc)
#: Passes over the new moments, and the step of each. The constant that keeps item 0 out is not
#: trained.
PASSES, STEP = 10, 1e-4


@dataclass(frozen=True)
class Quality:
    """How well the next items of some moments are foreseen."""

    loss: float
    recall: float
    reciprocal_rank: float

    def __str__(self) -> str:
        return (
            f"loss {self.loss:.3f}, recall@20 {self.recall:.3f}, MRR@20 {self.reciprocal_rank:.3f}"
        )


def known(found: Sequence[Moment]) -> list[Moment]:
    """Moments whose next item has a row in the table."""
    return [moment for moment in found if moment.next]


def split() -> tuple[list[Moment], list[Moment]]:
    """The new moments, and the held-out ones after them."""
    with MODEL.with_name("items.csv").open(encoding="utf-8") as file:
        numbers = {int(row["aid"]): int(row["item"]) for row in csv.DictReader(file)}
    found = moments(read_sessions(MODEL.with_name("otto_sessions.jsonl")), numbers)
    new = known([m for m in found if m.within(TEST_FROM, HELD_OUT_FROM)])
    return new, known([m for m in found if m.within(HELD_OUT_FROM, None)])


def quality(model: uncork.Model, found: Sequence[Moment]) -> Quality:
    """Of the model as uncork runs it."""
    items, lengths = padded([moment.items for moment in found])
    scores = np.asarray(uncork.compile_model(model)(items, lengths)["scores"])
    wanted = torch.tensor([moment.next for moment in found])
    loss = float(F.cross_entropy(torch.from_numpy(np.array(scores)), wanted))
    places = ranks(np.argsort(-scores, axis=1, kind="stable")[:, :TOP].tolist(), found)
    return Quality(loss, recall(places), mean_reciprocal_rank(places))


def learned(model: uncork.Model, found: Sequence[Moment]) -> uncork.Model:
    """The model after training on some moments: to torch, and back."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    module = uncork.to_torch(model)
    trained = [p for p in module.parameters() if p.requires_grad]
    optimizer = torch.optim.Adam(trained, STEP)
    items, lengths = (torch.from_numpy(a) for a in padded([moment.items for moment in found]))
    wanted = torch.tensor([moment.next for moment in found])
    for _ in range(PASSES):
        for batch in torch.randperm(len(found)).split(32):
            optimizer.zero_grad()
            F.cross_entropy(module(items[batch], lengths[batch]), wanted[batch]).backward()
            optimizer.step()
    return uncork.with_constants(model, module.state_dict())


def main() -> int:
    new, held_out = split()
    before = uncork.read_model(MODEL)
    after = learned(before, new)
    print(f"{len(new)} new moments, {len(held_out)} held out")
    print(f"before: {quality(before, held_out)}")
    print(f"after:  {quality(after, held_out)}")
    if len(sys.argv) > 1:
        uncork.write_model(after, sys.argv[1])
    return 0


if __name__ == "__main__":
    sys.exit(main())
