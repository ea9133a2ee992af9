"""Recommendations event by event: the sessions side by side, each with a state of its own.

    python -m examples.session_recommender.events

The model is made a stream: a call takes one item of each session, and the GRU's state stays inside
(docs/streams.md). So an event costs one step of the GRU, however long the session is, and nobody
keeps what a visitor has looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from examples.session_recommender.sessions import (
    TEST_FROM,
    TOP,
    Moment,
    catalogue,
    mean_reciprocal_rank,
    moments,
    ranks,
    read_sessions,
    recall,
)
from numpy.typing import NDArray

import uncork
from uncork.surgery import streaming

FOLDER = Path(__file__).resolve().parent


def recommended(found: list[Moment]) -> Iterator[tuple[Moment, NDArray[np.float32]]]:
    """Each moment with the scores of all items then: the sessions that have a next event go on
    together, one event each.
    """
    model = uncork.read_model(FOLDER / "model.xml")
    stream = uncork.compile_model(streaming(model, "items", axis=1, frames=1))
    sessions = stream.sessions(capacity=len({moment.session for moment in found}))
    for event in range(1, max(moment.event for moment in found) + 1):
        now = [moment for moment in found if moment.event == event]
        for moment in now:
            if event == 1:
                sessions.open(moment.session)
        items = np.array([[moment.items[-1]] for moment in now])
        scores = sessions.step([moment.session for moment in now], items)["scores"]
        yield from zip(now, scores, strict=True)


def main() -> None:
    sessions = read_sessions(FOLDER / "otto_sessions.jsonl")
    test, best = [], []
    for moment, scores in recommended(moments(sessions, catalogue(sessions))):
        if moment.within(TEST_FROM, None):
            test.append(moment)
            best.append(np.argsort(-scores, kind="stable")[:TOP].tolist())
    places = ranks(best, test)
    print(f"{len(test)} moments, event by event:", end=" ")
    print(f"recall@20 {recall(places):.3f}, MRR@20 {mean_reciprocal_rank(places):.3f}")


if __name__ == "__main__":
    main()
