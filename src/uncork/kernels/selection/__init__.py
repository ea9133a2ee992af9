"""Single elements of rows: those at indices, the largest, the smallest."""
