"""The pages say what is true: the operations page is current, the README's Python code runs."""

from __future__ import annotations

from tools import operations_page


def test_operations_page_is_current() -> None:
    assert operations_page.PAGE.read_text(encoding="utf-8") == operations_page.page(), "run python -m tools.operations_page"
