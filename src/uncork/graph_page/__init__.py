"""The graph of a model as one HTML file that needs no other: boxes and arrows, and at a click the
attributes, tensors, kernel and time of a layer.

`graph.py` says what a page shows, `layout.py` where each layer lies, `page.py` writes the file,
with `graph.js` and `graph.css` inside.
"""
