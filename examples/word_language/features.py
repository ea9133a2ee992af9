"""Words as arrays: the inputs of the word-language model.

Plain Python and NumPy, shared by `train.py`, `demo.py` and the tests, so that the model sees the
same numbers in training and in use. A word is looked at in three ways:

- as its letters in order, for the GRU: `chars`, padded to the longest word of the batch, with
  `lengths`;
- as the bag of its trigrams: `ngrams`, the words one after the other, word b beginning at
  `offsets[b]`;
- as its bigrams and 4-grams with the beginning and the end of the word marked: `pieces`, with
  `word_of_piece` naming the word each belongs to.

N-grams are hashed into a fixed number of buckets with CRC-32, which gives the same bucket in every
process and on every machine; Python's own `hash` does not.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

LANGUAGES = ("English", "French", "German", "Italian", "Spanish", "Dutch", "Polish", "Swedish")

LETTERS = "abcdefghijklmnopqrstuvwxyz" + "àáâãäåæçèéêëìíîïñòóôöøùúûüýÿœß" + "ąćęłńśźż"
UNKNOWN = "?"  # stands for every character outside LETTERS
CHARACTERS = UNKNOWN + LETTERS
CHAR_ID = {
    character: number for number, character in enumerate(CHARACTERS, start=1)
}  # 0 is the padding
CHAR_COUNT = 1 + len(CHARACTERS)

NGRAM_SIZE = 3
PIECE_SIZES = (2, 4)
NGRAM_BUCKETS = 8192
PIECE_BUCKETS = 16384
BEGIN, END = "<", ">"  # neither can occur in a normalised word


def normalise(word: str) -> str:
    """The word in lower case, accents composed, every character the model has no letter for as `?`.

    >>> normalise(" Łódź ")
    'łódź'
    >>> normalise("l'été 2")
    'l?été??'
    """
    composed = unicodedata.normalize("NFC", word.strip()).lower()
    return "".join(character if character in CHAR_ID else UNKNOWN for character in composed)


def grams(text: str, size: int) -> Iterator[str]:
    """Every run of `size` characters in `text`, from left to right; none when the text is shorter.

    >>> list(grams("oben", 3))
    ['obe', 'ben']
    """
    return (text[start : start + size] for start in range(len(text) - size + 1))


@lru_cache(maxsize=1 << 18)  # a few common n-grams make up most of the calls
def bucket(gram: str, buckets: int) -> int:
    """The number below `buckets` that this n-gram is hashed to."""
    return crc32(gram.encode("utf-8")) % buckets


def features(words: Sequence[str]) -> dict[str, NDArray[np.int64]]:
    """The six inputs of the model for a batch of B words.

    | name          | shape  | holds                                                              |
    |---------------|--------|--------------------------------------------------------------------|
    | chars         | [B, T] | letter numbers, 0 after the end of a word; T is the longest length |
    | lengths       | [B]    | letters in each word                                               |
    | ngrams        | [N]    | trigram buckets of all words, one word after the other             |
    | offsets       | [B]    | where each word's trigrams begin in `ngrams`                       |
    | pieces        | [M]    | buckets of marked bigrams and 4-grams of all words                 |
    | word_of_piece | [M]    | the word each piece belongs to, ascending                          |

    A word of one or two letters has no trigram, so its bag is empty; an empty word has no letters,
    trigrams or pieces.
    """
    normalised = [normalise(word) for word in words]
    lengths = np.array([len(word) for word in normalised], np.int64)
    # At least one column, so that a batch of empty words still gives the GRU a step to skip.
    chars = np.zeros((len(normalised), max(1, max(map(len, normalised), default=0))), np.int64)
    ngrams: list[int] = []
    offsets: list[int] = []
    pieces: list[int] = []
    word_of_piece: list[int] = []
    for row, word in enumerate(normalised):
        chars[row, : len(word)] = [CHAR_ID[character] for character in word]
        offsets.append(len(ngrams))
        ngrams.extend(bucket(gram, NGRAM_BUCKETS) for gram in grams(word, NGRAM_SIZE))
        if not word:
            continue
        before = len(pieces)
        for size in PIECE_SIZES:
            pieces.extend(bucket(gram, PIECE_BUCKETS) for gram in grams(BEGIN + word + END, size))
        word_of_piece.extend([row] * (len(pieces) - before))
    return {
        "chars": chars,
        "lengths": lengths,
        "ngrams": np.array(ngrams, np.int64),
        "offsets": np.array(offsets, np.int64),
        "pieces": np.array(pieces, np.int64),
        "word_of_piece": np.array(word_of_piece, np.int64),
    }


def read_words(path: Path) -> list[tuple[str, str]]:
    """The (word, language) pairs of a words file: one `word language` a line, `#` begins a comment
    line.
    """
    lines = path.read_text(encoding="utf-8").splitlines()
    pairs = [line.split() for line in lines if line.strip() and not line.startswith("#")]
    return [(word, language) for word, language in pairs]
