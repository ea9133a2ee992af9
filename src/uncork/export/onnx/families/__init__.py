"""Lowerings, one file per family of operations."""
