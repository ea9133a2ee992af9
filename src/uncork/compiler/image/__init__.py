"""Plans as files: a model that was compiled once, and runs where nothing of the compiler is."""
