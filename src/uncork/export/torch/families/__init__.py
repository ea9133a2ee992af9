"""Lowerings to torch, one file per family of operations."""
