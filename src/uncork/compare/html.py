"""A comparison as one HTML file that needs no other: the conclusion, the results, every layer with
the histogram of its differences.
"""

from __future__ import annotations

from uncork.compare import Comparison
from uncork.compare.difference import BORDERS, Difference
from uncork.compare.report import HEADING, conclusion, counts, figures, row
from uncork.quoting import in_html

#: How the file begins: what `--overwrite` knows it by.
BEGINNING = "<!DOCTYPE html>\n<!-- uncork compare -->\n"

_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;margin:0 auto;max-width:84rem;padding:1.5rem;
color:#1c2430;background:#fff;overflow-wrap:anywhere}
h1{font-size:1.4rem;margin:0}h2{font-size:1.1rem;margin:2rem 0 .5rem}
.line{color:#596273;margin:.2rem 0 1rem}
.good,.bad{padding:.7rem 1rem;border-radius:.4rem;border-left:.3rem solid}
.good{background:#e9f6ee;border-color:#1f8a4c}.bad{background:#fdecec;border-color:#c62f2f}
.scroll{overflow-x:auto}table{border-collapse:collapse;width:100%;font-size:.8rem}
th{position:sticky;top:0;background:#f2f4f7;text-align:left}
th,td{padding:.25rem .5rem;border-bottom:1px solid #e3e7ec;white-space:nowrap}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}
td.name{max-width:22rem;overflow:hidden;text-overflow:ellipsis}
tr.differs td,tr.failed td{background:#fdecec}tr.unmatched td,tr.undefined td{color:#8b94a3}
svg{display:block}rect{fill:#5b7db1}label{user-select:none}
#only:checked~.layers tr.same,#only:checked~.layers tr.rounding,
#only:checked~.layers tr.unmatched{display:none}
@media(max-width:40rem){body{padding:1rem}td.name{max-width:11rem}}
@media(prefers-color-scheme:dark){
body{background:#14181f;color:#dde3ec}th{background:#222935}th,td{border-color:#2a3240}
.good{background:#14301f}.bad,tr.differs td,tr.failed td{background:#3a1a1c}.line{color:#93a0b4}}
"""


def page(found: Comparison) -> str:
    """The file's text."""
    kind = "good" if found.is_same else "bad"
    numbers = ", ".join(f"{count:,} {verdict}" for verdict, count in counts(found).items() if count)
    note = f"<p>{in_html(found.outputs_note)}</p>" if found.outputs_note else ""
    title = f"{in_html(found.model.source)} against {in_html(found.against)}"
    return (
        f'{BEGINNING}<html lang="en"><head><meta charset="utf-8"><meta name="viewport" '
        'content="width=device-width">'
        f"<title>{title}</title><style>{_STYLE}</style></head><body>"
        f'<h1>{title}</h1><p class="line">{numbers}</p><p '
        f'class="{kind}">{in_html(conclusion(found))}</p>{note}'
        f"{_outputs(found)}{_layers(found)}</body></html>\n"
    )


def _outputs(found: Comparison) -> str:
    if not found.outputs:
        return ""
    head = _head(["result", *HEADING[4:], "differences"], 1)
    lines = []
    for output in found.outputs:
        cells = [
            output.name,
            *figures(output.difference),
            output.verdict + (f": {output.reason}" if output.reason else ""),
        ]
        lines.append(
            "<tr "
            f'class="{output.verdict}">{_cells(cells, 1)}<td>{histogram(output.difference)}</'
            "td></tr>"
        )
    return (
        "<h2>Results of the whole model</h2><div "
        f'class="scroll"><table><tr>{head}</tr>{"".join(lines)}</table></div>'
    )


def _layers(found: Comparison) -> str:
    head = _head([*HEADING, "differences"], 4)
    lines = [
        "<tr "
        f'class="{layer.verdict}">{_cells(row(layer), 4)}<td>{histogram(layer.difference)}</'
        "td></tr>"
        for layer in found.layers
    ]
    return (
        '<h2>Layers</h2><p class="line">Each layer is run on what the other side gave to it: a '
        "difference is its own. The bars count "
        "values by their difference relative to the largest value, from below 1e-9 (left) to "
        "above 1.</p>"
        '<input type="checkbox" id="only"><label for="only"> only those that differ</label>'
        f'<div class="scroll layers"><table><tr>{head}</tr>{"".join(lines)}</table></div>'
    )


def _head(titles: list[str], first_number: int) -> str:
    numbers = range(first_number, first_number + 3)
    return "".join(
        f'<th class="{"n" if i in numbers else ""}">{in_html(title)}</th>'
        for i, title in enumerate(titles)
    )


def _cells(cells: list[str], first_number: int) -> str:
    numbers = range(first_number, first_number + 3)
    classes = [
        "n" if i in numbers else "name" if i == max(0, first_number - 3) else ""
        for i in range(len(cells))
    ]
    return "".join(
        f'<td class="{kind}" title="{in_html(cell)}">{in_html(cell)}</td>'
        for kind, cell in zip(classes, cells, strict=True)
    )


def histogram(found: Difference | None) -> str:
    """Bars for the counts of differences, as SVG."""
    if found is None or not found.histogram:
        return ""
    most = max(found.histogram)
    labels = [
        f"below {BORDERS[0]:g}",
        *(f"{low:g} to {10 * low:g}" for low in BORDERS[:-1]),
        f"above {BORDERS[-1]:g}",
    ]
    bars = []
    for i, (count, label) in enumerate(zip(found.histogram, labels, strict=True)):
        height = 0.0 if not count else max(1.0, 16.0 * count / most)
        bars.append(
            f'<rect x="{9 * i}" y="{16 - height:.1f}" width="8" '
            f'height="{height:.1f}"><title>{label}: {count:,}</title></rect>'
        )
    return f'<svg width="{9 * len(labels)}" height="16" role="img">{"".join(bars)}</svg>'
