"""Operations that no file has: passes make them of several layers.

Their meaning is that of the layers, in order.
"""
