"""Rewrites of a checked model, one a file: Model to Model, the same meaning in fewer or faster
steps.
"""
