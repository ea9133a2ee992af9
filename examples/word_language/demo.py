"""Which language is this word?

    python examples/word_language/demo.py Schmetterling farfalla butterfly

Needs uncork and NumPy only. The model knows English, French, German, Italian, Spanish, Dutch,
Polish and Swedish.
"""

from __future__ import annotations

import argparse
import io
import sys
import unicodedata
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from features import LANGUAGES, UNKNOWN, features, normalise
from numpy.typing import NDArray

import uncork

MODEL = Path(__file__).resolve().parent / "model.xml"


def printable(word: str) -> str:
    """The word as a terminal may be given it."""
    return "".join(
        character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in word
    )


def columns(text: str) -> int:
    """How many columns of a terminal the text takes: East Asian characters two, combining marks
    none.
    """
    return sum(
        0
        if unicodedata.combining(character)
        else 2
        if unicodedata.east_asian_width(character) in "WF"
        else 1
        for character in text
    )


def table(words: Sequence[str], probabilities: NDArray[np.float32]) -> str:
    """One line a word: the most probable language, then what each language gets, in per cent."""
    rows = [("word", "language", " ".join(f"{language:>8}" for language in LANGUAGES))]
    for word, row in zip(words, probabilities, strict=True):
        rows.append(
            (
                printable(word),
                LANGUAGES[int(row.argmax())],
                " ".join(f"{100 * share:8.1f}" for share in row),
            )
        )
    width = max(columns(word) for word, _, _ in rows)
    return "\n".join(
        f"{word}{' ' * (width - columns(word))}  {best:8}  {shares}" for word, best, shares in rows
    )


def remarks(words: Sequence[str]) -> list[str]:
    """What to know about words the model cannot have learned."""
    notes = []
    for word in words:
        known = normalise(word)
        unknown = known.count(UNKNOWN)
        if not known:
            notes.append(
                "an empty word has no language: its line is what the model says when it sees "
                "nothing"
            )
        elif unknown:
            notes.append(
                f"{printable(word)}: {unknown} of {len(known)} characters are none of the "
                "model's letters"
            )
    return notes


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Which language is this word?")
    parser.add_argument("words", nargs="+", metavar="word")
    words = parser.parse_args(arguments).words
    # A terminal that cannot show a letter should print a substitute, not fail.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")

    model = uncork.load(MODEL)
    result = model(features(words))
    print(table(words, result["probabilities"]))
    for note in remarks(words):
        print(f"note: {note}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
