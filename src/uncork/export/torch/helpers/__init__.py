"""Functions that the source of a module brings along; they are read as text, not imported."""
