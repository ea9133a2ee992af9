"""Searches of sorted rows: Bucketize and SearchSorted."""
