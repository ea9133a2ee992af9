"""Ordinary models made into streams: frame by frame, with the state inside.

`flow.py` says what is followed through the graph, `walk.py` follows it, `writer.py` writes the
layers of the stream. How each operation streams stands in the files of rules, which `rules.py`
finds by type; `proof.py` holds a stream against the whole sequence.
"""
