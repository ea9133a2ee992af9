"""Train the word-language model on Debian's word lists and write it as an OpenVINO IR.

    apt-get install wamerican wfrench wngerman witalian wspanish wdutch wpolish wswedish
    pip install torch --index-url https://download.pytorch.org/whl/cpu
    pip install .                              # uncork itself, from the root of the repository
    python examples/word_language/train.py     # seven to fifteen minutes on one core

Writes `model.xml`, `model.bin` and `words.npz` (the inputs for the words in `words.txt`) beside
this file and prints the accuracy on held-out words. `--weights FILE` keeps the trained weights in
FILE, or, when FILE exists, writes the model from them without training again.

How the words are chosen
- Only words made of letters, in lower case; capitals are kept (and lowered) for German alone,
  whose nouns need them, so that names of people and places, which say little about a language,
  stay out for the others.
- A word found in two lists belongs to neither: it is in no part.
- Words that share their first five letters form a family, and a family lies as a whole in the
  training part (90 %), the validation part (5 %) or the test part (5 %), the same for all
  languages: the plurals and tenses of a held-out word, and the compounds that begin with it, are
  not in training, unless they differ within those letters.
- The lists know no frequencies: they hold each form of a rare verb once, and the word for "and"
  once. So the everyday words of `everyday.txt`, picked by hand, are shown several times in every
  epoch. Their families, and those of the words in `words.txt`, are put in the training part: these
  two files are for use and for show, and no figure is measured on them.
- Every language has the same number of words from its list in an epoch, in validation and in the
  test.
"""

from __future__ import annotations

import argparse
import copy
import random
import sys
import time
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

import numpy as np
import torch
from features import (
    CHAR_COUNT,
    LANGUAGES,
    LETTERS,
    NGRAM_BUCKETS,
    PIECE_BUCKETS,
    UNKNOWN,
    features,
    normalise,
    read_words,
)
from graph import build
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

import uncork

HERE = Path(__file__).resolve().parent
DICTIONARIES = Path("/usr/share/dict")


@dataclass(frozen=True)
class WordList:
    """One language's list: its Debian package, file name and encoding."""

    package: str
    file: str
    encoding: str = "utf-8"
    keep_capitalised: bool = False


WORD_LISTS = {
    "English": WordList("wamerican", "american-english"),
    "French": WordList("wfrench", "french"),
    "German": WordList("wngerman", "ngerman", keep_capitalised=True),
    "Italian": WordList("witalian", "italian"),
    "Spanish": WordList("wspanish", "spanish"),
    "Dutch": WordList("wdutch", "dutch"),
    "Polish": WordList("wpolish", "polish"),
    "Swedish": WordList("wswedish", "swedish", encoding="latin-1"),
}

# Together about 460 000 weights, so that model.bin stays below 2 MB.
CHAR_WIDTH = 32
GRU_UNITS = 80
NGRAM_WIDTH = 16
PIECE_WIDTH = 16
HIDDEN_UNITS = 64

SHORTEST, LONGEST = 2, 24  # letters in a word that is trained or tested on
FAMILY_LETTERS = 5
PARTS = ("validation", "test")  # 5 % of the families each; the rest is for training
VALIDATION_WORDS = 2000  # per language
TEST_WORDS = 2000  # per language
EPOCH_WORDS = 30_000  # per language
EVERYDAY_REPEATS = 10  # of each everyday word in an epoch
BATCH = 256
TOLERANCE = 1e-5  # between PyTorch and the written model, in probability

Example = tuple[str, int]  # a word and the number of its language


# --------------------------------------------------------------------------------------------------
# the words


def read_list(language: str) -> set[str]:
    """The usable words of one language's list, in lower case."""
    entry = WORD_LISTS[language]
    path = DICTIONARIES / entry.file
    if not path.is_file():
        everything = " ".join(each.package for each in WORD_LISTS.values())
        sys.exit(
            f"{path} is missing: install the Debian package {entry.package} (all of them: "
            f"apt-get install {everything})"
        )
    words = set()
    for line in path.read_text(encoding=entry.encoding).splitlines():
        word = unicodedata.normalize("NFC", line.strip())
        lowered = word.lower()
        capitalised = word[:1] != lowered[:1]
        if word[1:] != lowered[1:] or (capitalised and not entry.keep_capitalised):
            continue  # an abbreviation or a name
        if (
            SHORTEST <= len(lowered) <= LONGEST
            and normalise(lowered) == lowered
            and lowered.isalpha()
        ):
            words.add(lowered)
    return words


