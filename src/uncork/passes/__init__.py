"""Rewrites of a checked model, one a file: the same meaning in fewer or faster steps."""
