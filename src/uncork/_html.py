"""How notebooks show models, results and plans: tables in HTML, with everything that comes from
files escaped.
"""

from __future__ import annotations

from collections.abc import Sequence

from uncork.quoting import in_html

#: Rows that a table shows.
_MOST = 200


def html_table(caption: str, heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table with a caption; long ones are cut, and say so."""
    head = "".join(f"<th>{in_html(title)}</th>" for title in heading)
    body = "".join(
        "<tr>" + "".join(f"<td>{in_html(cell)}</td>" for cell in row) + "</tr>"
        for row in rows[:_MOST]
    )
    more = f"<p>and {len(rows) - _MOST:,} more</p>" if len(rows) > _MOST else ""
    return f"<table><caption>{in_html(caption)}</caption><tr>{head}</tr>{body}</table>{more}"
