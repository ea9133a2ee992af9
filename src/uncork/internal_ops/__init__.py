"""Internal operations: operations that no model file has; passes make them, mostly of several
layers.

Their meaning is that of the layers, in order.
"""
