"""The figure of docs/models.md and of the README: how many times as fast as OpenVINO each network
is, from the table of the page; and the sentence of the README that has the same numbers.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE, FIGURE = ROOT / "docs" / "models.md", ROOT / "docs" / "models.svg"
README = ROOT / "README.md"
#: Of the README: what stands between these words is written here.
SENTENCE = re.compile(r"(?s)(?<=<!-- from docs/models.md -->\n\n).*?(?=\n\n<!-- end -->)")
_ROW = re.compile(r"^\| (\S.*?) \| .* \| ([\d.]+) \|$", re.MULTILINE)
_SAID = re.compile(r"Of these (\d+) calls (\d+) are; the geometric mean is\s+\*\*([\d.]+)\*\*")
#: Pixels: a bar, the plot's height, what is left for names below and numbers at the side.
_BAR, _HEIGHT, _BELOW, _SIDE = 14, 200, 112, 40
#: Ratios that have a line.
_LINES = (0.5, 1, 2, 4, 8, 16, 32)
_STYLE = """text{font:11px system-ui,sans-serif;fill:#596273}.faster{fill:#009485}
.slower{fill:#c2632f}line{stroke:#c8ced6}.one{stroke:#596273}
@media(prefers-color-scheme:dark){text{fill:#a9b4c4}line{stroke:#3a4453}.one{stroke:#a9b4c4}}"""


def rows(page: str) -> list[tuple[str, float]]:
    """Networks and their ratios, from the table of the page."""
    return [(name, float(ratio)) for name, ratio in _ROW.findall(page)]


def sentence(page: str) -> str:
    """What the README says of it."""
    found = _SAID.search(page)
    assert found is not None, "the page says how many calls are faster"
    count, faster, mean = found.groups()
    return (
        f"Of {count} calls of well-known networks, on one thread, {faster} are faster than with\n"
        f"OpenVINO: **{mean} times as fast** by the geometric mean."
    )


def figure(found: Sequence[tuple[str, float]]) -> str:
    """Bars on a logarithmic scale, the fastest first, as SVG that needs nothing else."""
    ordered = sorted(found, key=lambda row: -row[1])
    low = min(_LINES[0], min(ratio for _, ratio in ordered))
    high = max(_LINES[-1], max(ratio for _, ratio in ordered)) * 1.05

    def level(ratio: float) -> float:
        return round(10 + _HEIGHT * math.log(high / ratio) / math.log(high / low), 1)

    width = _SIDE + _BAR * len(ordered) + 10
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {_HEIGHT + _BELOW}" '
        f'role="img"><title>uncork beside OpenVINO: how many times as fast</title>',
        f"<style>{_STYLE}</style>",
    ]
    for line in _LINES:
        y = level(line)
        kind = ' class="one"' if line == 1 else ""
        parts.append(f'<line x1="{_SIDE}" y1="{y}" x2="{width}" y2="{y}"{kind}/>')
        parts.append(f'<text x="{_SIDE - 6}" y="{y + 4}" text-anchor="end">{line:g}x</text>')
    for i, (name, ratio) in enumerate(ordered):
        x, top, bottom = _SIDE + _BAR * i + 2, level(max(ratio, 1)), level(min(ratio, 1))
        kind = "faster" if ratio >= 1 else "slower"
        parts.append(
            f'<rect class="{kind}" x="{x}" y="{top}" width="{_BAR - 4}" '
            f'height="{max(1.0, round(bottom - top, 1))}"><title>{escape(name)}: {ratio:.2f}'
            f"</title></rect>"
        )
        x, y = x + _BAR // 2 + 1, _HEIGHT + 20
        parts.append(
            f'<text x="{x}" y="{y}" text-anchor="end" transform="rotate(-60 {x} {y})">'
            f"{escape(name.replace(', inputs ', ' '))}</text>"
        )
    return "\n".join([*parts, "</svg>"]) + "\n"


def write() -> None:
    """Write the figure and the sentence, from the page as it is."""
    page = PAGE.read_text(encoding="utf-8")
    FIGURE.write_text(figure(rows(page)), encoding="utf-8")
    text = README.read_text(encoding="utf-8")
    README.write_text(SENTENCE.sub(lambda _: sentence(page), text), encoding="utf-8")


if __name__ == "__main__":
    write()