def part_of(family: str) -> str:
    """Which part the words beginning with these letters belong to."""
    share = crc32(family.encode("utf-8")) % 20
    return PARTS[share] if share < len(PARTS) else "train"


def everyday_words() -> dict[str, int]:
    """The words of `everyday.txt`, each with the number of its language."""
    lines = (HERE / "everyday.txt").read_text(encoding="utf-8").splitlines()
    entries = [line.split(":") for line in lines if not line.startswith("#")]
    return {
        word: LANGUAGES.index(language) for language, words in entries for word in words.split()
    }


def read_parts(seed: int) -> dict[str, list[list[str]]]:
    """`parts[part][language number]`: the shuffled words of each language in each part, no word in
    two places.
    """
    lists = [read_list(language) for language in LANGUAGES]
    languages_of = Counter(word for words in lists for word in words)
    by_hand = [*everyday_words(), *(word for word, _ in read_words(HERE / "words.txt"))]
    shown = {normalise(word)[:FAMILY_LETTERS] for word in by_hand}
    parts: dict[str, list[list[str]]] = {
        part: [[] for _ in LANGUAGES] for part in ("train", *PARTS)
    }
    print(f"{'':8} {'usable':>9} {'in one list':>12} {'train':>9} {'validation':>11} {'test':>7}")
    for number, (language, words) in enumerate(zip(LANGUAGES, lists, strict=True)):
        # Sorted first: the order of a set of strings differs from one process to the next.
        own = sorted(word for word in words if languages_of[word] == 1)
        random.Random(seed).shuffle(own)
        for word in own:
            family = word[:FAMILY_LETTERS]
            parts["train" if family in shown else part_of(family)][number].append(word)
        sizes = [len(parts[part][number]) for part in ("train", *PARTS)]
        print(f"{language:8} {len(words):9} {len(own):12} {sizes[0]:9} {sizes[1]:11} {sizes[2]:7}")
    return parts


def balanced(words: Sequence[Sequence[str]], count: int) -> list[Example]:
    """The first `count` words of every language."""
    return [(word, number) for number, own in enumerate(words) for word in own[:count]]


def epoch_examples(words: Sequence[Sequence[str]], epoch: int, rng: random.Random) -> list[Example]:
    """The next `EPOCH_WORDS` words of every language, starting again where a short list ends, and
    the everyday words.
    """
    examples = list(everyday_words().items()) * EVERYDAY_REPEATS
    for number, own in enumerate(words):
        start = epoch * EPOCH_WORDS
        examples += [(own[(start + step) % len(own)], number) for step in range(EPOCH_WORDS)]
    rng.shuffle(examples)
    return examples


def with_slip(word: str, rng: random.Random) -> str:
    """The word, one time in twenty with an unknown character in place of a letter: else `?` would
    never be learned.
    """
    if rng.random() < 0.95:
        return word
    place = rng.randrange(len(word))
    return word[:place] + UNKNOWN + word[place + 1 :]


def batches(examples: Sequence[Example]) -> Iterator[tuple[dict[str, Tensor], Tensor]]:
    """The inputs and language numbers of `BATCH` examples at a time."""
    for start in range(0, len(examples), BATCH):
        some = examples[start : start + BATCH]
        inputs = {
            name: torch.from_numpy(array)
            for name, array in features([word for word, _ in some]).items()
        }
        yield inputs, torch.tensor([number for _, number in some])


# --------------------------------------------------------------------------------------------------
# the model


