"""Compiled files as C: `write.py` writes a folder; the other files are what it puts there."""
