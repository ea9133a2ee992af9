"""Operations that no file has: what passes make of several layers.

Their meaning is that of the layers, in order.
"""