class WordLanguage(nn.Module):
    """The model in PyTorch; `graph.py` writes the same formulas as an IR."""

    def __init__(self) -> None:
        super().__init__()
        self.chars = nn.Embedding(CHAR_COUNT, CHAR_WIDTH)
        self.gru = nn.GRU(CHAR_WIDTH, GRU_UNITS, batch_first=True, bidirectional=True)
        self.ngrams = nn.EmbeddingBag(NGRAM_BUCKETS, NGRAM_WIDTH, mode="sum")
        self.pieces = nn.Embedding(PIECE_BUCKETS, PIECE_WIDTH)
        self.hidden = nn.Linear(2 * GRU_UNITS + NGRAM_WIDTH + PIECE_WIDTH, HIDDEN_UNITS)
        self.scores = nn.Linear(HIDDEN_UNITS, len(LANGUAGES))
        self.dropout = nn.Dropout(0.4)
        for table in (self.ngrams, self.pieces):
            nn.init.normal_(table.weight, std=0.1)  # a word sums ten rows or more

    def forward(self, inputs: dict[str, Tensor]) -> Tensor:
        """Scores [B, languages] before the softmax."""
        lengths = inputs["lengths"]
        batch = lengths.shape[0]
        # Packing refuses an empty word; it is run as one letter long and its state is set to zero,
        # as the IR has it.
        packed = nn.utils.rnn.pack_padded_sequence(
            self.chars(inputs["chars"]),
            lengths.clamp(min=1),
            batch_first=True,
            enforce_sorted=False,
        )
        _, last = self.gru(packed)  # [2, B, H]
        read = last.transpose(0, 1).reshape(batch, -1) * (lengths > 0).unsqueeze(1)
        bag = self.ngrams(inputs["ngrams"], inputs["offsets"])
        pieces = self.pieces(inputs["pieces"])
        spelling = pieces.new_zeros(batch, PIECE_WIDTH).index_add(
            0, inputs["word_of_piece"], pieces
        )
        seen = torch.cat([read, bag, spelling], dim=1)
        return self.scores(self.dropout(torch.relu(self.hidden(self.dropout(seen)))))


@torch.no_grad()
def probabilities(model: WordLanguage, examples: Sequence[Example]) -> np.ndarray:
    """Probabilities [examples, languages]."""
    model.eval()
    return np.concatenate([model(inputs).softmax(dim=1).numpy() for inputs, _ in batches(examples)])


def loss_and_accuracy(model: WordLanguage, examples: Sequence[Example]) -> tuple[float, float]:
    """Mean cross entropy, and the share of the examples whose most probable language is theirs."""
    given = probabilities(model, examples)
    truth = np.array([number for _, number in examples])
    return float(-np.log(given[np.arange(len(truth)), truth]).mean()), float(
        np.mean(given.argmax(axis=1) == truth)
    )


def train(parts: dict[str, list[list[str]]], seed: int, epochs: int, patience: int) -> WordLanguage:
    """Train with Adam; the learning rate halves after an epoch without progress, `patience` such
    epochs in a row end it.

    What is validated and returned is a running average of the weights over about a thousand steps,
    which knows unseen words better than the weights of any one step; of all epochs, that with the
    lowest loss on the validation words.
    """
    torch.manual_seed(seed)
    rng = random.Random(seed)
    model = WordLanguage()
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.999))
    optimiser = torch.optim.Adam(model.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimiser, factor=0.5, patience=0)
    validation = balanced(parts["validation"], VALIDATION_WORDS)
    best, best_state, waited = float("inf"), copy.deepcopy(model.state_dict()), 0
    for epoch in range(epochs):
        started, total, steps = time.perf_counter(), 0.0, 0
        model.train()
        examples = [
            (with_slip(word, rng), number)
            for word, number in epoch_examples(parts["train"], epoch, rng)
        ]
        for inputs, languages in batches(examples):
            optimiser.zero_grad()
            loss = nn.functional.cross_entropy(model(inputs), languages)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
            average.update_parameters(model)
            total, steps = total + loss.item(), steps + 1
        score, share = loss_and_accuracy(average.module, validation)
        seconds = time.perf_counter() - started
        rate = optimiser.param_groups[0]["lr"]
        print(
            f"epoch {epoch + 1:2}: loss {total / steps:.4f}, validation loss {score:.4f}, right "
            f"{share:.2%}, rate {rate:g}, {seconds:.0f} s",
            flush=True,
        )
        schedule.step(score)
        if score < best:
            best, best_state, waited = score, copy.deepcopy(average.module.state_dict()), 0
        else:
            waited += 1
            if waited == patience:
                break
    model.load_state_dict(best_state)
    return model


# --------------------------------------------------------------------------------------------------
# the measurement


