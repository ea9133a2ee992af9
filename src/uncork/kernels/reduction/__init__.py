"""Reductions over axes, softmax and normalization."""
