"""Sums of rows of a table: plain, quantized, and of sparse ids."""
