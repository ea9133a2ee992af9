"""Kernels of layers whose data tell the size of the result: NonZero, Unique and
SparseFillEmptyRows. One kernel counts, the next writes as many.
"""
