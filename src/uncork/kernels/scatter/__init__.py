"""Scatters and GatherND: places that indices name are replaced, joined with updates, or read."""
