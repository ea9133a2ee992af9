"""SECURITY.md, sentence by sentence: which tests hold what it promises."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
#: The beginning of each sentence under "What is promised" and "What is not promised", and the tests
#: that hold it. Those without any ask for something, or say what is not held.
HELD: dict[str, tuple[str, ...]] = {
    "Files are hostile until they are checked": ("fuzz/test_fuzz.py", "ir/test_one_mistake.py"),
    "A model, its weights, tables, arrays": ("fuzz/test_fuzz.py", "compiler/test_tables.py"),
    "The worst that such a file may do": ("fuzz/test_fuzz.py", "ir/test_large_texts.py"),
    "Pickles are refused": ("compiler/test_tables.py", "compare/test_compare.py"),
    "XML has no DOCTYPE": ("ir/test_read.py",),
    "Only ordinary files are opened": ("fuzz/test_fuzz.py",),
    "Random changes of files": ("fuzz/test_fuzz.py",),
    "A name is never code": ("test_hostile_names.py",),
    "Names and strings of a model are text": ("test_hostile_names.py",),
    "A call cannot leave its arrays": ("kernels/test_canaries.py", "fuzz/test_opened.py"),
    "Kernels check every index": ("kernels/test_canaries.py", "kernels/test_every_kernel.py"),
    "All kernels are tested between pages": ("kernels/test_canaries.py", "fuzz/test_opened.py"),
    "What is overwritten was written by uncork": ("test_destination.py", "cli/test_export.py"),
    "A compiled file is code, which you trust": ("compiler/image/test_compiled_files.py",),
    "`load` promises that a file which was cut": ("compiler/image/test_compiled_files.py",),
    "On POSIX a file that others own or can write": ("compiler/image/test_compiled_files.py",),
    "Its code is mapped for reading and executing": ("kernels/test_processor.py",),
    "Whoever changes a file and its digest": (),
    "`python -m tests.fuzz.compiled --mutants`": ("fuzz/test_compiled.py",),
    "Kernels are code": ("kernels/test_bundle.py", "kernels/test_disk_cache.py"),
    "Those that come with the package lie beside": ("kernels/test_bundle.py",),
    "No memory is writable and executable": ("kernels/test_processor.py",),
    "Compiled ones are kept in the user's own": ("kernels/test_disk_cache.py",),
    "A folder that others own or can write to": ("kernels/test_disk_cache.py",),
    "Who can write to your home": (),
    "A valid model may ask for much memory": (),
    "Memory that a call cannot have": (
        "compiler/test_execute.py",
        "compiler/test_planning_memory.py",
    ),
    "A weights file of more than 8 MB": (),
    "What a model answers": (),
    "`uncork compare --against torch:FILE.pt2` has PyTorch open": ("compare/test_compare.py",),
    "It is refused without `--trust`": ("compare/test_compare.py",),
    "Scoring on Ray trusts the cluster": (),
    "`loop_limit=` and the limits": (),
    "`docs/processes.md`, and `load(..": (),
    "Ray's own protocol": (),
}


def sentences() -> list[str]:
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8").partition("## What is promised")[2]
    text = re.sub(r"^#.*$", "", text, flags=re.MULTILINE).replace("**", "")
    items = re.split(r"^- ", text, flags=re.MULTILINE)
    joined = (" ".join(item.split()) for item in items)
    return [
        sentence
        for item in joined
        for sentence in re.split(r"(?<=[.:])\s+(?=[A-Z`])", item)
        if sentence
    ]


@pytest.mark.parametrize("sentence", sentences(), ids=lambda s: s[:40])
def test_every_sentence_is_held(sentence: str) -> None:
    found = [begin for begin in HELD if sentence.startswith(begin)]
    assert found, "say in HELD which tests hold this sentence"


@pytest.mark.parametrize("begin", HELD)
def test_no_sentence_is_gone(begin: str) -> None:
    assert any(sentence.startswith(begin) for sentence in sentences())
    assert all((ROOT / "tests" / name).is_file() for name in HELD[begin])
