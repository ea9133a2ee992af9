"""Train a session recommender on ten real sessions, measure it, and write it as an OpenVINO IR.

    pip install '.[score]'                          # uncork, with what reads and writes Parquet
    pip install torch --index-url https://download.pytorch.org/whl/cpu
    python examples/session_recommender/train.py    # a few minutes on one core

Writes `model.xml`, `model.bin`, `items.csv` and `sessions.parquet` beside this file.

How it is trained and measured
- A moment is a session after one of its events; the model gets its last 20 items and is to say the
  next one. Moments are told apart by the time of that next event: trained on are those before 16
  August 2022, measured those after it.
- How many epochs to train is found by training on the moments before 8 August alone and looking at
  those from then to the 16th, with five seeds. Nothing is chosen by the test.
- The rows of the item table are random and are not learned: every batch of training has another
  table, so that the network learns what visitors do (come back to what they saw) for items of any
  rows. `learned table` in the output is the same network with one table that is trained along with
  it.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import torch
from numpy.typing import NDArray
from recommender import UNITS, WIDTH, Recommender, build, random_table
from sessions import (
    TEST_FROM,
    TOP,
    VALIDATION_FROM,
    WINDOW,
    Moment,
    catalogue,
    mean_reciprocal_rank,
    moments,
    padded,
    popular,
    ranks,
    read_sessions,
    recall,
    recent,
)
from torch import Tensor, nn

import uncork

HERE = Path(__file__).resolve().parent
SEEDS = (7, 8, 9, 10, 11)  # the first is that of the model which is written
EPOCHS = range(20, 201, 20)  # numbers of epochs that are tried
BATCH = 64
TOLERANCE = 1e-5  # between PyTorch and the written model, in score


def arguments(some: Sequence[Moment]) -> tuple[Tensor, Tensor]:
    """The network's items [B, WINDOW] and lengths [B]."""
    items, lengths = padded([moment.items for moment in some])
    return torch.from_numpy(items), torch.from_numpy(lengths)


def beginnings_dropped(train: Sequence[Moment], rng: np.random.Generator) -> tuple[Tensor, Tensor]:
    """As `arguments`; every other moment, by chance, forgets some of its oldest items, which makes
    up for how few there are.
    """
    lists = []
    for moment in train:
        window = moment.items[-WINDOW:]
        lists.append(window[rng.integers(len(window)) :] if rng.random() < 0.5 else window)
    items, lengths = padded(lists)
    return torch.from_numpy(items), torch.from_numpy(lengths)


def training(
    train: Sequence[Moment], items: int, seed: int, learned: bool
) -> Iterator[tuple[int, Recommender, Tensor]]:
    """Trains without end; after every epoch its number, from 1, the network and the table [items,
    WIDTH] to use it with.
    """
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    of_batches = torch.Generator().manual_seed(seed)
    table = random_table(items, torch.Generator().manual_seed(seed))
    network = Recommender()
    parameters = list(network.parameters())
    if learned:
        table.requires_grad_()
        parameters.append(table)
    optimiser = torch.optim.AdamW(parameters, lr=2e-3, weight_decay=0.01)
    following = torch.tensor([moment.next for moment in train])
    epoch = 0
    while True:
        epoch += 1
        network.train()
        inputs, lengths = beginnings_dropped(train, rng)
        for batch in torch.randperm(len(train)).split(BATCH):
            rows = table if learned else random_table(items, of_batches)
            loss = nn.functional.cross_entropy(
                network(rows, inputs[batch], lengths[batch]), following[batch]
            )
            optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(parameters, 1.0)
            optimiser.step()
        yield epoch, network.eval(), table.detach()


@torch.no_grad()
def scores(network: Recommender, table: Tensor, some: Sequence[Moment]) -> NDArray[np.float32]:
    """Scores [moments, items]."""
    return network.eval()(table, *arguments(some)).numpy()


def recommended(given: NDArray[np.float32]) -> list[list[int]]:
    """The items in the order of their scores, the highest first."""
    return np.argsort(-given, axis=1, kind="stable").tolist()


def best_epochs(all_moments: Sequence[Moment], items: int, learned: bool) -> int:
    """The number of epochs after which the recall on the validation moments, meaned over the seeds,
    is highest.
    """
    train = [moment for moment in all_moments if moment.within(None, VALIDATION_FROM)]
    validation = [moment for moment in all_moments if moment.within(VALIDATION_FROM, TEST_FROM)]
    found = np.zeros((len(SEEDS), len(EPOCHS)))
    for row, seed in enumerate(SEEDS):
        for epoch, network, table in training(train, items, seed, learned):
            if epoch in EPOCHS:
                found[row, EPOCHS.index(epoch)] = recall(
                    ranks(recommended(scores(network, table, validation)), validation)
                )
            if epoch == EPOCHS[-1]:
                break
    shown = ", ".join(
        f"{epochs}: {share:.3f}" for epochs, share in zip(EPOCHS, found.mean(axis=0), strict=True)
    )
    print(
        f"{'learned' if learned else 'random'} table, validation recall@{TOP} after epochs: "
        f"{shown}",
        flush=True,
    )
    return EPOCHS[int(found.mean(axis=0).argmax())]


def trained(
    train: Sequence[Moment], items: int, seed: int, learned: bool, epochs: int
) -> tuple[Recommender, Tensor]:
    """The network and its table after that many epochs."""
    return next(
        (network, table)
        for epoch, network, table in training(train, items, seed, learned)
        if epoch == epochs
    )