def measure(model: WordLanguage, test: Sequence[Example]) -> dict[str, float]:
    """Print accuracy and confusions on the test words; returns the accuracy of each language and of
    `all`.
    """
    guesses = probabilities(model, test).argmax(axis=1)
    truth = np.array([number for _, number in test])
    confusion = np.zeros((len(LANGUAGES), len(LANGUAGES)), np.int64)
    np.add.at(confusion, (truth, guesses), 1)
    print(f"\nAccuracy on {len(test)} held-out words; taken for (in % of the row):")
    print(
        f"{'':8} {'words':>6} {'right':>7}   "
        + " ".join(f"{language[:3]:>5}" for language in LANGUAGES)
    )
    figures = {}
    for number, language in enumerate(LANGUAGES):
        row = confusion[number]
        figures[language] = row[number] / row.sum()
        shares = " ".join(
            "    -" if other == number else f"{row[other] / row.sum():5.1%}"[:5]
            for other in range(len(row))
        )
        print(f"{language:8} {row.sum():6} {figures[language]:7.2%}   {shares}")
    figures["all"] = float(np.mean(guesses == truth))
    print(f"{'all':8} {len(test):6} {figures['all']:7.2%}")
    lengths = np.array([len(word) for word, _ in test])
    for low, high in ((SHORTEST, 4), (5, 7), (8, 10), (11, LONGEST)):
        some = (lengths >= low) & (lengths <= high)
        print(
            f"{low:2} to {high:2} letters: {some.sum():6} words, "
            f"{np.mean((guesses == truth)[some]):7.2%}"
        )
    return figures


# --------------------------------------------------------------------------------------------------
# the files


def write(
    model: WordLanguage, figures: dict[str, float], folder: Path, test: Sequence[Example]
) -> None:
    """Write model.xml, model.bin and words.npz into `folder`, and make sure that the file computes
    what PyTorch does.
    """
    info = {
        "languages": ",".join(LANGUAGES),
        "model_info/labels": " ".join(LANGUAGES),
        "letters": LETTERS,
        "held_out_accuracy": f"{figures['all']:.4f}",
        **{f"held_out_accuracy_{language}": f"{figures[language]:.4f}" for language in LANGUAGES},
    }
    path = folder / "model.xml"
    uncork.write_model(
        build({name: value.numpy() for name, value in model.state_dict().items()}, info), path
    )
    words = [word for word, _ in read_words(HERE / "words.txt")]
    np.savez_compressed(folder / "words.npz", **features(words))

    # Short words and none at all among ordinary ones, to have empty bags, states of no letter and
    # ragged lengths.
    sample = [*words, "", "ja", *(word for word, _ in test[:: len(test) // 500]), ""]
    expected = probabilities(model, [(word, 0) for word in sample])
    loaded = uncork.load(path)
    parts = [
        loaded(features(sample[start : start + BATCH]))["probabilities"]
        for start in range(0, len(sample), BATCH)
    ]
    distance = float(np.abs(np.concatenate(parts) - expected).max())
    size = path.with_suffix(".bin").stat().st_size
    print(
        f"\n{path}: {size} bytes of weights; largest difference to PyTorch on {len(sample)} "
        f"words: {distance:.1e}"
    )
    if not distance <= TOLERANCE:
        sys.exit(f"the written model differs from PyTorch by more than {TOLERANCE:g}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--output", type=Path, default=HERE, help="folder to write into (default: beside this file)"
    )
    parser.add_argument(
        "--weights",
        type=Path,
        help="keep the trained weights here; used without training when it exists",
    )
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--epochs", type=int, default=20, help="at most this many")
    parser.add_argument(
        "--patience", type=int, default=3, help="stop after so many epochs without progress"
    )
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)

    parts = read_parts(options.seed)
    if options.weights and options.weights.is_file():
        model = WordLanguage()
        with np.load(options.weights) as saved:
            model.load_state_dict({name: torch.from_numpy(saved[name]) for name in saved.files})
    else:
        started = time.perf_counter()
        model = train(parts, options.seed, options.epochs, options.patience)
        print(f"trained in {time.perf_counter() - started:.0f} s")
        if options.weights:
            np.savez(
                options.weights,
                **{name: value.numpy() for name, value in model.state_dict().items()},
            )
    print(f"{sum(value.numel() for value in model.parameters())} weights")
    test = balanced(parts["test"], TEST_WORDS)
    write(model, measure(model, test), options.output, test)


if __name__ == "__main__":
    main()
