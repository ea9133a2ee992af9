"""Measurements against other systems, by one command: `python -m benchmarks --help`. What they
mean: docs/benchmarks.md.
"""