def figures(
    name: str, lists: Sequence[Sequence[int]], test: Sequence[Moment]
) -> tuple[float, float]:
    """Print and return recall and mean reciprocal rank on the test moments; the recall of two kinds
    of moments is printed beside.
    """
    found = ranks(lists, test)
    again = np.array([moment.next in moment.items[-WINDOW:] for moment in test])
    print(
        f"{name:26} {recall(found):9.3f} {mean_reciprocal_rank(found):8.3f} "
        f"{recall(found[again]):12.3f} {recall(found[~again]):10.3f}",
        flush=True,
    )
    return recall(found), mean_reciprocal_rank(found)


def write(
    network: Recommender,
    table: Tensor,
    info: dict[str, object],
    folder: Path,
    some: Sequence[Moment],
) -> None:
    """Write model.xml and model.bin into `folder`, and make sure that the file computes what
    PyTorch does.
    """
    path = folder / "model.xml"
    uncork.write_model(build(network, table.numpy(), info), path)
    items, lengths = padded([moment.items for moment in some])
    given = uncork.load(path)({"items": items, "lengths": lengths})["scores"]
    distance = float(np.abs(given - scores(network, table, some)).max())
    size = path.with_suffix(".bin").stat().st_size
    print(
        f"\n{path}: {size} bytes of weights; largest difference to PyTorch on {len(some)} "
        f"moments: {distance:.1e}"
    )
    if not distance <= TOLERANCE:
        sys.exit(f"the written model differs from PyTorch by more than {TOLERANCE:g}")


def write_data(numbers: dict[int, int], all_moments: Sequence[Moment], folder: Path) -> None:
    """Write items.csv (item number, article id) and sessions.parquet (every moment)."""
    with (folder / "items.csv").open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["item", "aid"])
        rows.writerows((number, aid) for aid, number in numbers.items())
    columns = {
        "session": pa.array([moment.session for moment in all_moments], pa.int64()),
        "event": pa.array([moment.event for moment in all_moments], pa.int64()),
        "items": pa.array([moment.items for moment in all_moments], pa.list_(pa.int64())),
        "next": pa.array([moment.next for moment in all_moments], pa.int64()),
        "held_out": pa.array(
            [moment.within(TEST_FROM, None) for moment in all_moments], pa.bool_()
        ),
    }
    # Several row groups, as a file has that is worth scoring by several workers.
    parquet.write_table(
        pa.table(columns), folder / "sessions.parquet", compression="zstd", row_group_size=256
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--output", type=Path, default=HERE, help="folder to write into (default: beside this file)"
    )
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)

    sessions = read_sessions(HERE / "otto_sessions.jsonl")
    numbers = catalogue(sessions)
    items = 1 + len(numbers)
    all_moments = moments(sessions, numbers)
    train = [moment for moment in all_moments if moment.within(None, TEST_FROM)]
    test = [moment for moment in all_moments if moment.within(TEST_FROM, None)]
    print(f"{len(sessions)} sessions, {len(all_moments)} events, {len(numbers)} articles")
    print(f"moments: {len(train)} to train on, {len(test)} to test on")
    known = {item for moment in train for item in (*moment.items, moment.next)}
    lately = np.mean([moment.next in moment.items[-WINDOW:] for moment in test])
    before = np.mean([moment.next in moment.items for moment in test])
    trained_on = np.mean([moment.next in known for moment in test])
    print(
        f"next in the test: {lately:.3f} among the last {WINDOW} items, {before:.3f} in the "
        f"session before, {trained_on:.3f} in training"
    )

    started = time.perf_counter()
    epochs = {learned: best_epochs(all_moments, items, learned) for learned in (True, False)}
    print(
        f"\n{'on ' + str(len(test)) + ' held-out moments':26} recall@{TOP}   MRR@{TOP} seen "
        "lately   not so"
    )
    most = popular(train)
    baselines = {
        "popular": figures("popular", [most] * len(test), test),
        "recent": figures("recent, then popular", [recent(moment, most) for moment in test], test),
    }
    networks = {}
    measured = []
    for learned in (True, False):
        for seed in SEEDS:
            networks[learned, seed] = trained(train, items, seed, learned, epochs[learned])
            name = f"{'learned' if learned else 'random'} table, seed {seed}"
            found = figures(name, recommended(scores(*networks[learned, seed], test)), test)
            measured += [] if learned else [found]
    print(
        f"random table, mean of {len(SEEDS)} seeds: recall {np.mean(measured, axis=0)[0]:.3f}, "
        f"MRR {np.mean(measured, axis=0)[1]:.3f}"
    )
    print(f"{time.perf_counter() - started:.0f} s")

    network, table = networks[False, SEEDS[0]]
    info = {
        "window": WINDOW,
        "epochs": epochs[False],
        "held_out_moments": len(test),
        f"held_out_recall_at_{TOP}": f"{measured[0][0]:.4f}",
        f"held_out_mrr_at_{TOP}": f"{measured[0][1]:.4f}",
        f"popularity_recall_at_{TOP}": f"{baselines['popular'][0]:.4f}",
        f"popularity_mrr_at_{TOP}": f"{baselines['popular'][1]:.4f}",
    }
    print(
        f"GRU of {UNITS} units, rows of {WIDTH}, "
        f"{sum(value.numel() for value in network.parameters())} trained weights"
    )
    write(network, table, info, options.output, all_moments)
    write_data(numbers, all_moments, options.output)


if __name__ == "__main__":
    main()
