"""Worked examples that torch answers otherwise; docs/export.md lists them."""

from __future__ import annotations

OTHERWISE: dict[tuple[str, str], str] = {}
