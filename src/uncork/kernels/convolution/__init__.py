"""Convolutions, grouped and transposed ones included."""
