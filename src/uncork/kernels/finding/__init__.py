"""Layers whose result has a size that their data tell: NonZero, Unique and SparseFillEmptyRows, counted first."""
