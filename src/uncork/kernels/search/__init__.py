"""Where values belong in sorted rows: Bucketize and SearchSorted."""
