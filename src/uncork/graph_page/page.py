"""The page of a graph as one file: data, script and style, and nothing from elsewhere."""

from __future__ import annotations

from pathlib import Path

from uncork.graph_page.graph import Findings, graphs_of
from uncork.ir.model import Model
from uncork.quoting import in_html, in_script

#: How the file begins: what `--overwrite` knows it by.
BEGINNING = "<!DOCTYPE html>\n<!-- uncork show -->\n"
_HERE = Path(__file__).parent


def page(model: Model, title: str, findings: Findings) -> str:
    """The file's text."""
    graphs = graphs_of(model, findings)
    style, script = (
        (_HERE / name).read_text(encoding="utf-8") for name in ("graph.css", "graph.js")
    )
    return (
        f'{BEGINNING}<html lang="en"><head><meta charset="utf-8"><meta http-equiv='
        "\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
        'script-src \'unsafe-inline\'"><meta name="viewport" '
        f'content="width=device-width"><title>{in_html(title)}</title><style>{style}</style>'
        f"</head><body><header><h1>{in_html(title)}</h1>"
        '<input id="find" type="search" placeholder="find a layer" aria-label="find a layer">'
        '<button id="out" title="smaller">&minus;</button><button id="in" title="larger">+</button>'
        '<button id="fit" title="all of it">fit</button><span id="note"></span></header>'
        '<main><div id="view"></div><aside id="panel" hidden></aside></main>'
        f'<script type="application/json" id="data">{in_script(graphs)}</script>'
        f"<script>{script}</script></body></html>\n"
    )
