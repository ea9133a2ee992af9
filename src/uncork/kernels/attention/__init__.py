"""Attention: queries against keys, softmax, sums of values, block by block."""
