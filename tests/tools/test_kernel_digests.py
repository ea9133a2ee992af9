"""The tool that shows whether a change leaves the kernels' LLVM text as it was."""

from __future__ import annotations

import pytest

pytest.importorskip("llvmlite")

from tools.kernel_digests import compare, summary
from tools.kernel_recorder import text_digest

TEXT = """
define i64 @"sum"(ptr %"words")
{
entry:
  %".3" = load i64, ptr %"words"
  br label %"loop.1"
loop.1:
  %"total" = add i64 %".3", %".3"
  %"rooted" = call double @"llvm.sqrt.f64"(double 0x0)
  ret i64 %"total"
}
"""


@pytest.mark.parametrize(
    ("old", "new"), [("sum", "total_of"), ("words", "arguments"), ("loop.1", "body"), (".3", ".17")]
)
def test_names_do_not_count(old: str, new: str) -> None:
    renamed = TEXT.replace(f'"{old}"', f'"{new}"').replace(f"\n{old}:", f"\n{new}:")
    assert renamed != TEXT
    assert text_digest(renamed) == text_digest(TEXT)


@pytest.mark.parametrize(
    ("old", "new"),
    [("add", "sub"), ('%".3", %".3"', '%".3", 1'), ("llvm.sqrt", "llvm.exp"), ("0x0", "0x1")],
)
def test_code_counts(old: str, new: str) -> None:
    assert text_digest(TEXT.replace(old, new)) != text_digest(TEXT)


def test_differences_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    before = ["amx | samples | ReLU-1: floats | relu: 12/34", "amx | kernels | relu | 12"]
    after = ["amx | samples | ReLU-1: floats | relu: 56/34", "amx | kernels | relu | 12"]
    assert compare(before, before) == 0
    assert compare(before, after) == 1
    shown = capsys.readouterr().out
    assert "-amx | samples | ReLU-1: floats | relu: 12/34" in shown
    assert "+amx | samples | ReLU-1: floats | relu: 56/34" in shown
    assert summary(before)[0] != summary(after)[0]
    assert summary(before)[1] == summary(after)[1]
