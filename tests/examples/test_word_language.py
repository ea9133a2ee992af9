"""examples/word_language: the features by hand, the committed model on its words, the demo, and
OpenVINO beside uncork.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from examples.word_language.features import (
    CHAR_COUNT,
    CHAR_ID,
    LANGUAGES,
    NGRAM_BUCKETS,
    PIECE_BUCKETS,
    bucket,
    features,
    normalise,
    read_words,
)

import uncork

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "word_language"
WORDS = read_words(FOLDER / "words.txt")


def test_normalise():
    assert normalise(" Straße\n") == "straße"
    assert normalise("E\N{COMBINING ACUTE ACCENT}TE\N{COMBINING ACUTE ACCENT}") == "été"
    assert normalise("l'été-2") == "l?été??"
    assert normalise("слово") == "?????"
    assert normalise("") == ""


def test_buckets_are_crc_32():
    # The check values of CRC-32: "123456789" -> CBF43926, "abc" -> 352441C2; 8192 buckets keep the
    # last 13 bits.
    assert bucket("123456789", 8192) == 0x1926
    assert bucket("abc", 8192) == 0x01C2


def test_features_by_hand():
    inputs = features(["Oben", "ja", "", "sï5"])
    o, b, e, n, j, a, s, i = (CHAR_ID[letter] for letter in "obenjasï")
    unknown = CHAR_ID["?"]
    assert inputs["chars"].tolist() == [
        [o, b, e, n],
        [j, a, 0, 0],
        [0, 0, 0, 0],
        [s, i, unknown, 0],
    ]
    assert inputs["lengths"].tolist() == [4, 2, 0, 3]
    assert inputs["ngrams"].tolist() == [
        bucket(gram, NGRAM_BUCKETS) for gram in ("obe", "ben", "sï?")
    ]
    assert inputs["offsets"].tolist() == [0, 2, 2, 2]
    oben = ["<o", "ob", "be", "en", "n>", "<obe", "oben", "ben>"]
    ja = ["<j", "ja", "a>", "<ja>"]
    last = ["<s", "sï", "ï?", "?>", "<sï?", "sï?>"]
    assert inputs["pieces"].tolist() == [
        bucket(gram, PIECE_BUCKETS) for gram in (*oben, *ja, *last)
    ]
    assert inputs["word_of_piece"].tolist() == [0] * 8 + [1] * 4 + [3] * 6
    assert all(array.dtype == np.int64 for array in inputs.values())


@pytest.mark.parametrize("words", [[], [""], ["", ""]])
def test_features_of_nothing(words):
    inputs = features(words)
    assert inputs["chars"].shape == (len(words), 1)
    assert inputs["chars"].sum() == inputs["lengths"].sum() == 0
    assert inputs["offsets"].tolist() == [0] * len(words)
    assert not inputs["ngrams"].size
    assert not inputs["pieces"].size
    assert not inputs["word_of_piece"].size


def test_words_file():
    assert sorted({language for _, language in WORDS}) == sorted(LANGUAGES)
    with np.load(FOLDER / "words.npz") as saved:
        expected = features([word for word, _ in WORDS])
        assert sorted(saved.files) == sorted(expected)
        for name in saved.files:
            np.testing.assert_array_equal(saved[name], expected[name], strict=True)
        empty = np.flatnonzero(np.diff(np.append(saved["offsets"], saved["ngrams"].size)) == 0)
    assert empty.size >= 5
    assert empty[-1] < len(WORDS) - 1


@pytest.fixture(scope="module")
def model():
    return uncork.load(FOLDER / "model.xml")


def test_size():
    assert (FOLDER / "model.bin").stat().st_size <= 2_000_000


def test_most_words_are_recognised(model):
    probabilities = model(features([word for word, _ in WORDS]))["probabilities"]
    assert probabilities.shape == (len(WORDS), len(LANGUAGES))
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-5)
    right = [
        LANGUAGES[best] == language
        for best, (_, language) in zip(probabilities.argmax(axis=1), WORDS, strict=True)
    ]
    assert sum(right) >= 0.9 * len(WORDS)


def test_a_word_does_not_depend_on_its_batch(model):
    """Padding, offsets and segments of the other words must not leak into a row."""
    words = ["tè", "Donaudampfschifffahrt", "", "ragazzo"]
    together = model(features(words))["probabilities"]
    alone = [model(features([word]))["probabilities"][0] for word in words]
    np.testing.assert_allclose(together, alone, atol=1e-6)


def test_empty_batch(model):
    assert model(features([]))["probabilities"].shape == (0, len(LANGUAGES))


def demo(*words):
    command = [sys.executable, "-X", "utf8", str(FOLDER / "demo.py"), *words]
    return subprocess.run(command, capture_output=True, encoding="utf-8", timeout=120)


def test_demo_prints_the_languages():
    done = demo("Schmetterling", "farfalla", "butterfly")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert [line.split()[:2] for line in lines] == [
        ["word", "language"],
        ["Schmetterling", "German"],
        ["farfalla", "Italian"],
        ["butterfly", "English"],
    ]
    assert len({len(line) for line in lines}) == 1


def test_demo_takes_any_word():
    done = demo("слово", "言葉", "", "x", "\x1b[31m")
    assert (done.returncode, done.stderr) == (0, "")
    assert "слово: 5 of 5 characters are none of the model's letters" in done.stdout
    assert "an empty word has no language" in done.stdout
    assert "\x1b" not in done.stdout


def test_demo_without_words():
    done = demo()
    assert done.returncode == 2
    assert done.stderr.startswith("usage: demo.py")


@pytest.mark.oracle
@pytest.mark.parametrize(
    "words",
    [
        [word for word, _ in WORDS],
        ["ja", "Schmetterling", "", "é", "слово", "x", "ijsvogel"],
        ["papillon"],
    ],
    ids=["words file", "short and odd", "one word"],
)
def test_openvino_gives_the_same_probabilities(model, openvino, words):
    inputs = features(words)
    # With shapes made static: OpenVINO ignores the lengths of words while shapes are dynamic.
    (expected,) = openvino.run(FOLDER / "model.xml", list(inputs.values()), reshape=True)
    np.testing.assert_allclose(model(inputs)["probabilities"], expected, rtol=0, atol=1e-5)


@pytest.mark.oracle
def test_graph_computes_what_torch_does(monkeypatch, tmp_path):
    """With random weights and large biases: a gate or a bias in the wrong place shows."""
    torch = pytest.importorskip("torch")
    monkeypatch.syspath_prepend(str(FOLDER))
    import graph
    import train

    torch.manual_seed(1)
    network = train.WordLanguage().eval()
    with torch.no_grad():
        for name, weight in network.named_parameters():
            if "bias" in name:
                weight.normal_()
    words = ["Schmetterling", "ja", "", "smörgås", "x", "слово", "farfalla"]
    inputs = features(words)
    assert inputs["chars"].max() < CHAR_COUNT
    with torch.no_grad():
        expected = (
            network({name: torch.from_numpy(array) for name, array in inputs.items()})
            .softmax(dim=1)
            .numpy()
        )
    weights = {name: value.numpy() for name, value in network.state_dict().items()}
    uncork.write_model(graph.build(weights, {}), tmp_path / "model.xml")
    computed = uncork.load(tmp_path / "model.xml")(inputs)["probabilities"]
    np.testing.assert_allclose(computed, expected, rtol=0, atol=1e-5)


@pytest.mark.oracle
def test_a_missing_word_list_is_named(monkeypatch, tmp_path):
    pytest.importorskip("torch")
    monkeypatch.syspath_prepend(str(FOLDER))
    import train

    monkeypatch.setattr(train, "DICTIONARIES", tmp_path)
    with pytest.raises(
        SystemExit,
        match=r"install the Debian package wswedish \(all of them: apt-get install wamerican ",
    ):
        train.read_list("Swedish")


@pytest.mark.oracle
def test_words_are_chosen_as_stated(monkeypatch, tmp_path):
    """On lists of a few words: names, abbreviations and shared words left out, families in one
    part, German nouns kept.
    """
    pytest.importorskip("torch")
    monkeypatch.syspath_prepend(str(FOLDER))
    import train

    monkeypatch.setattr(train, "DICTIONARIES", tmp_path)
    for entry in train.WORD_LISTS.values():
        (tmp_path / entry.file).write_text(
            "shared\nMadrid\nNATO\nl'un\nx\n", encoding=entry.encoding
        )
    (tmp_path / "ngerman").write_text("shared\nHäuser\nNATO\n", encoding="utf-8")
    (tmp_path / "swedish").write_text("skärgård\nskärgårdar\nåska\nåskan\n", encoding="latin-1")
    parts = train.read_parts(seed=1)
    words = {
        language: sorted(word for part in parts.values() for word in part[number])
        for number, language in enumerate(LANGUAGES)
    }
    assert words == {language: [] for language in LANGUAGES} | {
        "German": ["häuser"],
        "Swedish": ["skärgård", "skärgårdar", "åska", "åskan"],
    }
    # skärgård is one of the words of words.txt: its family is trained on.
    assert {"skärgård", "skärgårdar"} <= set(parts["train"][LANGUAGES.index("Swedish")])
