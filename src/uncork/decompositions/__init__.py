"""Composite operations as functions over primitive ones, each stated once.

A composite is a function with `@composite("Type")` that takes the layers (`language.py`), the
operation and its inputs (None for an absent one) and returns the outputs. A system that has no such
operation gets its layers in its place.
"""
